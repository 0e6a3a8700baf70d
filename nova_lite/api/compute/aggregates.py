"""/os-aggregates: groups of hosts, and the availability zones that some of them are."""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute.schemas import aggregates as schema
from nova_lite.api.compute.schemas.shapes import NO_BODY
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import aggregates
from nova_lite.policies.base import admin

# metadata of aggregates that has an effect in some version of Nova and none here -> what has that effect here
_NO_EFFECT = {
    r"(cpu|ram|disk)_allocation_ratio": "it is no matter of an aggregate; set it in [compute] of its hosts",
    r"[a-z_]+_weight_multiplier": "it is no matter of an aggregate; set it in [scheduler] weight_multipliers",
    r"filter_tenant_id.*": "no filter keeps hosts for projects; give a flavor of these projects alone an extra spec "
                           "aggregate_instance_extra_specs:...",
    r"max_(instances|io_ops)_per_host": "no filter counts the servers or builds of a host",
    r"trait:.+": "there is no Placement; aggregate_instance_extra_specs:... of flavors chooses hosts"}


def index(req: Request) -> dict[str, Any]:
    """All aggregates."""
    with req.services.db.read() as conn:
        return {"aggregates": [_view(req, aggregate) for aggregate in aggregates.list_all(conn)]}


def create(req: Request) -> dict[str, Any]:
    """A new aggregate; the answer leaves out hosts and metadata, as it always has."""
    body = req.json_in["aggregate"]
    view = _view(req, req.services.db.write(aggregates.create, body["name"], body.get("availability_zone")))
    return {"aggregate": {key: value for key, value in view.items() if key not in ("hosts", "metadata")}}


def show(req: Request, aggregate_id: str) -> dict[str, Any]:
    """One aggregate."""
    with req.services.db.read() as conn:
        return {"aggregate": _view(req, aggregates.get(conn, _number(aggregate_id)))}


def update(req: Request, aggregate_id: str) -> dict[str, Any]:
    """Another name or zone."""
    body = req.json_in["aggregate"]
    metadata = {aggregates.ZONE: body["availability_zone"]} if "availability_zone" in body else None
    name = body["name"].strip() if "name" in body else None
    return _changed(req, aggregates.update, aggregate_id, name, metadata)


def delete(req: Request, aggregate_id: str) -> None:
    """Remove an empty aggregate."""
    req.services.db.write(aggregates.delete, _number(aggregate_id))


def add_host(req: Request, aggregate_id: str) -> dict[str, Any]:
    """Put a host in."""
    return _changed(req, aggregates.add_host, aggregate_id, req.argument["host"])


def remove_host(req: Request, aggregate_id: str) -> dict[str, Any]:
    """Take a host out."""
    return _changed(req, aggregates.remove_host, aggregate_id, req.argument["host"])


def set_metadata(req: Request, aggregate_id: str) -> dict[str, Any]:
    """Merge metadata; null removes a key."""
    for key, value in req.argument["metadata"].items():
        for name, reason in _NO_EFFECT.items():
            if value is not None and re.fullmatch(name, key):
                raise exception.InvalidInput(reason=f"{key}={value}: {reason}")
    return _changed(req, aggregates.update, aggregate_id, None, req.argument["metadata"])


def cache_images(req: Request, aggregate_id: str) -> None:
    """Let the hosts fetch images that their servers will ask for. Hosts that are down are left out."""
    ids = [image["id"] for image in req.json_in["cache"]]
    if len(set(ids)) < len(ids):
        raise exception.Invalid("Duplicate images in request")
    with req.services.db.read() as conn:
        aggregate = aggregates.get(conn, _number(aggregate_id))
    req.services.compute.cache_images(req.context, aggregate["hosts"], ids)


def _number(aggregate_id: str) -> int:
    """Raises InvalidInput for a value that is not a number. A negative number matches no aggregate."""
    number = units.number(aggregate_id.removeprefix("-"))
    if number is None:
        raise exception.InvalidInput(reason=f"'{aggregate_id}' is not the number of an aggregate")
    return -number if aggregate_id.startswith("-") else number


def _changed(req: Request, function: Any, aggregate_id: str, *args: Any) -> dict[str, Any]:
    return {"aggregate": _view(req, req.services.db.write(function, _number(aggregate_id), *args))}


def _view(req: Request, aggregate: Mapping[str, Any]) -> dict[str, Any]:
    view = {"id": aggregate["id"], "name": aggregate["name"], "hosts": aggregate["hosts"],
            "metadata": aggregate["metadata"], "availability_zone": aggregate["metadata"].get(aggregates.ZONE),
            "created_at": units.isotime_micro(aggregate["created_at"]),
            "updated_at": units.isotime_micro(aggregate["updated_at"]), "deleted": False, "deleted_at": None}
    if req.since("2.41"):
        view["uuid"] = aggregate["uuid"]
    return view


_RULE = "os_compute_api:os-aggregates"
_ONE = "/os-aggregates/{aggregate_id}"
ROUTES = [
    Route("GET", "/os-aggregates", index, admin(f"{_RULE}:index", "List aggregates."), response=schema.LIST),
    Route("POST", "/os-aggregates", create, admin(f"{_RULE}:create", "Create an aggregate."), body=schema.CREATE,
          response=schema.NEW),
    Route("GET", _ONE, show, admin(f"{_RULE}:show", "Show an aggregate."), response=schema.AGGREGATE),
    Route("PUT", _ONE, update, admin(f"{_RULE}:update", "Change name or zone of an aggregate."), body=schema.UPDATE,
          response=schema.AGGREGATE),
    Route("DELETE", _ONE, delete, admin(f"{_RULE}:delete", "Delete an aggregate."), response=NO_BODY),
    Route("POST", f"{_ONE}/action", add_host, admin(f"{_RULE}:add_host", "Add a host to an aggregate."), action="add_host",
          body=schema.ADD_HOST, response=schema.AGGREGATE),
    Route("POST", f"{_ONE}/action", remove_host, admin(f"{_RULE}:remove_host", "Take a host out of an aggregate."),
          action="remove_host", body=schema.REMOVE_HOST, response=schema.AGGREGATE),
    Route("POST", f"{_ONE}/action", set_metadata, admin(f"{_RULE}:set_metadata", "Set or remove the metadata of an aggregate."),
          action="set_metadata", body=schema.SET_METADATA, response=schema.AGGREGATE),
    Route("POST", f"{_ONE}/images", cache_images,
          admin("compute:aggregates:images", "Cache images on the hosts of an aggregate."), first="2.81", body=schema.CACHE,
          status=202),
]
