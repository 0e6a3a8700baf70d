"""/os-networks and /os-tenant-networks: the networks of a project, read-only, for clients without Neutron (until 2.35)."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import reader

FIELDS = (
    "bridge", "bridge_interface", "broadcast", "cidr", "cidr_v6", "created_at", "deleted", "deleted_at", "dhcp_server",
    "dhcp_start", "dns1", "dns2", "enable_dhcp", "gateway", "gateway_v6", "host", "id", "injected", "label", "mtu",
    "multi_host", "netmask", "netmask_v6", "priority", "project_id", "rxtx_base", "share_address", "updated_at", "vlan",
    "vpn_private_address", "vpn_public_address", "vpn_public_port")
_NETWORK = shapes.closed({**dict.fromkeys(FIELDS, {}), "id": shapes.STRING, "label": shapes.STRING})
NETWORK = shapes.wrapped("network", _NETWORK)
NETWORKS = shapes.listing("networks", _NETWORK)
_TENANT = shapes.closed({"id": shapes.STRING, "label": shapes.STRING, "cidr": shapes.STRING})
TENANT_NETWORK = shapes.wrapped("network", _TENANT)
TENANT_NETWORKS = shapes.listing("networks", _TENANT)

LAST = "2.35"


def index(req: Request) -> dict[str, Any]:
    """The networks; unknown attributes are null."""
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
    return {**dict.fromkeys(FIELDS), "id": network["id"], "label": network["label"], "cidr": network.get("cidr")}


def _tenant_view(network: dict[str, Any]) -> dict[str, Any]:
    return {"id": network["id"], "label": network["label"], "cidr": str(network.get("cidr"))}


_RULE, _TENANT_RULE = "os_compute_api:os-networks", "os_compute_api:os-tenant-networks"
ROUTES = [
    Route("GET", "/os-networks", index, reader(f"{_RULE}:list", "List networks."), last=LAST, response=NETWORKS),
    Route("GET", "/os-networks/{network_id}", show, reader(f"{_RULE}:show", "Show a network."), last=LAST,
          response=NETWORK),
    Route("GET", "/os-tenant-networks", tenant_index, reader(f"{_TENANT_RULE}:list", "List the networks of a project."),
          last=LAST, response=TENANT_NETWORKS),
    Route("GET", "/os-tenant-networks/{network_id}", tenant_show,
          reader(f"{_TENANT_RULE}:show", "Show a network of a project."), last=LAST, response=TENANT_NETWORK),
]
