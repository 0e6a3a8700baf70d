"""Schemas of /servers/{server_id}/os-instance-actions."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.validation import single

Json = dict[str, Any]

_TIME: Json = {"type": "string", "format": "date-time"}
_paged: Json = {"limit": single(p.QUERY_LIMIT), "marker": single({"type": "string", "maxLength": 255}),
                "changes-since": single(_TIME)}
_open: Json = {"type": "object", "properties": {}, "additionalProperties": True}
LIST_QUERY: dict[str, Json] = {
    "2.1": _open,
    "2.58": {"type": "object", "properties": _paged, "additionalProperties": False},
    "2.66": {"type": "object", "properties": {**_paged, "changes-before": single(_TIME)}, "additionalProperties": False}}

_OPTIONAL: Json = {"type": ["string", "null"]}
_MOMENT: Json = {"type": ["string", "null"], "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"}


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False,
            "required": [name for name in properties if name not in optional]}


_EVENT: Json = {"event": p.STRING, "start_time": _MOMENT, "finish_time": _MOMENT, "result": _OPTIONAL,
                "traceback": _OPTIONAL}
_ACTION: Json = {"action": p.STRING, "instance_uuid": p.UUID, "message": _OPTIONAL, "project_id": _OPTIONAL,
                 "request_id": p.STRING, "start_time": _MOMENT, "user_id": _OPTIONAL}
_UPDATED: Json = {"updated_at": _MOMENT}
LIST: dict[str, Json] = {
    "2.1": _object({"instanceActions": {"type": "array", "items": _object(_ACTION)}}),
    "2.58": _object({"instanceActions": {"type": "array", "items": _object(_ACTION | _UPDATED)},
                     "links": p.links(["next"])}, ("links",))}


def _show(action: Json, event: Json, optional: tuple[str, ...], events: bool) -> Json:
    shown = {**action, "events": {"type": "array", "items": _object(event, optional)}}
    return _object({"instanceAction": _object(shown, () if events else ("events",))})


_HOSTS: Json = {"host": _OPTIONAL, "hostId": p.STRING}
SHOW: dict[str, Json] = {
    "2.1": _show(_ACTION, _EVENT, (), False),
    "2.51": _show(_ACTION, _EVENT, ("traceback",), True),
    "2.58": _show(_ACTION | _UPDATED, _EVENT, ("traceback",), True),
    "2.62": _show(_ACTION | _UPDATED, _EVENT | _HOSTS, ("traceback", "host"), True),
    "2.84": _show(_ACTION | _UPDATED, _EVENT | _HOSTS | {"details": _OPTIONAL}, ("traceback", "host", "details"), True)}
