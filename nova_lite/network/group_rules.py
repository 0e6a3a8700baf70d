"""Rules of security groups in the form of Neutron: their validation, and the rules of a new group. No database."""
from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nova_lite import exception

INGRESS, EGRESS = "ingress", "egress"
IPV4, IPV6 = "IPv4", "IPv6"
EVERYWHERE = {IPV4: "0.0.0.0/0", IPV6: "::/0"}
NUMBERS = {"icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "egp": 8, "udp": 17, "dccp": 33, "ipv6-encap": 41, "ipv6-route": 43,
           "ipv6-frag": 44, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "ipv6-nonxt": 59,
           "ipv6-opts": 60, "ospf": 89, "vrrp": 112, "pgm": 113, "sctp": 132, "udplite": 136}
"""Neutron's names of protocols, by which rules are written; any number will do as well."""
WITH_PORTS = {6: "tcp", 17: "udp", 33: "dccp", 132: "sctp", 136: "udplite"}
_ICMP = (1, 58)
_ANY = (None, "", "any", 0, "0")


@dataclass(frozen=True)
class Rule:
    """Allowed incoming or outgoing traffic. None allows any value; with ICMP ``port_min`` is the type and ``port_max`` the
    code. ``remote_group`` is the id of a group whose members are meant, ``remote_cidr`` a range; at most one of the two. Raises
    InvalidInput for a rule that Neutron refuses."""

    direction: str
    ethertype: str = IPV4
    protocol: str | None = None
    port_min: int | None = None
    port_max: int | None = None
    remote_cidr: str | None = None
    remote_group: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if self.direction not in (INGRESS, EGRESS):
            raise exception.InvalidInput(reason=f"direction {self.direction!r} is neither ingress nor egress")
        if self.ethertype not in (IPV4, IPV6):
            raise exception.InvalidInput(reason=f"ethertype {self.ethertype!r} is neither IPv4 nor IPv6")
        if self.remote_cidr is not None and self.remote_group is not None:
            raise exception.InvalidInput(reason="only one of remote_ip_prefix and remote_group_id may be given")
        if len(self.description) > 255:
            raise exception.InvalidInput(reason="description has more than 255 characters")
        self._check_range()
        self._check_ports()

    @property
    def number(self) -> int | None:
        """The protocol's number."""
        return None if self.protocol is None else NUMBERS.get(self.protocol) or int(self.protocol)

    def _check_range(self) -> None:
        if self.remote_cidr is None:
            return
        try:
            version = ipaddress.ip_network(self.remote_cidr).version
        except ValueError:
            raise exception.InvalidInput(reason=f"{self.remote_cidr!r} is not a range of addresses") from None
        if f"IPv{version}" != self.ethertype:
            raise exception.InvalidInput(reason=f"{self.remote_cidr} is not a range of {self.ethertype}")

    def _check_ports(self) -> None:
        low, high, number = self.port_min, self.port_max, self.number
        if number is not None and not 0 < number < 256:
            raise exception.InvalidInput(reason=f"{self.protocol!r} is not a protocol of IP")
        if low is None and high is None:
            return
        if number in _ICMP:
            if low is None:
                raise exception.InvalidInput(reason="a code of ICMP needs its type")
            if not 0 <= low <= 255 or not 0 <= (high or 0) <= 255:
                raise exception.InvalidInput(reason=f"{low}, {high} are no type and code of ICMP: they lie in 0-255")
        elif number not in WITH_PORTS:
            raise exception.InvalidInput(reason=f"protocol {self.protocol or 'any'} has no ports")
        elif low is None or high is None or not 1 <= low <= high <= 65535:
            raise exception.InvalidInput(reason=f"{low}:{high} is not a range of ports: 1-65535, the lower end first")


DEFAULTS = (Rule(EGRESS), Rule(EGRESS, IPV6))
"""What a new group begins with: its members may send anything."""


def default_group_rules(group_id: str) -> tuple[Rule, ...]:
    """What the group "default" begins with: besides that, its members let each other in."""
    return (*DEFAULTS, Rule(INGRESS, remote_group=group_id), Rule(INGRESS, IPV6, remote_group=group_id))


_KNOWN = {"direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id",
          "description", "security_group_id", "project_id", "tenant_id"}


def parse(body: Mapping[str, Any]) -> Rule:
    """The rule of a request to Neutron's API. Raises InvalidInput, also for an unknown key: it may have been meant to allow
    less."""
    strange = sorted(key for key, value in body.items() if key not in _KNOWN and value is not None)
    if strange:
        raise exception.InvalidInput(reason=f"unrecognised attributes: {', '.join(strange)[:200]}")
    cidr = body.get("remote_ip_prefix")
    ethertype = {"ipv4": IPV4, "ipv6": IPV6}.get(str(body.get("ethertype") or IPV4).lower(), "")
    return Rule(str(body.get("direction")), ethertype or str(body.get("ethertype"))[:20], _protocol(body.get("protocol")),
                _integer(body, "port_range_min"), _integer(body, "port_range_max"), None if cidr is None else _network(cidr),
                _text(body.get("remote_group_id")), str(body.get("description") or ""))


def _protocol(given: Any) -> str | None:
    """Its name, where it has one that has ports or types: 6 and "TCP" are "tcp"."""
    text = str(given).lower() if isinstance(given, (str, int)) else given
    if text in _ANY:
        return None
    if not isinstance(text, str) or not (text in NUMBERS or text.isascii() and text.isdigit() and len(text) < 4):
        raise exception.InvalidInput(reason=f"{str(given)[:50]!r} is not a protocol of IP")
    number = NUMBERS.get(text) or int(text)
    return {1: "icmp", **WITH_PORTS}.get(number, text)


def _network(given: Any) -> str:
    """A range in its short form; an address is a range of one, and bits behind the prefix are ignored."""
    try:
        return str(ipaddress.ip_network(str(given), strict=False))
    except ValueError:
        raise exception.InvalidInput(reason=f"{str(given)[:100]!r} is not a range of addresses") from None


def _integer(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, (bool, float)):
            raise TypeError
        return int(value)
    except (TypeError, ValueError):
        raise exception.InvalidInput(reason=f"{key} must be an integer") from None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
