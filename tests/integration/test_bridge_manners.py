"""Guests with bad manners towards their host and its DHCP server, on a real bridge with dnsmasq and nftables. Needs root."""
from __future__ import annotations

import ipaddress
import os
import shutil

import pytest

from nova_lite.network.host import NetworkHost
from tests.support import frames
from tests.support.bridge_guests import LISTEN, program, reaches
from tests.support.bridge_host import daemon_of, plugged
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dnsmasq"), reason="needs root and dnsmasq")
_REQUEST, _DECLINE = 3, 4


def _option(number: int, address: str) -> bytes:
    return bytes([number, 4]) + ipaddress.IPv4Address(address).packed


def _on_the_bridge(at, client, tries: list[bytes]) -> list[str]:
    """What of it gets into the bridge, as far as its host hears it; then dnsmasq has got it, too."""
    conf, _db, _driver, network = at
    end = frames.udp("end", client.vif.mac_address, client.vif.fixed_ips[0].address)
    return frames.heard(client.name, conf.network.netns, [*tries, end], "end", network["bridge"])[:-1]


def test_a_guest_speaks_to_the_dhcp_server_for_itself_only(at, tmp_path):
    network, daemon = at[3], daemon_of(at)
    with plugged(at, tmp_path) as (_server, one), plugged(at, tmp_path) as (_other, two):
        mac, address, theirs = one.vif.mac_address, one.vif.fixed_ips[0].address, two.vif.fixed_ips[0].address
        declined = _option(54, network["gateway"]) + _option(50, theirs)
        whole = frames.dhcp("declined", mac, address, two.vif.mac_address, _DECLINE, declined)
        tries = [frames.dhcp("discover", mac, "0.0.0.0", f"fa:16:3e:ff:00:{number:02x}") for number in range(50)]
        assert _on_the_bridge(at, one, [*tries, whole, *frames.cut("part", whole, 8), *frames.cut("part", whole, 32)]) == []
        assert two.dhcp()["ip"] == theirs
        assert one.dhcp()["ip"] == address
        assert "no address" not in (daemon.directory / "log").read_text()


def test_a_guest_asks_the_dhcp_server_so_often_only(at, tmp_path):
    with plugged(at, tmp_path) as (_server, one):
        mac = one.vif.mac_address
        passed = _on_the_bridge(at, one, [frames.dhcp(str(number), mac, "0.0.0.0", mac) for number in range(400)])
        assert 20 <= len(passed) < 300


def test_the_log_of_dnsmasq_is_bounded(at, tmp_path):
    _conf, _db, driver, network = at
    daemon = daemon_of(at)
    log = daemon.directory / "log"
    with plugged(at, tmp_path) as (_server, one):
        pid = daemon.pid()
        with log.open("a") as already:
            already.write(90 * "x" + "\n" + 2 ** 20 * "y")
        driver.refresh_filters()
        assert log.stat().st_size == 0
        mac = one.vif.mac_address
        wrong = frames.dhcp("wrong", mac, "0.0.0.0", mac, _REQUEST, _option(50, network["gateway"]))
        assert _on_the_bridge(at, one, [wrong]) == ["wrong"]
        wait_for("a line in the log", lambda: b"DHCPNAK" in log.read_bytes(), 60)
        driver.refresh_filters()
        assert 0 < log.stat().st_size < 2 ** 10
        assert daemon.pid() == pid


def test_a_guest_reaches_no_service_of_its_host_that_it_is_not_led_to(at, tmp_path):
    conf, _db, _driver, network = at
    host, service = NetworkHost(conf.network.netns), (2222, 30.0)
    itself, no = host.uplink_inside, (2222, 1.0)        # an address that the host has elsewhere
    with plugged(at, tmp_path) as (_server, one), program(conf.network.netns, LISTEN, 2222) as listen:
        address = one.dress().vif.fixed_ips[0].address
        assert listen.stdout.readline() == "ready\n"
        assert reaches(conf.network.netns, network["gateway"], *service)
        for target in (network["gateway"], "169.254.169.254", itself):
            assert not reaches(one.name, target, *no)
            assert one.pings(target)
        said = one.run("busybox", "wget", "-q", "-O", "-", "http://169.254.169.254/").stdout
        assert said.startswith(address)
        # docs/operators.md says how to open one
        host.run("nft", "-f", "-", given=f"""
            table ip for_guests {{
                chain services {{
                    type nat hook prerouting priority dstnat; policy accept;
                    iifname "nlbr*" ip daddr {itself} tcp dport {{ 2222, 3333 }} redirect
                }}
            }}
            """)
        assert reaches(one.name, itself, *service)
        assert not reaches(one.name, network["gateway"], *no)
