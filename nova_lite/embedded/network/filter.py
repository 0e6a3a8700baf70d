"""The packet filters of guests, in nftables: a guest sends and receives frames of its own addresses only, as its security
groups allow.

A guest that could use the hardware or IPv4 address of another one, answer for it in ARP, or act as a DHCP server would get the
traffic of its neighbours. The bridge identifies a guest by the nic that a frame enters or leaves by, with two chains for each
nic; the security groups are in ``group_filter.py``. A change of nics is one transaction, whatever was there before.
"""
from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass

from oslo_log import log

from nova_lite import exception
from nova_lite.embedded.network import group_filter
from nova_lite.embedded.network.group_filter import Members
from nova_lite.network import ipam
from nova_lite.network.group_rules import Rule
from nova_lite.network.host import NetworkHost, check_name, run

LOG = log.getLogger(__name__)
_ENTRY, _EXIT = "from_guests", "to_guests"
_PROBE = "nova-lite-probe"
_NO_VLAN = "ether type { 0x8100, 0x88a8 } counter drop"
_NOT_THERE = "No such file or directory"       # the message of nft, which is not translated, for ENOENT
_BRIDGED = "/proc/sys/net/bridge/bridge-nf-call-"


@dataclass(frozen=True)
class Nic:
    """A nic on the host: the interface on the bridge, the guest's addresses, and the rules of all its security groups. Raises
    ConfigError and InvalidInput for invalid values: no other text gets into the rules."""

    interface: str
    mac: str
    address: str
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.interface)
        if ipam.parse_mac(self.mac) != self.mac or not ipam.is_address(self.address):
            raise exception.InvalidInput(reason=f"{self.mac!r}, {self.address!r} are not the addresses of a nic")


def rules(bridge: str, nics: Iterable[Nic]) -> str:
    """The transaction that makes these nics send from, and get for, their own addresses and nothing else; other nics of the
    bridge keep their rules."""
    text = _table(bridge)
    for entry, rule in ((_ENTRY, "iifname vmap @guests"), (_EXIT, "oifname vmap @receivers")):
        text += f"flush chain bridge {bridge} {entry}\nadd rule bridge {bridge} {entry} {rule}\n"
    for nic in nics:
        for name, which, allowed in ((nic.interface, "guests", _may_send(nic)),
                                     (_to(nic.interface), "receivers", _may_get(nic))):
            text += (f"add chain bridge {bridge} {name}\nflush chain bridge {bridge} {name}\n"
                     f"table bridge {bridge} {{\n    chain {name} {{\n{allowed}    }}\n}}\n"
                     f'add element bridge {bridge} {which} {{ "{nic.interface}" : jump {name} }}\n')
    return text


def without(bridge: str, interfaces: Iterable[str]) -> str:
    """The transaction that removes the rules of nics, whether they are there or not."""
    text = _table(bridge)
    for interface in interfaces:
        for name, which in ((interface, "guests"), (_to(interface), "receivers")):
            element = f'element bridge {bridge} {which} {{ "{interface}" : jump {name} }}\n'
            text += f"add chain bridge {bridge} {name}\nadd {element}delete {element}delete chain bridge {bridge} {name}\n"
    return text


def _to(interface: str) -> str:
    return f"to-{interface}"


def _table(bridge: str) -> str:
    return f"""\
table bridge {bridge} {{
    map guests {{
        type ifname : verdict
    }}
    map receivers {{
        type ifname : verdict
    }}
    chain {_ENTRY} {{
        type filter hook prerouting priority -300; policy accept;
    }}
    chain {_EXIT} {{
        type filter hook postrouting priority 0; policy accept;
    }}
}}
"""


def _may_send(nic: Nic) -> str:
    """Nothing in a VLAN, not even in VLAN 0, which a guest accepts as its own: the bridge does not pass it to the rules for
    IPv4. ARP for itself, the frame by which QEMU announces a guest to switches after a live migration, DHCP as a client, and
    IPv4 from its address, but no message of a DHCP server. Guests have no IPv6 address, so they send no IPv6.

    A DHCP server uses the hardware address in the message (chaddr, 28 bytes behind UDP's 8), and may log each one. A first
    fragment that ends before it is dropped.
    """
    lines = [f"ether saddr != {nic.mac} counter drop",
             _NO_VLAN,
             f"ether type arp arp saddr ether {nic.mac} arp saddr ip {{ 0.0.0.0, {nic.address} }} accept",
             "ether type 0x8035 accept",
             f"ip saddr {{ 0.0.0.0, {nic.address} }} udp sport 68 udp dport 67 @th,288,48 0x{nic.mac.replace(':', '')} "
             "limit rate 10/second burst 20 packets accept",
             "udp dport { 67, 68 } counter drop",
             f"ip saddr {nic.address} accept",
             "counter drop"]
    return _indented(lines)


def _may_get(nic: Nic) -> str:
    """ARP and RARP, IPv4 for its address, and broadcasts of a DHCP server. No other broadcast or multicast: the rules of
    security groups could not see whom it reaches."""
    return _indented([_NO_VLAN, "ether type { arp, 0x8035 } accept", f"ip daddr {nic.address} accept",
                      "ip daddr 255.255.255.255 udp sport 67 udp dport 68 accept", "counter drop"])


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"        {line}\n" for line in lines)


class Filter:
    """The rules on this host: a table for each bridge, with the name of the bridge, and one for security groups. All methods
    can be run again. ``members`` are the addresses of the groups that the rules of the nics name."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host

    def check(self) -> None:
        """Raise ConfigError when this host cannot filter."""
        chain = f"chain {_ENTRY} {{ type filter hook prerouting priority -300; policy accept; }}"
        tracked = ("chain through { type filter hook forward priority -5; policy accept; "
                   "ct direction reply ct state established accept; }")
        tried = self._host.run("nft", "-f", "-", check=False, given=(
            f"table bridge {_PROBE} {{\n{chain}\n}}\ndelete table bridge {_PROBE}\n"
            f"table ip {_PROBE} {{\n{tracked}\n}}\ndelete table ip {_PROBE}\n"))
        if tried.returncode:
            reason = (tried.stderr or tried.stdout).strip()[:300]
            raise exception.ConfigError(
                reason="this host cannot keep guests from using addresses of others, as [network] driver = bridge does: its "
                       "nftables have no rules for bridges, or no connection tracking (kernel: CONFIG_NF_TABLES_BRIDGE, "
                       f"CONFIG_NFT_CT): {reason}")
        self._load_br_netfilter()

    def _load_br_netfilter(self) -> None:
        """Without it no packet that only crosses a bridge is seen by rules of security groups. When it is loaded it takes all
        bridges of the host: this is undone, as ours ask for it each for itself."""
        if self._has_br_netfilter():
            return
        try:
            run("modprobe", "br_netfilter")
        except exception.VirtDriverError as error:
            raise exception.ConfigError(
                reason="this host cannot filter between guests on a bridge, as [network] driver = bridge does: the kernel's "
                       f"module br_netfilter is missing: {error.message}") from None
        LOG.info("loaded br_netfilter, for our own bridges only")
        for family in ("iptables", "ip6tables", "arptables"):
            run("tee", f"{_BRIDGED}{family}", given="0")

    def _has_br_netfilter(self) -> bool:
        return self._host.run("cat", f"{_BRIDGED}iptables", check=False).returncode == 0

    def reset(self, bridge: str, nics: Iterable[Nic], members: Members) -> None:
        """At the start: the rules of all nics on a bridge. A nic that is present but not among these keeps its rules: its guest
        may be on its way to this host; they are removed when it does not stay."""
        wanted = list(nics)
        here = {nic.interface for nic in wanted}
        known = self._chains(bridge) | set(self._entries(bridge).values())
        self._apply(bridge, wanted, members, [name for name in known if name not in here and not self._host.exists(name)])

    def put(self, bridge: str, nics: Iterable[Nic], members: Members) -> None:
        """Before a guest starts, and when its security groups have changed: the rules of its nics."""
        self._apply(bridge, list(nics), members, [])

    def interfaces(self, bridge: str) -> set[str]:
        """Of the nics that have all their rules."""
        return self._chains(bridge) & set(self._entries(bridge).values())

    def drop(self, bridge: str, interface: str) -> None:
        """The nic is gone: so are its rules."""
        self._apply(bridge, [], {}, [check_name(interface)])

    def remove(self, bridge: str) -> None:
        """The bridge is gone."""
        self._nft("".join(f"table {name}\ndelete table {name}\n"
                          for name in (f"bridge {bridge}", f"ip {group_filter.table(bridge)}")))

    def _apply(self, bridge: str, nics: list[Nic], members: Members, gone: list[str]) -> None:
        changed = {*gone, *(nic.interface for nic in nics)}
        entries = {address: name for address, name in self._entries(bridge).items() if name not in changed}
        entries |= {nic.address: nic.interface for nic in nics}
        host = self._host
        self._nft(without(bridge, gone) + rules(bridge, nics) + group_filter.base(bridge, host.uplink)
                  + group_filter.guests(bridge, nics, members) + group_filter.entries(bridge, entries)
                  + group_filter.without(bridge, gone))

    def _nft(self, transaction: str) -> None:
        self._host.run("nft", "-f", "-", given=transaction)

    def _chains(self, bridge: str) -> set[str]:
        """The nics that have rules."""
        listed = self._host.run("nft", "-j", "list", "chains", "bridge").stdout
        chains = [item["chain"] for item in json.loads(listed)["nftables"] if "chain" in item]
        return {check_name(c["name"].removeprefix(_to(""))) for c in chains
                if c["table"] == bridge and c["name"] not in (_ENTRY, _EXIT)}

    def _entries(self, bridge: str) -> dict[str, str]:
        """interface by address, of the nics whose security groups are in force. Raises VirtDriverError for a listing that
        failed: an empty result would remove the others from the map, and traffic of nics outside the map is not filtered."""
        what = ("nft", "-j", "list", "map", "ip", group_filter.table(bridge), "to_guests")
        listed = self._host.run(*what, check=False)
        if listed.returncode and _NOT_THERE in listed.stderr:
            return {}
        if listed.returncode:
            raise exception.VirtDriverError(what=" ".join(what), reason=f"exit {listed.returncode}: "
                                                                        f"{(listed.stderr or listed.stdout).strip()[:500]}")
        maps = [item["map"] for item in json.loads(listed.stdout)["nftables"] if "map" in item]
        return {str(ipaddress.IPv4Address(address)): check_name(verdict["jump"]["target"].removeprefix(_to("")))
                for known in maps for address, verdict in known.get("elem", ())}
