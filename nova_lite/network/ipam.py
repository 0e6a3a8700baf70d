"""Address arithmetic of the embedded network: ranges, free addresses, hardware addresses. No database."""
from __future__ import annotations

import hashlib
import ipaddress
import random
import re
import secrets
from collections.abc import Container

from nova_lite import exception

METADATA_ADDRESS = "169.254.169.254"
MIN_MTU, MAX_MTU = 576, 65521
_LARGEST, _SMALLEST = 8, 29          # prefix lengths: room for a gateway and some guests, and a range that can be searched


def parse_cidr(cidr: str) -> ipaddress.IPv4Network:
    """The range of a network; InvalidInput unless it is a proper IPv4 one of /8 to /29."""
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise exception.InvalidInput(reason=f"{cidr!r} is not an IPv4 range: {error}") from None
    if not _LARGEST <= network.prefixlen <= _SMALLEST:
        raise exception.InvalidInput(reason=f"range {cidr} must be between /{_LARGEST} and /{_SMALLEST}")
    if network.is_loopback or network.is_multicast or network.is_link_local:
        raise exception.InvalidInput(reason=f"range {cidr} cannot be used for guests")
    return network


def new_range(cidr: str) -> ipaddress.IPv4Network:
    """The range of a network to be made, which goes into the hosts' routing. InvalidInput for what :func:`parse_cidr` refuses
    and for addresses that are others' in the Internet."""
    network = parse_cidr(cidr)
    if not network.is_private or network.is_reserved or network.network_address.is_unspecified:
        raise exception.InvalidInput(reason=f"range {cidr} is not one of private addresses")
    return network


def parse_gateway(network: ipaddress.IPv4Network, gateway: str | None) -> str:
    """The gateway's address: the given one, or the first of the range."""
    if gateway is None:
        return str(network[1])
    if not is_host_address(network, gateway):
        raise exception.InvalidInput(reason=f"gateway {gateway} is not a host address of {network}")
    return str(ipaddress.IPv4Address(gateway))


def is_address(address: object) -> bool:
    """True for the text of an address that a guest may have. A number is none, though ``ipaddress`` takes it for one."""
    try:
        return isinstance(address, str) and not ipaddress.IPv4Address(address).is_unspecified
    except ValueError:
        return False


def is_host_address(network: ipaddress.IPv4Network, address: object) -> bool:
    """True when a host on the network may have the address."""
    if not isinstance(address, str) or not is_address(address):
        return False
    parsed = ipaddress.IPv4Address(address)
    return parsed in network and parsed not in (network.network_address, network.broadcast_address)


def pick_address(network: ipaddress.IPv4Network, used: Container[str]) -> str | None:
    """A free address, or None when there is none.

    The search starts at a random place: an address that was just given back is not the first to be given away again, so
    that neighbours' ARP caches and DHCP leases about its former owner have time to die.
    """
    count = network.num_addresses - 2
    start = random.randrange(count)
    for step in range(count):
        address = str(network[1 + (start + step) % count])
        if address not in used:
            return address
    return None


def parse_mac(mac: str) -> str:
    """A hardware address in lower case; InvalidInput unless it is one of a single station."""
    lower = str(mac).lower()
    if not re.fullmatch(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", lower) or int(lower[:2], 16) & 1:
        raise exception.InvalidInput(reason=f"{mac!r} is not the hardware address of one station")
    return lower


def gateway_macs(network_id: str) -> str:
    """The first bytes of the hardware addresses of a network's gateways, on all hosts; no port there may have them."""
    return f"02:{_digest(network_id, 2)}:"


def gateway_mac(network_id: str, host: str) -> str:
    """The hardware address of a network's gateway on one host: always the same there, as guests cache it. Each host has another
    address, for joined bridges of several hosts: switches would see one address in several places."""
    return gateway_macs(network_id) + _digest(host, 3)


def _digest(text: str, count: int) -> str:
    return ":".join(f"{byte:02x}" for byte in hashlib.sha256(text.encode()).digest()[:count])


def make_mac() -> str:
    """A random hardware address under the prefix that OpenStack uses for guests."""
    return "fa:16:3e:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))
