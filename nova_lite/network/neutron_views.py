"""From Neutron's ports and subnets to the nics of a server. Pure functions."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nova_lite.network.neutron_api import Json
from nova_lite.objects.network import VIF, FixedIP, PortState

SUBNET_FIELDS = ["id", "cidr", "ip_version", "gateway_ip", "dns_nameservers", "host_routes", "enable_dhcp", "ipv6_address_mode"]
PROFILE = "binding:profile"
MIGRATING_TO = "migrating_to"       # in the profile: the host that a live migration takes the port to
REMINDERS = "nova_lite_reminders"   # in the profile: a counter of the notifications of the agent there
PORT_STATE_FIELDS = ["id", "device_id", "device_owner", "fixed_ips", "mac_address", "network_id", "binding:vif_type", PROFILE]
ACTIVE = "ACTIVE"
FAILED = "binding_failed"
_NAME_LENGTH = 15       # of an interface in Linux


def subnet_ids(ports: Iterable[Json]) -> set[str]:
    """The subnets that the ports have addresses of."""
    return {address["subnet_id"] for port in ports for address in port.get("fixed_ips", ())}


def make_vif(port: Json, network_name: str, mtu: int | None, subnets: Mapping[str, Json],
             floating_ips: Mapping[tuple[str, str], list[str]], preserve: bool, tag: str | None) -> VIF:
    """The nic of a port; ``floating_ips`` are by (port id, fixed address)."""
    addresses = []
    for fixed in port.get("fixed_ips", ()):
        subnet = subnets.get(fixed["subnet_id"])
        if subnet is not None:
            addresses.append(_address(fixed["ip_address"], subnet, floating_ips.get((port["id"], fixed["ip_address"]), [])))
    kind = _kind(port)
    return VIF(id=port["id"], network_id=port["network_id"], network_name=network_name, mac_address=port["mac_address"],
               type=kind, fixed_ips=addresses, mtu=mtu, details=_details(kind, port), preserve_on_delete=preserve, tag=tag,
               active=is_wired(port))


def port_state_of(port: Json, floating_ips: Mapping[tuple[str, str], list[str]]) -> PortState:
    """``port`` has PORT_STATE_FIELDS; ``floating_ips`` are by (port id, fixed address)."""
    addresses = sorted((a["subnet_id"], a["ip_address"], tuple(sorted(floating_ips.get((port["id"], a["ip_address"]), ()))))
                       for a in port.get("fixed_ips", ()))
    return PortState(port["network_id"], port["mac_address"], _kind(port), tuple(addresses), is_leaving(port))


def is_leaving(port: Json) -> bool:
    """Whether its profile names another host: then the agent of its own host does not wire it."""
    return MIGRATING_TO in (port.get(PROFILE) or {})


def settled(port: Json) -> Json:
    """The profile of the port without the mark of a move."""
    return {name: value for name, value in (port.get(PROFILE) or {}).items() if name not in (MIGRATING_TO, REMINDERS)}


def _kind(port: Json) -> str:
    return port.get("binding:vif_type") or "unbound"


def is_wired(port: Json) -> bool:
    """False when Neutron will still report the port as wired; a port that is switched off is never reported."""
    return port.get("status") == ACTIVE or port.get("admin_state_up") is False


def _details(kind: str, port: Json) -> dict[str, Any]:
    """The host's data to plug the nic: Neutron's vif_details, with the name of the bridge where there is one."""
    details = dict(port.get("binding:vif_details") or {})
    if kind == "ovs":
        details["bridge"] = details.get("bridge_name") or "br-int"
    elif kind == "bridge":
        details["bridge"] = (details.get("bridge_name") or f"brq{port['network_id']}")[:_NAME_LENGTH - 1]
    elif kind == "hw_veb":
        profile = port.get(PROFILE) or {}
        details["pci_slot"] = profile.get("pci_slot")
    return details


def _address(address: str, subnet: Json, floating_ips: list[str]) -> FixedIP:
    routes = [{"cidr": r["destination"], "gateway": r["nexthop"]} for r in subnet.get("host_routes") or ()]
    return FixedIP(address, int(subnet["ip_version"]), subnet["cidr"], subnet.get("gateway_ip"),
                   list(subnet.get("dns_nameservers") or ()), routes, floating_ips, dhcp=bool(subnet.get("enable_dhcp")),
                   ipv6_address_mode=subnet.get("ipv6_address_mode"), subnet_id=subnet["id"])
