"""/servers/{server_id}/shares: shares of files of a server (since 2.97)."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import server_shares as schema
from nova_lite.api.compute.schemas.shapes import NO_BODY
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api import shares
from nova_lite.objects.instance import Instance
from nova_lite.objects.share import ShareAttachment
from nova_lite.policies.base import member, reader

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
    Route("GET", PATH, index, reader(f"{_RULE}index", "List the shares of a server."), first=FIRST, query=schema.NO_QUERY,
          response=schema.LIST),
    Route("POST", PATH, create, member(f"{_RULE}create", "Attach a share to a server."), first=FIRST, body=schema.CREATE,
          response=schema.SHARE, status=201),
    Route("GET", PATH + "/{share_id}", show, reader(f"{_RULE}show", "Show a share of a server."), first=FIRST,
          query=schema.NO_QUERY, response=schema.SHARE),
    Route("DELETE", PATH + "/{share_id}", delete, member(f"{_RULE}delete", "Detach a share from a server."), first=FIRST,
          response=NO_BODY),
]
