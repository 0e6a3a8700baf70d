"""/os-hypervisors: the compute nodes."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import hypervisors as schema
from nova_lite.api.compute.views import hypervisors as view
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.formats import is_uuid
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import hypervisors
from nova_lite.policies.base import admin

Nodes = list[dict[str, Any]]


def index(req: Request) -> dict[str, Any]:
    """The hypervisors, briefly."""
    found, servers = _list(req)
    return {"hypervisors": [view.brief(req, node, servers.get(_key(node))) for node in found], **_links(req, found)}


def detail(req: Request) -> dict[str, Any]:
    """The hypervisors, all of each."""
    found, servers = _list(req)
    return {"hypervisors": [view.full(req, node, servers.get(_key(node))) for node in found],
            **_links(req, found, "detail")}


def show(req: Request, hypervisor_id: str) -> dict[str, Any]:
    """One hypervisor."""
    with req.services.db.read() as conn:
        node = hypervisors.get(conn, _identity(req, hypervisor_id))
        servers = hypervisors.servers(conn, [node]) if _with_servers(req) else {}
    return {"hypervisor": view.full(req, node, servers.get(_key(node)))}


def statistics(req: Request) -> dict[str, Any]:
    """Sums over all of them (until 2.87)."""
    with req.services.db.read() as conn:
        return {"hypervisor_statistics": hypervisors.statistics(conn)}


def uptime(req: Request, hypervisor_id: str) -> dict[str, Any]:
    """How long the host runs (until 2.87)."""
    with req.services.db.read() as conn:
        node = hypervisors.get(conn, _identity(req, hypervisor_id))
    brief = view.brief(req, node)
    if brief["state"] == "down":
        raise exception.Invalid(f"Compute service of {node['host']} is unavailable at this time.")
    if node["uptime"] is None:
        raise exception.NotImplementedByDriver(what="uptime")
    return {"hypervisor": brief | {"uptime": node["uptime"]}}


def search(req: Request, pattern: str) -> dict[str, Any]:
    """The hypervisors with this in their name (until 2.52)."""
    with req.services.db.read() as conn:
        found = _match(hypervisors.list_page(conn, pattern=pattern), pattern)
    return {"hypervisors": [view.brief(req, node) for node in found]}


def servers_of(req: Request, pattern: str) -> dict[str, Any]:
    """The same with their servers (until 2.52)."""
    with req.services.db.read() as conn:
        found = _match(hypervisors.list_page(conn, pattern=pattern), pattern)
        servers = hypervisors.servers(conn, found)
    return {"hypervisors": [view.brief(req, node, servers[_key(node)]) for node in found]}


def _list(req: Request) -> tuple[Nodes, dict[tuple[str, str], list[dict[str, str]]]]:
    if not req.since("2.33"):
        with req.services.db.read() as conn:
            return hypervisors.list_page(conn), {}
    pattern, marker = params.last(req, "hypervisor_hostname_pattern"), params.last(req, "marker")
    if pattern is not None and req.since("2.53") and {"limit", "marker"} & set(req.params_in):
        raise exception.Invalid("Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not "
                                "supported.")
    pattern = pattern if req.since("2.53") else None
    with req.services.db.read() as conn:
        if pattern is not None:
            found = _match(hypervisors.list_page(conn, pattern=pattern), pattern)
        else:
            found = hypervisors.list_page(conn, pagination.limit(req), None if marker is None else _marker(req, marker))
        return found, hypervisors.servers(conn, found) if _with_servers(req) else {}


def _match(found: Nodes, pattern: str) -> Nodes:
    if not found:
        raise exception.NotFound(f"No hypervisor matching '{pattern}' could be found.")
    return found


def _with_servers(req: Request) -> bool:
    return req.since("2.53") and strutils.bool_from_string(params.last(req, "with_servers") or "false", strict=True)


def _marker(req: Request, marker: str) -> int | str:
    if req.since("2.53"):
        return marker
    number = units.number(marker)
    if number is None:
        raise exception.MarkerNotFound(marker=marker)
    return number


def _identity(req: Request, hypervisor_id: str) -> int | str:
    if req.since("2.53"):
        if not is_uuid(hypervisor_id):
            raise exception.Invalid(f"Invalid uuid {hypervisor_id}")
        return hypervisor_id
    number = units.number(hypervisor_id)
    if number is None:
        raise exception.HypervisorNotFound(hypervisor_id=hypervisor_id)
    return number


def _key(node: dict[str, Any]) -> tuple[str, str]:
    return node["host"], node["hypervisor_hostname"]


def _links(req: Request, found: Nodes, *path: str) -> dict[str, Any]:
    if not req.since("2.33") or (req.since("2.53") and "hypervisor_hostname_pattern" in req.params_in):
        return {}
    ids = [str(node["uuid" if req.since("2.53") else "id"]) for node in found]
    return pagination.next_links(req, "hypervisors", ids, "os-hypervisors", *path)


_RULE = "os_compute_api:os-hypervisors"
ROUTES = [
    Route("GET", "/os-hypervisors", index, admin(f"{_RULE}:list", "List hypervisors."), query=schema.LIST_QUERY,
          response=schema.LIST),
    Route("GET", "/os-hypervisors/detail", detail, admin(f"{_RULE}:list-detail", "List hypervisors with details."),
          query=schema.LIST_QUERY, response=schema.DETAIL),
    Route("GET", "/os-hypervisors/statistics", statistics, admin(f"{_RULE}:statistics", "Sum up all hypervisors (up to 2.87)."),
          last="2.87", query=schema.NO_QUERY, response=schema.STATISTICS),
    Route("GET", "/os-hypervisors/{hypervisor_id}", show, admin(f"{_RULE}:show", "Show a hypervisor."), query=schema.SHOW_QUERY,
          response=schema.SHOW),
    Route("GET", "/os-hypervisors/{hypervisor_id}/uptime", uptime,
          admin(f"{_RULE}:uptime", "Show the uptime of a hypervisor (up to 2.87)."), last="2.87", query=schema.NO_QUERY,
          response=schema.UPTIME),
    Route("GET", "/os-hypervisors/{pattern}/search", search,
          admin(f"{_RULE}:search", "Search hypervisors by name (up to 2.52)."), last="2.52", response=schema.SEARCH),
    Route("GET", "/os-hypervisors/{pattern}/servers", servers_of,
          admin(f"{_RULE}:servers", "List the servers of hypervisors (up to 2.52)."), last="2.52", response=schema.SERVERS),
]
