"""A nic of a server as clients see it."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.network import VIF


def attachment(req: Request, vif: VIF, state: str) -> dict[str, Any]:
    """A network of our own has no subnets beside it: it is one itself."""
    shown: dict[str, Any] = {
        "port_id": vif.id, "net_id": vif.network_id, "mac_addr": vif.mac_address, "port_state": state,
        "fixed_ips": [{"ip_address": ip.address, "subnet_id": ip.subnet_id or vif.network_id} for ip in vif.fixed_ips]}
    if req.since("2.70"):
        shown["tag"] = vif.tag
    return shown
