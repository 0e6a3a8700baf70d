"""/os-snapshots: the snapshots of a project's volumes, for clients that know only this API (until 2.35)."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import volumes as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.volume import Snapshot

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
    Route("GET", "/os-snapshots", index, f"{_RULE}:list", last=LAST, query=schema.LIST_QUERY, response=schema.SNAPSHOTS),
    Route("POST", "/os-snapshots", create, f"{_RULE}:create", last=LAST, body=schema.CREATE_SNAPSHOT, response=schema.SNAPSHOT),
    Route("GET", "/os-snapshots/detail", detail, f"{_RULE}:detail", last=LAST, query=schema.LIST_QUERY,
          response=schema.SNAPSHOTS),
    Route("GET", "/os-snapshots/{snapshot_id}", show, f"{_RULE}:show", last=LAST, response=schema.SNAPSHOT),
    Route("DELETE", "/os-snapshots/{snapshot_id}", delete, f"{_RULE}:delete", last=LAST, response=schema.NOTHING, status=202),
]
