"""POST /servers/{server_id}/action: evacuate."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.compute.schemas import servers
from nova_lite.api.compute.schemas.shapes import NO_BODY
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api.create import password_of
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin

Json = dict[str, Any]


def _body(more: Json, *required: str) -> Json:
    properties = {"host": p.HOST, "adminPass": servers.PASSWORD, **more}
    argument = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", "properties": {"evacuate": argument}, "required": ["evacuate"], "additionalProperties": False}


EVACUATE = {"2.1": _body({"onSharedStorage": p.BOOLEAN}, "onSharedStorage"), "2.14": _body({}),
            "2.29": _body({"force": p.BOOLEAN}), "2.68": _body({})}
# null where none of it is shown: [api] enable_instance_password. Not "type": a list, on which schemathesis 4.32 breaks off here
_ANSWER: Json = {"anyOf": [{"type": "object", "properties": {"adminPass": {"type": ["string", "null"]}},
                            "required": ["adminPass"], "additionalProperties": False}, {"type": "null"}]}
EVACUATE_ANSWER = {"2.1": _ANSWER, "2.14": NO_BODY}

PATH = "/servers/{server_id}/action"


def evacuate(req: Request, instance: Instance) -> dict[str, Any] | None:
    """Build a server of a dead host again on another host. The hosts find out whether disks are shared; until 2.13 the user
    says so, and then the password in the disk cannot be changed."""
    asked = req.argument
    shared = not req.since("2.14") and strutils.bool_from_string(asked["onSharedStorage"], strict=True)
    if shared and "adminPass" in asked:
        raise exception.Invalid("admin password can't be changed on existing disk")
    password = None if shared else password_of(asked)
    host = asked.get("host")
    forced = strutils.bool_from_string(asked.get("force", False), strict=True)
    if forced and not host:
        raise exception.Invalid("force needs the host that the server is forced onto")
    force = host is not None and (forced or not req.since("2.29"))
    req.services.compute.evacuate(req.context, instance, host, force, req.since("2.95"), password)
    if req.since("2.14") or not req.services.conf.api.enable_instance_password:
        return None
    return {"adminPass": password}


ROUTES = [
    Route("POST", PATH, evacuate, admin("os_compute_api:os-evacuate", "Rebuild a server of a failed host elsewhere."),
          action="evacuate", body=EVACUATE, response=EVACUATE_ANSWER, status=200),
]
