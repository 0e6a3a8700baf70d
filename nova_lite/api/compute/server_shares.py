"""/servers/{server_id}/shares: shares of files of a server (since 2.97)."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api import shares
from nova_lite.objects.instance import Instance
from nova_lite.objects.share import ShareAttachment
from nova_lite.policies.base import member, reader

Json = shapes.Json
TAG: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"}
CREATE = shapes.wrapped("share", shapes.closed({"share_id": p.UUID}, {"tag": TAG}))
NO_QUERY: Json = {"type": "object", "properties": {}, "additionalProperties": False}
_STATUS: Json = {"type": "string", "enum": ["active", "inactive", "attaching", "detaching", "error"]}
_BRIEF: Json = {"share_id": p.UUID, "status": _STATUS, "tag": TAG}
LIST = shapes.listing("shares", shapes.closed(_BRIEF))
SHARE = shapes.wrapped("share", shapes.closed(_BRIEF, {"uuid": p.UUID, "export_location": shapes.MAYBE_STRING}))

FIRST, PATH = "2.97", "/servers/{server_id}/shares"
_RULE = "os_compute_api:os-server-shares:"


def index(_req: Request, instance: Instance) -> dict[str, Any]:
    """All shares of a server."""
    return {"shares": [_brief(share) for share in instance.shares]}


def show(req: Request, instance: Instance, share_id: str) -> dict[str, Any]:
    """One share."""
    return {"share": _full(req, shares.find(instance, share_id))}


def create(req: Request, instance: Instance) -> dict[str, Any]:
    """Give a stopped server a share; its guest has it from its next start on."""
    wanted = req.json_in["share"]
    made = req.services.compute.attach_share(req.context, instance, wanted["share_id"], wanted.get("tag"))
    return {"share": _full(req, made)}


def delete(req: Request, instance: Instance, share_id: str) -> None:
    """Take a share from a stopped server."""
    req.services.compute.detach_share(req.context, instance, share_id)


def _brief(share: ShareAttachment) -> dict[str, Any]:
    return {"share_id": share.share_id, "status": share.status, "tag": share.tag}


def _full(req: Request, share: ShareAttachment) -> dict[str, Any]:
    if not req.context.is_admin:
        return _brief(share)
    return _brief(share) | {"uuid": share.uuid, "export_location": share.export_location}


ROUTES = [
    Route("GET", PATH, index, reader(f"{_RULE}index", "List the shares of a server."), first=FIRST, query=NO_QUERY,
          response=LIST),
    Route("POST", PATH, create, member(f"{_RULE}create", "Attach a share to a server."), first=FIRST, body=CREATE,
          response=SHARE, status=201),
    Route("GET", PATH + "/{share_id}", show, reader(f"{_RULE}show", "Show a share of a server."), first=FIRST,
          query=NO_QUERY, response=SHARE),
    Route("DELETE", PATH + "/{share_id}", delete, member(f"{_RULE}delete", "Detach a share from a server."), first=FIRST,
          response=shapes.NO_BODY),
]
