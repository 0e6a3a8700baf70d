"""What guests may send: frames from their own addresses only. nftables on the bridge, one chain for each nic.

A guest that could send under another's hardware or IPv4 address, answer for it in ARP, or play DHCP server would get its
neighbours' traffic. Rules are told apart by the nic that a frame comes in by; what comes to guests is not looked at, and needs
no connection tracking, which not every kernel has for bridges. A change of nics is one transaction, whatever was there before.
"""
from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass

from nova_lite import exception
from nova_lite.network import ipam
from nova_lite.network.host import NetworkHost, check_name

_ENTRY = "from_guests"
_PROBE = "nova-lite-probe"


@dataclass(frozen=True)
class Nic:
    """A nic on the host's side: the interface that is plugged into the bridge, and the addresses that are the guest's.

    Raises ConfigError and InvalidInput for what is none: nothing else gets into the rules.
    """

    interface: str
    mac: str
    address: str

    def __post_init__(self) -> None:
        check_name(self.interface)
        if ipam.parse_mac(self.mac) != self.mac or not _is_address(self.address):
            raise exception.InvalidInput(reason=f"{self.mac!r}, {self.address!r} are not the addresses of a nic")


def rules(bridge: str, nics: Iterable[Nic]) -> str:
    """The transaction that makes these nics send what they may and nothing else; other nics of the bridge keep their rules."""
    text = _table(bridge) + f"flush chain bridge {bridge} {_ENTRY}\nadd rule bridge {bridge} {_ENTRY} iifname vmap @guests\n"
    for nic in nics:
        name = nic.interface
        text += (f"add chain bridge {bridge} {name}\nflush chain bridge {bridge} {name}\n"
                 f"table bridge {bridge} {{\n    chain {name} {{\n{_allowed(nic)}    }}\n}}\n"
                 f'add element bridge {bridge} guests {{ "{name}" : jump {name} }}\n')
    return text


def without(bridge: str, interfaces: Iterable[str]) -> str:
    """The transaction that removes the rules of nics, whether they are there or not."""
    text = _table(bridge)
    for name in interfaces:
        element = f'element bridge {bridge} guests {{ "{name}" : jump {name} }}\n'
        text += f"add chain bridge {bridge} {name}\nadd {element}delete {element}delete chain bridge {bridge} {name}\n"
    return text


def _table(bridge: str) -> str:
    return f"""\
table bridge {bridge} {{
    map guests {{
        type ifname : verdict
    }}
    chain {_ENTRY} {{
        type filter hook prerouting priority -300; policy accept;
    }}
}}
"""


def _allowed(nic: Nic) -> str:
    """ARP for itself, the frame by which QEMU tells switches where a guest is after a live migration, DHCP as a client, and
    IPv4 from its address, but no word of a DHCP server. Guests have no IPv6 address, so they have nothing to say in it."""
    lines = [f"ether saddr != {nic.mac} counter drop",
             f"ether type arp arp saddr ether {nic.mac} arp saddr ip {{ 0.0.0.0, {nic.address} }} accept",
             "ether type 0x8035 accept",
             "ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
             "udp dport 68 counter drop",
             f"ip saddr {nic.address} accept",
             "counter drop"]
    return "".join(f"        {line}\n" for line in lines)


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.IPv4Address(text).is_unspecified
    except ValueError:
        return False


class Filter:
    """The rules on this host: a table of the bridge's name for each bridge. All of it can be done again."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host

    def check(self) -> None:
        """Raise ConfigError when this host cannot filter."""
        chain = f"chain {_ENTRY} {{ type filter hook prerouting priority -300; policy accept; }}"
        tried = self._host.run("nft", "-f", "-", check=False,
                               given=f"table bridge {_PROBE} {{\n{chain}\n}}\ndelete table bridge {_PROBE}\n")
        if tried.returncode:
            reason = (tried.stderr or tried.stdout).strip()[:300]
            raise exception.ConfigError(
                reason="this host cannot keep guests from using addresses of others, as [network] driver = bridge does: its "
                       f"nftables have no rules for bridges (kernel: CONFIG_NF_TABLES_BRIDGE): {reason}")

    def reset(self, bridge: str, nics: Iterable[Nic]) -> None:
        """At start: the rules of all nics on a bridge. A nic that is none of them but is there keeps its rules: its guest may
        be on its way to this host, and has them taken away when it does not stay."""
        wanted = {nic.interface: nic for nic in nics}
        left = [name for name in self._chains(bridge) if name not in wanted and not self._host.exists(name)]
        self._nft(without(bridge, left) + rules(bridge, wanted.values()))

    def put(self, bridge: str, nic: Nic) -> None:
        """Before a guest starts: the rules of its nic."""
        self._nft(rules(bridge, [nic]))

    def drop(self, bridge: str, interface: str) -> None:
        """The nic is gone: so are its rules."""
        self._nft(without(bridge, [check_name(interface)]))

    def remove(self, bridge: str) -> None:
        """The bridge is gone."""
        self._nft(f"table bridge {bridge}\ndelete table bridge {bridge}\n")

    def _nft(self, transaction: str) -> None:
        self._host.run("nft", "-f", "-", given=transaction)

    def _chains(self, bridge: str) -> list[str]:
        """The nics that have rules."""
        listed = self._host.run("nft", "-j", "list", "chains", "bridge").stdout
        chains = [item["chain"] for item in json.loads(listed)["nftables"] if "chain" in item]
        return [check_name(c["name"]) for c in chains if c["table"] == bridge and c["name"] != _ENTRY]
