"""What a server asks of the network, and the result."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record


@dataclass
class NetworkRequest(Record):
    """One nic that a user asked for: a network, or a port of theirs, or an address on a network."""

    network_id: str | None = None
    port_id: str | None = None
    address: str | None = None
    tag: str | None = None
    network_name: str | None = None     # what the API has learned of the network: spares the host a question
    mtu: int | None = None
    dns: bool = False                   # ports of the network have names
    security_groups: list[str] | None = None    # ids for the port to be made; None: the project's default group
    revision: int | None = None         # of the user's port, when the API read it
    key: str | None = None              # names a nic that was attached later: its place in the list does not


@dataclass
class FixedIP(Record):
    """An address of a nic with what the guest needs to use it. ``version`` is 4 or 6.

    ``dhcp``: the subnet serves it (None: as ``VIF.details["dhcp"]`` says). ``ipv6_address_mode`` is Neutron's: slaac,
    dhcpv6-stateful, dhcpv6-stateless, or None.
    """

    address: str
    version: int
    cidr: str
    gateway: str | None = None
    dns: list[str] = field(default_factory=list)
    routes: list[dict[str, str]] = field(default_factory=list)   # [{"cidr", "gateway"}]
    floating_ips: list[str] = field(default_factory=list)
    dhcp: bool | None = None
    ipv6_address_mode: str | None = None
    subnet_id: str | None = None


@dataclass(frozen=True)
class PortState:
    """The attributes of a port that may change without an event. ``addresses`` are (subnet id, address, floating IPs), sorted;
    ``type`` is the VIF type. ``leaving``: a live migration has marked the port for another host."""

    network_id: str
    mac_address: str
    type: str
    addresses: tuple[tuple[str, str, tuple[str, ...]], ...]
    leaving: bool = field(default=False, compare=False)


@dataclass
class VIF(Record):
    """One nic of a server, as cached in ``instances.network_info``.

    ``type`` is the VIF type (bridge, ovs, null ...); ``details`` what the host needs to plug it, e.g. {"bridge": "nlbr1"}.
    ``active`` is false until the network says that the port is wired: a new guest waits for that. ``key`` is that of the
    NetworkRequest by which it was attached. Type "null": a port that is about to be the server's, unknown to its guest.
    """

    id: str
    network_id: str
    network_name: str
    mac_address: str
    type: str
    fixed_ips: list[FixedIP] = field(default_factory=list)
    mtu: int | None = None
    devname: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    preserve_on_delete: bool = False
    tag: str | None = None
    active: bool = True
    key: str | None = None

    def __post_init__(self) -> None:
        self.fixed_ips = [f if isinstance(f, FixedIP) else FixedIP.from_primitive(f) for f in self.fixed_ips]
        if not self.devname:
            self.devname = "tap" + self.id[:11]      # an interface name has 15 characters at most; Nova's form

    def port_state(self) -> PortState:
        """The same attributes, as the record of the server has them."""
        addresses = sorted((f.subnet_id or "", f.address, tuple(sorted(f.floating_ips))) for f in self.fixed_ips)
        return PortState(self.network_id, self.mac_address, self.type, tuple(addresses))


@dataclass
class SecurityGroupRule(Record):
    """What a security group lets in: from ``cidr``, or (``remote_group``: {"name", "tenant_id"}) from members of a group.

    ``protocol`` None is any; ports are -1 where the protocol has none.
    """

    id: str
    group_id: str
    protocol: str | None = None
    from_port: int | None = None
    to_port: int | None = None
    cidr: str | None = None
    remote_group: dict[str, str] | None = None
    remote_group_id: str | None = None


@dataclass
class SecurityGroup(Record):
    """A security group with its rules for incoming traffic."""

    id: str
    name: str
    project_id: str
    description: str = ""
    rules: list[SecurityGroupRule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rules = [r if isinstance(r, SecurityGroupRule) else SecurityGroupRule.from_primitive(r) for r in self.rules]


@dataclass
class FloatingIP(Record):
    """A public address. ``pool`` is the name of its network; ``fixed_address`` None: it leads nowhere."""

    id: str
    address: str
    pool: str
    fixed_address: str | None = None
    port_id: str | None = None
    instance_id: str | None = None
