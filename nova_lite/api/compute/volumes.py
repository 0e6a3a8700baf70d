"""/os-volumes: the volumes of a project, for clients that know only this API (until 2.35)."""
from __future__ import annotations

from typing import Any

import webob

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import volumes as schema
from nova_lite.api.compute.schemas.shapes import LOCATION
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.volume import Volume
from nova_lite.policies.base import member, reader

LAST = "2.35"


def index(req: Request) -> dict[str, Any]:
    """The volumes of the project; briefly or in detail is the same here."""
    return {"volumes": [_view(one) for one in params.slice_of(req, req.services.volume.list_all(req.context))]}


def detail(req: Request) -> dict[str, Any]:
    """See ``index``."""
    return index(req)


def show(req: Request, volume_id: str) -> dict[str, Any]:
    """One volume."""
    return {"volume": _view(req.services.volume.get(req.context, volume_id))}


def create(req: Request) -> webob.Response:
    """A new volume, blank or of a snapshot."""
    wanted = req.json_in["volume"]
    size = units.number(str(wanted["size"]))
    if size is None:
        raise exception.InvalidInput(reason="the size is not a number of GiB")
    made = req.services.volume.create(
        req.context, size, wanted.get("display_name", ""), wanted.get("display_description", ""),
        snapshot_id=wanted.get("snapshot_id"), volume_type=wanted.get("volume_type"),
        availability_zone=wanted.get("availability_zone"),
        metadata={name: str(value) for name, value in wanted.get("metadata", {}).items()})
    return webob.Response(json_body={"volume": _view(made)}, location=req.link("self", "os-volumes", made.id))


def delete(req: Request, volume_id: str) -> None:
    """Remove an unused volume."""
    found = req.services.volume.get(req.context, volume_id)
    req.services.volume.delete(req.context, found.id)


def _view(volume: Volume) -> dict[str, Any]:
    # a volume without a server has one attachment without anything, and only the first of several is shown
    attachments: list[dict[str, str]] = [{}]
    if volume.attachments:
        attachments = [{"id": volume.id, "volumeId": volume.id, "serverId": volume.attachments[0]["server_id"]}]
    return {"id": volume.id, "status": volume.status, "size": volume.size, "availabilityZone": volume.availability_zone,
            "createdAt": volume.created_at, "attachments": attachments, "displayName": volume.name,
            "displayDescription": volume.description, "volumeType": volume.volume_type, "snapshotId": volume.snapshot_id,
            "metadata": volume.metadata}


_RULE = "os_compute_api:os-volumes"
ROUTES = [
    Route("GET", "/os-volumes", index, reader(f"{_RULE}:list", "List volumes."), last=LAST, query=schema.LIST_QUERY,
          response=schema.LIST),
    Route("POST", "/os-volumes", create, member(f"{_RULE}:create", "Create a volume."), last=LAST, body=schema.CREATE,
          response=schema.SHOW, headers=LOCATION),
    Route("GET", "/os-volumes/detail", detail, reader(f"{_RULE}:detail", "List volumes with details."), last=LAST,
          query=schema.LIST_QUERY, response=schema.LIST),
    Route("GET", "/os-volumes/{volume_id}", show, reader(f"{_RULE}:show", "Show a volume."), last=LAST, response=schema.SHOW),
    Route("DELETE", "/os-volumes/{volume_id}", delete, member(f"{_RULE}:delete", "Delete a volume."), last=LAST,
          response=schema.NOTHING, status=202),
]
