"""/servers/{server_id}/ips: the addresses of a server by network."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import server_ips as schema
from nova_lite.api.compute.servers import find
from nova_lite.api.compute.views.servers import addresses
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

PATH = "/servers/{server_id}/ips"


def _addresses(req: Request, server_id: str, rule: str) -> dict[str, list[dict[str, Any]]]:
    instance = find(req, server_id, f"os_compute_api:ips:{rule}")
    return addresses([vif.to_primitive() for vif in instance.network_info], extended=False)


def index(req: Request, server_id: str) -> dict[str, Any]:
    """All addresses."""
    return {"addresses": _addresses(req, server_id, "index")}


def show(req: Request, server_id: str, network: str) -> dict[str, Any]:
    """The addresses on one network."""
    found = _addresses(req, server_id, "show")
    if network not in found:
        raise exception.NotFound("Instance is not a member of specified network")
    return {network: found[network]}


ROUTES = [
    Route("GET", PATH, index, "os_compute_api:ips:index", response=schema.LIST),
    Route("GET", PATH + "/{network}", show, "os_compute_api:ips:show", response=schema.SHOW),
]
