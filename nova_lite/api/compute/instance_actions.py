"""/servers/{server_id}/os-instance-actions: the actions of a server, also of a deleted one (2.21)."""
from __future__ import annotations

from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import instance_actions as schema
from nova_lite.api.compute.views import instance_actions as view
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import actions
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, reader

RULE = "os_compute_api:os-instance-actions:"
PATH = "/servers/{server_id}/os-instance-actions"
_EVENTS = admin(f"{RULE}events", "See the events of an action with their tracebacks.", f"GET {PATH}/{{request_id}}")
_DETAILS = admin(f"{RULE}events:details", "See the details of failed events (2.84).", f"GET {PATH}/{{request_id}}")


def _server(req: Request, server_id: str) -> Instance:
    return req.services.compute.get(req.context, server_id, deleted=req.since("2.21"))


def index(req: Request, instance: Instance) -> dict[str, Any]:
    """Actions, newest first; in pages from 2.58 on."""
    paging: dict[str, Any] = {}
    if req.since("2.58"):
        paging = {"limit": pagination.limit(req), "marker": pagination.marker(req),
                  "changes_since": _time(req, "changes-since")}
    if req.since("2.66"):
        paging["changes_before"] = _time(req, "changes-before")
        if paging["changes_since"] and paging["changes_before"] and paging["changes_since"] > paging["changes_before"]:
            raise exception.Invalid("The value of changes-since must be less than or equal to changes-before.")
    with req.services.db.read() as connection:
        found = actions.list_for_instance(connection, instance.uuid, **paging)
    answer: dict[str, Any] = {"instanceActions": [view.action(req, record) for record in found]}
    if paging:
        more = pagination.next_links(req, "more", [a.request_id for a in found], "servers", instance.uuid,
                                     "os-instance-actions")
        if more:
            answer["links"] = more["more_links"]
    return answer


def _time(req: Request, name: str) -> Any:
    text = params.last(req, name)
    return units.parse_time(text) if text else None


def show(req: Request, instance: Instance, request_id: str) -> dict[str, Any]:
    """One action. Admins see its events; from 2.51 on all users do, without tracebacks."""
    with req.services.db.read() as connection:
        record = actions.get_by_request_id(connection, instance.uuid, request_id)
        events = actions.events_of(connection, record.id)
    shown = view.action(req, record)
    traceback = req.can(_EVENTS, instance, fatal=False)
    details = req.can(_DETAILS, instance, fatal=False)
    if traceback or req.since("2.51"):
        shown["events"] = [view.event(req, row, instance.project_id, traceback, details) for row in events]
    return {"instanceAction": shown}


ROUTES = [
    Route("GET", PATH, index, reader(f"{RULE}list", "List the actions of a server."), query=schema.LIST_QUERY,
          response=schema.LIST, server=_server),
    Route("GET", PATH + "/{request_id}", show, reader(f"{RULE}show", "Show an action of a server."), response=schema.SHOW,
          server=_server),
]
RULES = [_EVENTS, _DETAILS]
