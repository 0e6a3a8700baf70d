"""Linux bridges of embedded networks: the bridge, its addresses, and one nftables table for each."""
from __future__ import annotations

import ipaddress
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite.network import ipam
from nova_lite.network.host import NetworkHost, check_name

LOG = log.getLogger(__name__)


class Bridges:
    """Makes and removes bridges. Networks are the dictionaries of ``PortStore``. Everything can be done again."""

    def __init__(self, conf: cfg.ConfigOpts, host: NetworkHost) -> None:
        self.host = host
        self._prefix = check_name(conf.network.bridge_prefix)
        self._metadata = _metadata_target(str(conf.metadata.listen), int(conf.metadata.port), host)

    def ensure(self, network: dict[str, Any], hostname: str) -> None:
        """The bridge of a network: up, with the gateway's and the metadata service's address and their rules."""
        bridge = check_name(network["bridge"])
        cidr = ipaddress.IPv4Network(network["cidr"])
        gateway = ipaddress.IPv4Address(network["gateway"])
        self.host.check_range(str(cidr), bridge)
        if not self.host.exists(bridge):
            LOG.info("making bridge %s for network %s", bridge, network["uuid"])
            made = self.host.ip("link", "add", bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0", check=False)
            if made.returncode and not self.host.exists(bridge):
                self.host.ip("link", "add", bridge, "type", "bridge")      # fails again and says why
        # guests have IPv4 only: a link-local address of the host would only be another way to reach it
        self.host.sysctl(f"net/ipv6/conf/{bridge}/disable_ipv6", "1")
        # without an address of its own a bridge has the lowest address of its ports, which changes with the guests
        self.host.ip("link", "set", bridge, "address", ipam.gateway_mac(network["uuid"], hostname))
        self.host.ip("link", "set", bridge, "mtu", str(int(network["mtu"])), "up")
        # the rules of security groups must see packets that only cross the bridge
        self.host.ip("link", "set", bridge, "type", "bridge", "nf_call_iptables", "1")
        self.host.ip("address", "replace", f"{gateway}/{cidr.prefixlen}", "dev", bridge)
        self.host.ip("address", "replace", f"{ipam.METADATA_ADDRESS}/32", "dev", bridge)
        self.host.run("nft", "-f", "-", given=rules(bridge, str(cidr), self._prefix, self._metadata))
        self.host.route_to(str(cidr))

    def has_rules(self, bridge: str) -> bool:
        """False when nftables was flushed since :meth:`ensure`."""
        return self.host.run("nft", "list", "table", "ip", check_name(bridge), check=False).returncode == 0

    def remove(self, bridge: str) -> None:
        """Remove a bridge with its rules, if they are there."""
        self.host.delete_interface(bridge)
        self.host.run("nft", "-f", "-", given=f"table ip {bridge}\ndelete table ip {bridge}\n")


def _metadata_target(listen: str, port: int, host: NetworkHost) -> str:
    """The nftables statement that leads a guest's request to the metadata service without hiding the guest's address."""
    address = ipaddress.ip_address(listen)
    if address.is_loopback or (address.version == 6 and not address.is_unspecified):
        LOG.warning("[metadata] listen = %s: guests cannot reach the metadata service there", listen)
    if not address.is_unspecified and address.version == 4:
        return f"dnat to {address}:{port}"
    return f"dnat to {host.uplink_outside}:{port}" if host.netns else f"redirect to :{port}"


def rules(bridge: str, cidr: str, prefix: str, metadata: str) -> str:
    """One table per bridge, replaced as a whole in one transaction. Guests reach the metadata service and the outside (under
    the address of the host), but no other bridge of nova_lite."""
    return f"""\
table ip {bridge}
delete table ip {bridge}
table ip {bridge} {{
    chain metadata {{
        type nat hook prerouting priority dstnat; policy accept;
        iifname "{bridge}" ip daddr {ipam.METADATA_ADDRESS} tcp dport 80 {metadata}
    }}
    chain outside {{
        type nat hook postrouting priority srcnat; policy accept;
        iifname "{bridge}" ct status dnat accept
        ip saddr {cidr} ip daddr != {cidr} oifname != "{bridge}" ct status & dnat == 0 masquerade
    }}
    chain between {{
        type filter hook forward priority filter; policy accept;
        iifname "{bridge}" oifname "{prefix}*" oifname != "{bridge}" drop
    }}
}}
"""
