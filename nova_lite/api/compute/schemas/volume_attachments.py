"""Schemas of /servers/{server_id}/os-volume_attachments."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers import DEVICE_TAG
from nova_lite.api.compute.schemas.shapes import BOOLEAN, MAYBE_STRING, STRING, closed, listing, wrapped
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.validation import multi

Json = dict[str, Any]

DEVICE: Json = {"type": ["string", "null"], "maxLength": 255, "pattern": r"^/dev/x?[a-z]?d?[a-z]+[0-9]*$"}


def _body(properties: Json) -> Json:
    return {"type": "object", "required": ["volumeAttachment"], "additionalProperties": False, "properties": {
        "volumeAttachment": {"type": "object", "required": ["volumeId"], "additionalProperties": False,
                             "properties": properties}}}


_CREATE: Json = {"volumeId": p.UUID, "device": DEVICE}
_CREATE_249: Json = {**_CREATE, "tag": DEVICE_TAG}
_CREATE_279: Json = {**_CREATE_249, "delete_on_termination": p.BOOLEAN}
CREATE: dict[str, Json] = {"2.1": _body(_CREATE), "2.49": _body(_CREATE_249), "2.79": _body(_CREATE_279)}
UPDATE: dict[str, Json] = {"2.1": _body({"volumeId": p.UUID}),
                           "2.85": _body({**_CREATE_279, "id": p.UUID, "serverId": p.UUID})}

_QUERY: Json = {"limit": multi(p.QUERY_NUMBER), "offset": multi(p.QUERY_NUMBER)}
INDEX_QUERY: dict[str, Json] = {
    "2.1": {"type": "object", "properties": _QUERY, "additionalProperties": True},
    "2.75": {"type": "object", "properties": _QUERY, "additionalProperties": False}}

_OLD: Json = {"id": p.UUID, "serverId": p.UUID, "volumeId": p.UUID, "device": MAYBE_STRING}
_TAGGED: Json = {**_OLD, "tag": MAYBE_STRING}
_FLAGGED: Json = {**_TAGGED, "delete_on_termination": BOOLEAN}
_NEW: Json = {**{name: schema for name, schema in _FLAGGED.items() if name != "id"}, "attachment_id": MAYBE_STRING,
              "bdm_uuid": STRING}
_VIEWS: dict[str, Json] = {"2.1": _OLD, "2.70": _TAGGED, "2.79": _FLAGGED, "2.89": _NEW}
SHOWN: dict[str, Json] = {v: wrapped("volumeAttachment", closed(view)) for v, view in _VIEWS.items()}
LISTED: dict[str, Json] = {v: listing("volumeAttachments", closed(view)) for v, view in _VIEWS.items()}
CREATED: dict[str, Json | None] = {"2.1": SHOWN["2.1"], "2.70": SHOWN["2.70"], "2.79": SHOWN["2.79"], "2.101": None}
