"""/servers/{server_id}/metadata: names and values of the user's own."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas.servers import METADATA
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member, reader

Json = dict[str, Any]

BODY: Json = {"type": "object", "properties": {"metadata": METADATA}, "required": ["metadata"],
              "additionalProperties": False}
ITEM: Json = {"type": "object", "properties": {"meta": {**METADATA, "minProperties": 1, "maxProperties": 1}},
              "required": ["meta"], "additionalProperties": False}

RULE = "os_compute_api:server-metadata:"
PATH = "/servers/{server_id}/metadata"
Metadata = dict[str, str]


def index(_req: Request, instance: Instance) -> dict[str, Any]:
    """All items."""
    return {"metadata": instance.metadata}


def create(req: Request, instance: Instance) -> dict[str, Any]:
    """Add items or change their values."""
    given: Metadata = req.json_in["metadata"]
    return {"metadata": req.services.compute.set_metadata(req.context, instance.uuid, lambda known: {**known, **given})}


def update_all(req: Request, instance: Instance) -> dict[str, Any]:
    """Make the body's items the only ones."""
    given: Metadata = req.json_in["metadata"]
    return {"metadata": req.services.compute.set_metadata(req.context, instance.uuid, lambda known: given)}


def show(_req: Request, instance: Instance, key: str) -> dict[str, Any]:
    """One item."""
    if key not in instance.metadata:
        raise exception.MetadataItemNotFound()
    return {"meta": {key: instance.metadata[key]}}


def update(req: Request, instance: Instance, key: str) -> dict[str, Any]:
    """Add one item or change its value."""
    given: Metadata = req.json_in["meta"]
    if key not in given:
        raise exception.Invalid("Request body and URI mismatch")
    req.services.compute.set_metadata(req.context, instance.uuid, lambda known: {**known, **given})
    return {"meta": given}


def delete(req: Request, instance: Instance, key: str) -> None:
    """Remove one item."""

    def without(known: Metadata) -> Metadata:
        if key not in known:
            raise exception.MetadataItemNotFound()
        return {name: value for name, value in known.items() if name != key}

    req.services.compute.set_metadata(req.context, instance.uuid, without)


ROUTES = [
    Route("GET", PATH, index, reader(f"{RULE}index", "List the metadata of a server."), response=BODY),
    Route("POST", PATH, create, member(f"{RULE}create", "Add metadata items to a server."), body=BODY,
          response=BODY),
    Route("PUT", PATH, update_all, member(f"{RULE}update_all", "Replace the metadata of a server."), body=BODY,
          response=BODY),
    Route("GET", PATH + "/{key}", show, reader(f"{RULE}show", "Show a metadata item of a server."), response=ITEM),
    Route("PUT", PATH + "/{key}", update, member(f"{RULE}update", "Set a metadata item of a server."), body=ITEM,
          response=ITEM),
    Route("DELETE", PATH + "/{key}", delete, member(f"{RULE}delete", "Delete a metadata item of a server."), status=204),
]
