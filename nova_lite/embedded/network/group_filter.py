"""The rules of security groups as nftables: the text of transactions, which ``filter.py`` sends to the kernel.

One table of the family ip for each bridge. A packet that is routed to or from the bridge passes it. A packet that only crosses
the bridge passes it because the bridge calls these hooks (br_netfilter): the family bridge has no connection tracking on
kernels without nf_conntrack_bridge. There all packets of a bridge look alike, so a guest is identified by its address;
``filter.py`` guarantees that it has no other address, and receives no packets of others.

Replies are accepted. All other packets are checked against the rules each time, so the removal of a rule also ends the
connections that it had allowed.
"""
from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nova_lite import exception
from nova_lite.network import ipam
from nova_lite.network.group_rules import INGRESS, IPV4, WITH_PORTS, Rule

if TYPE_CHECKING:
    from nova_lite.embedded.network.filter import Nic

Members = Mapping[str, Sequence[str]]
"""The addresses of the members of groups, by the groups' ids."""
_ANSWERS = "ct state related accept", "ct direction reply ct state established accept"
_ICMP = 1
_DHCP = "udp sport 68 udp dport 67"
# only what was led to the service: at its other ports the address is the host itself
_METADATA = f"meta l4proto tcp ct original ip daddr {ipam.METADATA_ADDRESS} ct original proto-dst 80 return"


def table(bridge: str) -> str:
    """The table's name."""
    return f"{bridge}-groups"


def base(bridge: str, uplink: tuple[str, str] | None = None) -> str:
    """The table without guests. ``uplink``: the interface by which the host's own packets enter the namespace, and their
    address; without a namespace they do not pass here. The host may reach its guests.

    Whatever their groups allow, guests reach on the host only DHCP, ping, and the services to which the host's own rules
    redirect them, such as metadata. Consoles and libvirt may need no password.
    """
    name = table(bridge)
    through = [*_ANSWERS, *([f'iifname "{uplink[0]}" ip saddr {ipaddress.IPv4Address(uplink[1])} accept'] if uplink else []),
               f'iifname "{bridge}" ip saddr vmap @from_guests', f'oifname "{bridge}" ip daddr vmap @to_guests']
    to_host = [*_ANSWERS, *(f'iifname "{bridge}" {what}' for what in (
        "ip saddr vmap @from_guests", f"{_DHCP} accept", "meta l4proto icmp accept", "ct status dnat accept", "counter drop"))]
    return f"""\
table ip {name} {{
    map to_guests {{
        type ipv4_addr : verdict
    }}
    map from_guests {{
        type ipv4_addr : verdict
    }}
    chain through {{
        type filter hook forward priority -5; policy accept;
    }}
    chain to_host {{
        type filter hook input priority -5; policy accept;
    }}
}}
""" + _refill(name, "through", through) + _refill(name, "to_host", to_host)


def guests(bridge: str, nics: Iterable[Nic], members: Members) -> str:
    """The rules of guests, in place of what they had. Groups without an entry in ``members`` have none."""
    name, text = table(bridge), ""
    nics = list(nics)
    for group in sorted({rule.remote_group for nic in nics for rule in nic.rules if rule.remote_group}):
        known = sorted({str(ipaddress.IPv4Address(address)) for address in members.get(group, ())})
        text += f"add set ip {name} {_set(group)} {{ type ipv4_addr; }}\nflush set ip {name} {_set(group)}\n"
        if known:
            text += f"add element ip {name} {_set(group)} {{ {', '.join(known)} }}\n"
    for nic in nics:
        rules = [rule for rule in nic.rules if rule.ethertype == IPV4]
        text += _refill(name, f"to-{nic.interface}", [
            *(_line(rule, "saddr", "accept") for rule in rules if rule.direction == INGRESS), "counter drop"])
        text += _refill(name, f"from-{nic.interface}", [
            f"{_DHCP} return", _METADATA,
            *(_line(rule, "daddr", "return") for rule in rules if rule.direction != INGRESS), "counter drop"])
    return text


def entries(bridge: str, interfaces: Mapping[str, str]) -> str:
    """Which guest has which address: ``interfaces`` by address, and no others."""
    name, text = table(bridge), ""
    for way in ("to", "from"):
        text += f"flush map ip {name} {way}_guests\n"
        if interfaces:
            elements = ", ".join(f"{address} : jump {way}-{interface}" for address, interface in sorted(interfaces.items()))
            text += f"add element ip {name} {way}_guests {{ {elements} }}\n"
    return text


def without(bridge: str, interfaces: Iterable[str]) -> str:
    """The chains of guests that no entry leads to any more go, whether they are there or not."""
    return "".join(f"add chain ip {table(bridge)} {way}-{name}\nflush chain ip {table(bridge)} {way}-{name}\n"
                   f"delete chain ip {table(bridge)} {way}-{name}\n" for name in interfaces for way in ("to", "from"))


def _refill(name: str, chain: str, lines: Iterable[str]) -> str:
    return (f"add chain ip {name} {chain}\nflush chain ip {name} {chain}\n"
            + "".join(f"add rule ip {name} {chain} {line}\n" for line in lines))


def _set(group: str) -> str:
    try:
        return f"g{uuid.UUID(group).hex}"
    except ValueError:
        raise exception.InvalidInput(reason=f"{group!r} is not the id of a security group") from None


def _line(rule: Rule, side: str, verdict: str) -> str:
    """One rule; it was checked when it was made."""
    parts = []
    if rule.remote_cidr is not None:
        parts.append(f"ip {side} {rule.remote_cidr}")
    if rule.remote_group is not None:
        parts.append(f"ip {side} @{_set(rule.remote_group)}")
    number, low, high = rule.number, rule.port_min, rule.port_max
    if number in WITH_PORTS and low is not None:
        parts.append(f"{WITH_PORTS[number]} dport {low if low == high else f'{low}-{high}'}")
    elif number == _ICMP and low is not None:
        parts.append(f"icmp type {low}" + (f" icmp code {high}" if high is not None else ""))
    elif number is not None:
        parts.append(f"meta l4proto {number}")
    return " ".join([*parts, verdict])
