"""POST /servers/{server_id}/action: shelve, shelveOffload, unshelve and restore."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.server_actions import no_argument
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api.shelve import KEEP
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, member

Json = dict[str, Any]
_ZONE: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}


def _unshelve(argument: Json) -> Json:
    return {"type": "object", "required": ["unshelve"], "additionalProperties": False, "properties": {"unshelve": argument}}


def _place(properties: Json, required: list[str]) -> Json:
    return {"type": ["object", "null"], "additionalProperties": False, "properties": properties, "required": required}


UNSHELVE: dict[str, Json] = {
    "2.1": no_argument("unshelve"),
    "2.77": _unshelve(_place({"availability_zone": _ZONE}, ["availability_zone"])),
    "2.91": _unshelve(_place({"availability_zone": {"oneOf": [_ZONE, {"type": "null"}]}, "host": p.HOST}, []))}

PATH = "/servers/{server_id}/action"
RULE = "os_compute_api:os-shelve:"
_TO_HOST = admin(f"{RULE}unshelve_to_host", "Unshelve a server to a named host (2.91).",
                 "POST /servers/{server_id}/action (unshelve)")


def shelve(req: Request, instance: Instance) -> None:
    """Begin to shelve the server."""
    req.services.compute.shelve(req.context, instance)


def shelve_offload(req: Request, instance: Instance) -> None:
    """Begin to take the shelved server off its host."""
    req.services.compute.shelve_offload(req.context, instance.uuid)


def unshelve(req: Request, instance: Instance) -> None:
    """Begin to bring the server back: where the scheduler likes, in a zone (2.77), or on a host (2.91)."""
    asked = req.argument if req.since("2.77") and isinstance(req.argument, dict) else {}
    host = asked.get("host")
    if host is not None:
        req.can(_TO_HOST, instance)
    req.services.compute.unshelve(req.context, instance, asked.get("availability_zone", KEEP), host)


def restore(req: Request, instance: Instance) -> None:
    """Begin to bring a soft-deleted server back."""
    req.services.compute.restore(req.context, instance.uuid)


ROUTES = [
    Route("POST", PATH, shelve, member(f"{RULE}shelve", "Shelve a server."), action="shelve", body=no_argument("shelve"),
          status=202),
    Route("POST", PATH, shelve_offload, admin(f"{RULE}shelve_offload", "Take a shelved server off its host."),
          action="shelveOffload", body=no_argument("shelveOffload"), status=202),
    Route("POST", PATH, unshelve, member(f"{RULE}unshelve", "Unshelve a server."), action="unshelve", body=UNSHELVE,
          status=202),
    Route("POST", PATH, restore, member("os_compute_api:os-deferred-delete:restore", "Restore a soft-deleted server."),
          action="restore", body=no_argument("restore"), status=202),
]
RULES = [_TO_HOST]
