"""/os-assisted-volume-snapshots: for the Volume service, whose volumes in files are open in guests."""
from __future__ import annotations

from typing import Any

from nova_lite import exception, json_in
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.validation import multi
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import service

_TEXT: shapes.Json = {"type": "string", "minLength": 1, "pattern": r"^[^\x00]*$"}
_INFO = shapes.closed({"snapshot_id": _TEXT, "type": {"type": "string", "enum": ["qcow2"]}, "new_file": _TEXT}, {"id": _TEXT})
CREATE = shapes.wrapped("snapshot", shapes.closed({"volume_id": _TEXT, "create_info": _INFO}))
CREATED = shapes.wrapped("snapshot", shapes.closed({"id": shapes.MAYBE_STRING, "volumeId": shapes.STRING}))
_QUERY: shapes.Json = {"type": "object", "properties": {"delete_info": multi(p.STRING)}}
DELETE_QUERY = {"2.1": {**_QUERY, "additionalProperties": True}, "2.75": {**_QUERY, "additionalProperties": False}}

PATH = "/os-assisted-volume-snapshots"
_RULE = "os_compute_api:os-assisted-volume-snapshots:"


def create(req: Request) -> dict[str, Any]:
    """Begin a snapshot of a volume that a guest has."""
    wanted = req.json_in["snapshot"]
    volume_id, info = wanted["volume_id"], wanted["create_info"]
    req.services.compute.volume_snapshot_create(req.context, volume_id, info)
    return {"snapshot": {"id": info.get("id"), "volumeId": volume_id}}


def delete(req: Request, snapshot_id: str) -> None:
    """Begin to merge the file of a snapshot; ``delete_info`` in the query says which into which."""
    try:
        info = json_in.loads(params.last(req, "delete_info") or "")
        json_in.check_texts(info)
        volume_id = info["volume_id"]
    except (ValueError, KeyError, TypeError):
        raise exception.Invalid("delete_info must be a JSON object with volume_id") from None
    req.services.compute.volume_snapshot_delete(req.context, str(volume_id), snapshot_id, info)


ROUTES = [
    Route("POST", PATH, create, service(f"{_RULE}create", "Create an assisted volume snapshot."), body=CREATE,
          response=CREATED),
    Route("DELETE", PATH + "/{snapshot_id}", delete, service(f"{_RULE}delete", "Delete an assisted volume snapshot."),
          query=DELETE_QUERY, status=204),
]
