"""/flavors."""
from __future__ import annotations

import uuid
from typing import Any

from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import flavors as schema
from nova_lite.api.compute.views import flavors as view
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import flavors
from nova_lite.objects.flavor import Flavor
from nova_lite.policies.base import admin

SORT_KEYS = {"created_at", "description", "disabled", "ephemeral_gb", "flavorid", "id", "is_public", "memory_mb", "name",
             "root_gb", "rxtx_factor", "swap", "updated_at", "vcpus", "vcpu_weight"}
MAX_FACTOR = 3.4e38


def visible_to(req: Request) -> str | None:
    """The project whose flavors the caller may use; None: all."""
    return None if req.context.is_admin else req.context.project_id


def index(req: Request) -> dict[str, Any]:
    """The flavors, briefly."""
    found = _page(req)
    return {"flavors": [view.brief(req, flavor) for flavor in found], **_links(req, found, "flavors")}


def detail(req: Request) -> dict[str, Any]:
    """The flavors, all of each."""
    found, specs = _page(req), view.shows_specs(req)
    return {"flavors": [view.full(req, flavor, specs) for flavor in found], **_links(req, found, "flavors", "detail")}


def show(req: Request, flavor_id: str) -> dict[str, Any]:
    """One flavor."""
    with req.services.db.read() as conn:
        flavor = flavors.get(conn, flavor_id, visible_to(req))
    return {"flavor": view.full(req, flavor, view.shows_specs(req))}


def create(req: Request) -> dict[str, Any]:
    """Create a flavor. No project has access to a private one until addTenantAccess."""
    body = req.json_in["flavor"]
    flavorid = body.get("id")
    values = {
        "flavorid": str(flavorid) if flavorid is not None else str(uuid.uuid4()),
        "name": body["name"], "memory_mb": int(body["ram"]), "vcpus": int(body["vcpus"]), "root_gb": int(body["disk"]),
        "ephemeral_gb": int(body.get("OS-FLV-EXT-DATA:ephemeral", 0)), "swap": int(body.get("swap", 0)),
        "rxtx_factor": _factor(body.get("rxtx_factor", 1.0)), "description": body.get("description"),
        "is_public": strutils.bool_from_string(body.get("os-flavor-access:is_public", True), strict=True)}
    flavor = req.services.db.write(flavors.create, values)
    return {"flavor": view.full(req, flavor, view.shows_specs(req))}


def update(req: Request, flavor_id: str) -> dict[str, Any]:
    """Change the description: the one thing about a flavor that may change."""
    values = {"description": req.json_in["flavor"]["description"]}
    flavor = req.services.db.write(flavors.update, flavor_id, values)
    return {"flavor": view.full(req, flavor, view.shows_specs(req))}


def delete(req: Request, flavor_id: str) -> None:
    """Remove a flavor; servers keep what they were built with."""
    req.services.db.write(flavors.delete, flavor_id)


def _factor(value: float | str) -> float:
    try:
        factor = float(value)
    except OverflowError:       # an integer of hundreds of digits
        factor = 0
    if not 0 < factor <= MAX_FACTOR:
        raise exception.InvalidInput(reason=f"'rxtx_factor' argument must be a float between 0 and {MAX_FACTOR:g}")
    return factor


def _page(req: Request) -> list[Flavor]:
    sort_key, sort_dir = params.last(req, "sort_key") or "flavorid", params.last(req, "sort_dir") or "asc"
    if sort_key not in SORT_KEYS or (sort_key == "rxtx_factor" and req.since("2.102")):
        raise exception.InvalidInput(reason=f"Invalid sort key '{sort_key}'")
    if sort_dir not in ("asc", "desc"):
        raise exception.InvalidInput(reason=f"Unknown sort direction '{sort_dir}', must be 'desc' or 'asc'")
    if sort_key == "vcpu_weight":       # nobody can set one: they are all the same
        sort_key = "id"
    filters: dict[str, Any] = {"is_public": True, "disabled": False}
    if req.context.is_admin:
        filters = {"is_public": _is_public(params.last(req, "is_public"))}
    if req.since("2.102"):
        filters["name"] = params.last(req, "name")
    with req.services.db.read() as conn:
        return flavors.list_page(
            conn, req.context.project_id, min_ram=_number(req, "minRam"), min_disk=_number(req, "minDisk"),
            sort_key=sort_key, sort_dir=sort_dir, limit=pagination.limit(req), marker=params.last(req, "marker"), **filters)


def _is_public(text: str | None) -> bool | None:
    """Absent: the public flavors and those of the project. The word None: all flavors."""
    if text is None:
        return True
    if text.strip().lower() == "none":
        return None
    try:
        return strutils.bool_from_string(text, strict=True)
    except ValueError:
        raise exception.InvalidInput(reason=f"Invalid is_public filter [{text}]") from None


def _number(req: Request, name: str) -> int | None:
    text = params.last(req, name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise exception.InvalidInput(reason=f"Invalid {name} filter [{text}]") from None
    return max(-1, min(number, 2 ** 31 - 1))


def _links(req: Request, found: list[Flavor], *path: str) -> dict[str, Any]:
    return pagination.next_links(req, "flavors", [flavor.flavorid for flavor in found], *path)


_MANAGE = "os_compute_api:os-flavor-manage"
ROUTES = [
    Route("GET", "/flavors", index, None, query=schema.LIST_QUERY, response=schema.LIST),
    Route("GET", "/flavors/detail", detail, None, query=schema.LIST_QUERY, response=schema.DETAIL),
    Route("POST", "/flavors", create, admin(f"{_MANAGE}:create", "Create a flavor."), body=schema.CREATE,
          response=schema.FLAVOR),
    Route("GET", "/flavors/{flavor_id}", show, None, response=schema.FLAVOR),
    Route("PUT", "/flavors/{flavor_id}", update, admin(f"{_MANAGE}:update", "Change the description of a flavor."),
          first="2.55", body=schema.UPDATE, response=schema.FLAVOR),
    Route("DELETE", "/flavors/{flavor_id}", delete, admin(f"{_MANAGE}:delete", "Delete a flavor."), status=202),
]
