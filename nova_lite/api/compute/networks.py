"""/os-networks and /os-tenant-networks: the networks of a project, read-only, for clients without Neutron (until 2.35)."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import networks as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import reader

LAST = "2.35"


def index(req: Request) -> dict[str, Any]:
    """The networks; what is not known of them is null."""
    return {"networks": [_view(network) for network in req.services.network.list_networks(req.context)]}


def show(req: Request, network_id: str) -> dict[str, Any]:
    """One network."""
    return {"network": _view(_find(req, network_id))}


def tenant_index(req: Request) -> dict[str, Any]:
    """The networks, briefly."""
    return {"networks": [_tenant_view(network) for network in req.services.network.list_networks(req.context)]}


def tenant_show(req: Request, network_id: str) -> dict[str, Any]:
    """One network, briefly."""
    return {"network": _tenant_view(_find(req, network_id))}


def _find(req: Request, network_id: str) -> dict[str, Any]:
    for network in req.services.network.list_networks(req.context):
        if network["id"] == network_id:
            return network
    raise exception.NetworkNotFound(network_id=network_id)


def _view(network: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(schema.FIELDS), "id": network["id"], "label": network["label"], "cidr": network.get("cidr")}


def _tenant_view(network: dict[str, Any]) -> dict[str, Any]:
    return {"id": network["id"], "label": network["label"], "cidr": str(network.get("cidr"))}


_RULE, _TENANT_RULE = "os_compute_api:os-networks", "os_compute_api:os-tenant-networks"
ROUTES = [
    Route("GET", "/os-networks", index, reader(f"{_RULE}:list", "List networks."), last=LAST, response=schema.NETWORKS),
    Route("GET", "/os-networks/{network_id}", show, reader(f"{_RULE}:show", "Show a network."), last=LAST,
          response=schema.NETWORK),
    Route("GET", "/os-tenant-networks", tenant_index, reader(f"{_TENANT_RULE}:list", "List the networks of a project."),
          last=LAST, response=schema.TENANT_NETWORKS),
    Route("GET", "/os-tenant-networks/{network_id}", tenant_show,
          reader(f"{_TENANT_RULE}:show", "Show a network of a project."), last=LAST, response=schema.TENANT_NETWORK),
]
