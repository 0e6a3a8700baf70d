"""What security groups become in nftables, as text; that the kernel does what it says is tests/integration's."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.embedded.network import group_filter
from nova_lite.embedded.network.filter import Nic
from nova_lite.network.group_rules import Rule

GROUP = "0a1b2c3d-4e5f-4000-8000-0123456789ab"
SET = "g0a1b2c3d4e5f400080000123456789ab"


def _nic(*rules: Rule) -> Nic:
    return Nic("tap1", "fa:16:3e:00:00:01", "10.1.0.5", rules)


def _lines(text: str, chain: str) -> list[str]:
    start = f"add rule ip nlbr1-groups {chain} "
    return [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]


def test_a_guest_without_rules_gets_nothing_and_reaches_only_what_it_needs():
    text = group_filter.guests("nlbr1", [_nic()], {})
    assert _lines(text, "to-tap1") == ["counter drop"]
    assert _lines(text, "from-tap1") == [
        "udp sport 68 udp dport 67 return",
        "meta l4proto tcp ct original ip daddr 169.254.169.254 ct original proto-dst 80 return", "counter drop"]


@pytest.mark.parametrize(("values", "line"), [
    ({}, "accept"), ({"remote_cidr": "10.0.0.0/8"}, "ip saddr 10.0.0.0/8 accept"),
    ({"protocol": "tcp"}, "meta l4proto 6 accept"),
    ({"protocol": "tcp", "port_min": 22, "port_max": 22}, "tcp dport 22 accept"),
    ({"protocol": "udp", "port_min": 1, "port_max": 9, "remote_cidr": "10.1.2.3/32"},
     "ip saddr 10.1.2.3/32 udp dport 1-9 accept"),
    ({"protocol": "icmp"}, "meta l4proto 1 accept"), ({"protocol": "icmp", "port_min": 8}, "icmp type 8 accept"),
    ({"protocol": "icmp", "port_min": 3, "port_max": 4}, "icmp type 3 icmp code 4 accept"),
    ({"protocol": "47"}, "meta l4proto 47 accept"), ({"protocol": "vrrp"}, "meta l4proto 112 accept"),
    ({"remote_group": GROUP, "protocol": "sctp"}, f"ip saddr @{SET} meta l4proto 132 accept")])
def test_rules(values, line):
    text = group_filter.guests("nlbr1", [_nic(Rule("ingress", **values), Rule("egress", **values))], {})
    assert _lines(text, "to-tap1") == [line, "counter drop"]
    assert _lines(text, "from-tap1")[2:] == [line.replace("saddr", "daddr").replace("accept", "return"), "counter drop"]


def test_rules_for_ipv6_let_nothing_in():
    text = group_filter.guests("nlbr1", [_nic(Rule("ingress", "IPv6"))], {})
    assert _lines(text, "to-tap1") == ["counter drop"]


def test_members_are_a_set():
    rule = Rule("ingress", remote_group=GROUP)
    text = group_filter.guests("nlbr1", [_nic(rule), _nic(rule)], {GROUP: ["10.1.0.7", "10.1.0.5"], "x": ["y"]})
    assert text.startswith(f"add set ip nlbr1-groups {SET} {{ type ipv4_addr; }}\nflush set ip nlbr1-groups {SET}\n"
                           f"add element ip nlbr1-groups {SET} {{ 10.1.0.5, 10.1.0.7 }}\n")
    assert text.count("add element") == 1
    assert "add element" not in group_filter.guests("nlbr1", [_nic(rule)], {})


def test_entries_are_all_that_there_are():
    assert group_filter.entries("nlbr1", {"10.1.0.5": "tap1", "10.1.0.4": "tap2"}) == """\
flush map ip nlbr1-groups to_guests
add element ip nlbr1-groups to_guests { 10.1.0.4 : jump to-tap2, 10.1.0.5 : jump to-tap1 }
flush map ip nlbr1-groups from_guests
add element ip nlbr1-groups from_guests { 10.1.0.4 : jump from-tap2, 10.1.0.5 : jump from-tap1 }
"""
    assert "add" not in group_filter.entries("nlbr1", {})


def test_the_host_itself_comes_by_an_uplink_or_not_at_all():
    assert _lines(group_filter.base("nlbr1", ("nli1", "169.254.32.1")), "through") == [
        "ct state related accept", "ct direction reply ct state established accept",
        'iifname "nli1" ip saddr 169.254.32.1 accept', 'iifname "nlbr1" ip saddr vmap @from_guests',
        'oifname "nlbr1" ip daddr vmap @to_guests']
    assert "nli" not in group_filter.base("nlbr1")


def test_at_the_host_itself_a_guest_finds_only_what_it_needs():
    assert _lines(group_filter.base("nlbr1"), "to_host")[2:] == [f'iifname "nlbr1" {rest}' for rest in (
        "ip saddr vmap @from_guests", "udp sport 68 udp dport 67 accept", "meta l4proto icmp accept", "ct status dnat accept",
        "counter drop")]


def test_nothing_odd_gets_into_the_rules():
    with pytest.raises(exception.InvalidInput):
        group_filter.guests("nlbr1", [_nic(Rule("ingress", remote_group="x; accept"))], {})
    with pytest.raises(ValueError):
        group_filter.guests("nlbr1", [_nic(Rule("ingress", remote_group=GROUP))], {GROUP: ["10.1.0.5, 0.0.0.0/0"]})
