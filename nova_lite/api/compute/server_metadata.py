"""/servers/{server_id}/metadata: names and values of the user's own."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import server_metadata as schema
from nova_lite.api.compute.servers import find
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

RULE = "os_compute_api:server-metadata:"
PATH = "/servers/{server_id}/metadata"
Metadata = dict[str, str]


def index(req: Request, server_id: str) -> dict[str, Any]:
    """All items."""
    return {"metadata": find(req, server_id, f"{RULE}index").metadata}


def create(req: Request, server_id: str) -> dict[str, Any]:
    """Add items or change their values."""
    find(req, server_id, f"{RULE}create")
    given: Metadata = req.json_in["metadata"]
    return {"metadata": req.services.compute.set_metadata(req.context, server_id, lambda known: {**known, **given})}


def update_all(req: Request, server_id: str) -> dict[str, Any]:
    """Make the body's items the only ones."""
    find(req, server_id, f"{RULE}update_all")
    given: Metadata = req.json_in["metadata"]
    return {"metadata": req.services.compute.set_metadata(req.context, server_id, lambda known: given)}


def show(req: Request, server_id: str, key: str) -> dict[str, Any]:
    """One item."""
    metadata = find(req, server_id, f"{RULE}show").metadata
    if key not in metadata:
        raise exception.MetadataItemNotFound()
    return {"meta": {key: metadata[key]}}


def update(req: Request, server_id: str, key: str) -> dict[str, Any]:
    """Add one item or change its value."""
    find(req, server_id, f"{RULE}update")
    given: Metadata = req.json_in["meta"]
    if key not in given:
        raise exception.Invalid("Request body and URI mismatch")
    req.services.compute.set_metadata(req.context, server_id, lambda known: {**known, **given})
    return {"meta": given}


def delete(req: Request, server_id: str, key: str) -> None:
    """Remove one item."""
    find(req, server_id, f"{RULE}delete")

    def without(known: Metadata) -> Metadata:
        if key not in known:
            raise exception.MetadataItemNotFound()
        return {name: value for name, value in known.items() if name != key}

    req.services.compute.set_metadata(req.context, server_id, without)


ROUTES = [
    Route("GET", PATH, index, f"{RULE}index", response=schema.BODY),
    Route("POST", PATH, create, f"{RULE}create", body=schema.BODY, response=schema.BODY),
    Route("PUT", PATH, update_all, f"{RULE}update_all", body=schema.BODY, response=schema.BODY),
    Route("GET", PATH + "/{key}", show, f"{RULE}show", response=schema.ITEM),
    Route("PUT", PATH + "/{key}", update, f"{RULE}update", body=schema.ITEM, response=schema.ITEM),
    Route("DELETE", PATH + "/{key}", delete, f"{RULE}delete", status=204),
]
