"""POST /servers/{server_id}/action: rescue and unrescue."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.server_actions import no_argument
from nova_lite.api.compute.schemas.servers import PASSWORD
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api.create import password_of
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

Json = dict[str, Any]
RESCUE: Json = {"type": "object", "required": ["rescue"], "additionalProperties": False, "properties": {
    "rescue": {"type": ["object", "null"], "additionalProperties": False,
               "properties": {"adminPass": PASSWORD, "rescue_image_ref": p.UUID}}}}
# without [api] enable_instance_password there is no password to tell
RESCUE_ANSWER: Json = {"type": "object", "additionalProperties": False, "properties": {"adminPass": {"type": "string"}}}

PATH = "/servers/{server_id}/action"


def rescue(req: Request, instance: Instance) -> dict[str, Any]:
    """Begin to boot the server from another disk; the answer is the password that it will have there."""
    asked = req.argument or {}
    password = None
    if req.services.conf.api.enable_instance_password:
        password = password_of(asked)
    req.services.compute.rescue(req.context, instance, asked.get("rescue_image_ref"), password, req.since("2.87"))
    return {"adminPass": password} if password is not None else {}


def unrescue(req: Request, instance: Instance) -> None:
    """Begin to boot the server from its own disk again."""
    req.services.compute.unrescue(req.context, instance.uuid)


ROUTES = [
    Route("POST", PATH, rescue, member("os_compute_api:os-rescue", "Rescue a server."), action="rescue", body=RESCUE,
          response=RESCUE_ANSWER),
    Route("POST", PATH, unrescue, member("os_compute_api:os-unrescue", "End the rescue of a server."), action="unrescue",
          body=no_argument("unrescue"), status=202),
]
