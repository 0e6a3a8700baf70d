"""Schemas of /os-networks and /os-tenant-networks."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

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
