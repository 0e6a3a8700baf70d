"""/os-snapshots: the snapshots of a project's volumes, for clients that know only this API (until 2.35)."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import volumes as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.volume import Snapshot
from nova_lite.policies.base import member, reader

LAST = "2.35"


def index(req: Request) -> dict[str, Any]:
    """The snapshots of the project; briefly or in detail is the same here."""
    return {"snapshots": [_view(one) for one in params.slice_of(req, req.services.volume.list_snapshots(req.context))]}


def detail(req: Request) -> dict[str, Any]:
    """See ``index``."""
    return index(req)


def show(req: Request, snapshot_id: str) -> dict[str, Any]:
    """One snapshot."""
    return {"snapshot": _view(req.services.volume.get_snapshot(req.context, snapshot_id))}


def create(req: Request) -> dict[str, Any]:
    """A new snapshot; with ``force`` even of a volume that is in use."""
    wanted = req.json_in["snapshot"]
    made = req.services.volume.create_snapshot(
        req.context, wanted["volume_id"], wanted.get("display_name", ""), wanted.get("display_description", ""),
        strutils.bool_from_string(wanted.get("force", False), strict=True))
    return {"snapshot": _view(made)}


def delete(req: Request, snapshot_id: str) -> None:
    """Remove a snapshot."""
    found = req.services.volume.get_snapshot(req.context, snapshot_id)
    req.services.volume.delete_snapshot(req.context, found.id)


def _view(snapshot: Snapshot) -> dict[str, Any]:
    return {"id": snapshot.id, "volumeId": snapshot.volume_id, "status": snapshot.status, "size": snapshot.size,
            "createdAt": snapshot.created_at, "displayName": snapshot.name, "displayDescription": snapshot.description}


_RULE = "os_compute_api:os-volumes:snapshots"
ROUTES = [
    Route("GET", "/os-snapshots", index, reader(f"{_RULE}:list", "List snapshots."), last=LAST, query=schema.LIST_QUERY,
          response=schema.SNAPSHOTS),
    Route("POST", "/os-snapshots", create, member(f"{_RULE}:create", "Create a snapshot."), last=LAST,
          body=schema.CREATE_SNAPSHOT, response=schema.SNAPSHOT),
    Route("GET", "/os-snapshots/detail", detail, reader(f"{_RULE}:detail", "List snapshots with details."), last=LAST,
          query=schema.LIST_QUERY, response=schema.SNAPSHOTS),
    Route("GET", "/os-snapshots/{snapshot_id}", show, reader(f"{_RULE}:show", "Show a snapshot."), last=LAST,
          response=schema.SNAPSHOT),
    Route("DELETE", "/os-snapshots/{snapshot_id}", delete, member(f"{_RULE}:delete", "Delete a snapshot."), last=LAST,
          response=schema.NOTHING, status=202),
]
