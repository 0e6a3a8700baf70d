"""The rules that keep guests to their own addresses, as text; that the kernel does what they say is tests/integration's."""
from __future__ import annotations

import dataclasses

import pytest

from nova_lite import exception
from nova_lite.embedded.network.filter import Nic, rules, without

NIC = Nic("tap0a1b2c3d-4e", "fa:16:3e:00:00:01", "10.1.0.5")
TABLE = """\
table bridge nlbr1 {
    map guests {
        type ifname : verdict
    }
    map receivers {
        type ifname : verdict
    }
    chain from_guests {
        type filter hook prerouting priority -300; policy accept;
    }
    chain to_guests {
        type filter hook postrouting priority 0; policy accept;
    }
}
"""
ONE = """\
add chain bridge nlbr1 tap0a1b2c3d-4e
flush chain bridge nlbr1 tap0a1b2c3d-4e
table bridge nlbr1 {
    chain tap0a1b2c3d-4e {
        ether saddr != fa:16:3e:00:00:01 counter drop
        ether type { 0x8100, 0x88a8 } counter drop
        ether type arp arp saddr ether fa:16:3e:00:00:01 arp saddr ip { 0.0.0.0, 10.1.0.5 } accept
        ether type 0x8035 accept
        ip saddr { 0.0.0.0, 10.1.0.5 } udp sport 68 udp dport 67 @th,288,48 0xfa163e000001 \
limit rate 10/second burst 20 packets accept
        udp dport { 67, 68 } counter drop
        ip saddr 10.1.0.5 accept
        counter drop
    }
}
add element bridge nlbr1 guests { "tap0a1b2c3d-4e" : jump tap0a1b2c3d-4e }
add chain bridge nlbr1 to-tap0a1b2c3d-4e
flush chain bridge nlbr1 to-tap0a1b2c3d-4e
table bridge nlbr1 {
    chain to-tap0a1b2c3d-4e {
        ether type { 0x8100, 0x88a8 } counter drop
        ether type { arp, 0x8035 } accept
        ip daddr 10.1.0.5 accept
        ip daddr 255.255.255.255 udp sport 67 udp dport 68 accept
        counter drop
    }
}
add element bridge nlbr1 receivers { "tap0a1b2c3d-4e" : jump to-tap0a1b2c3d-4e }
"""
ENTRY = ("flush chain bridge nlbr1 from_guests\nadd rule bridge nlbr1 from_guests iifname vmap @guests\n"
         "flush chain bridge nlbr1 to_guests\nadd rule bridge nlbr1 to_guests oifname vmap @receivers\n")


def test_a_nic_has_chains_of_its_own():
    assert rules("nlbr1", [NIC]) == TABLE + ENTRY + ONE
    assert rules("nlbr1", []) == TABLE + ENTRY


def test_each_nic_has_its_addresses():
    other = Nic("tap2", "fa:16:3e:00:00:02", "10.1.0.6")
    both = rules("nlbr1", [NIC, other])
    assert both.startswith(TABLE + ENTRY + ONE)
    assert both.removeprefix(TABLE + ENTRY + ONE) == ONE.replace(
        NIC.interface, "tap2").replace(NIC.mac, other.mac).replace(NIC.address, other.address).replace(
        "0xfa163e000001", "0xfa163e000002")


def test_what_goes_leaves_nothing():
    assert without("nlbr1", [NIC.interface]) == TABLE + """\
add chain bridge nlbr1 tap0a1b2c3d-4e
add element bridge nlbr1 guests { "tap0a1b2c3d-4e" : jump tap0a1b2c3d-4e }
delete element bridge nlbr1 guests { "tap0a1b2c3d-4e" : jump tap0a1b2c3d-4e }
delete chain bridge nlbr1 tap0a1b2c3d-4e
add chain bridge nlbr1 to-tap0a1b2c3d-4e
add element bridge nlbr1 receivers { "tap0a1b2c3d-4e" : jump to-tap0a1b2c3d-4e }
delete element bridge nlbr1 receivers { "tap0a1b2c3d-4e" : jump to-tap0a1b2c3d-4e }
delete chain bridge nlbr1 to-tap0a1b2c3d-4e
"""


@pytest.mark.parametrize("wrong", [
    {"interface": "tap; flush"}, {"interface": ""}, {"mac": "fa:16:3e:00:00:01 accept"}, {"mac": "01:00:5e:00:00:01"},
    {"mac": "FA:16:3E:00:00:01"}, {"address": "10.1.0.0/24"}, {"address": "0.0.0.0"}, {"address": "::1"}, {"address": ""}])
def test_nothing_odd_gets_into_the_rules(wrong):
    with pytest.raises((exception.ConfigError, exception.InvalidInput)):
        dataclasses.replace(NIC, **wrong)
