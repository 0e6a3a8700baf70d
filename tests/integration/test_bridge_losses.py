"""What somebody else takes away from the bridge driver on its host comes back: nftables' rules, and dnsmasq. Needs root."""
from __future__ import annotations

import os
import shutil

import pytest

from nova_lite.db.port_store import DatabasePortStore
from nova_lite.network.host import NetworkHost
from tests.support.bridge_host import CONTEXT, daemon_of, plugged
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dnsmasq"), reason="needs root and dnsmasq")


def _flush(at) -> None:
    NetworkHost(at[0].network.netns).run("nft", "flush", "ruleset")


def _has_all(at, client) -> bool:
    """Whether a guest is held to its address, and reaches the metadata service and the outside under the host's address."""
    conf, _db, _driver, network = at
    host = NetworkHost(conf.network.netns)
    said = client.run("timeout", "10", "busybox", "wget", "-q", "-O", "-", "http://169.254.169.254/", check=False).stdout
    rules = host.run("nft", "list", "ruleset").stdout
    return said.startswith(client.vif.fixed_ips[0].address) and "masquerade" in rules and all(
        f"{way}{client.vif.devname}" in rules for way in ("jump ", "jump from-", "jump to-"))


def test_rules_flushed_while_a_bridge_is_empty_are_there_for_its_next_guest(at, tmp_path):
    _conf, _db, driver, _network = at
    with plugged(at, tmp_path) as (server, client):
        driver.unplug(server, client.vif)
        driver.deallocate(CONTEXT, server)
    _flush(at)
    with plugged(at, tmp_path) as (_server, following):
        assert _has_all(at, following.dress())


@pytest.mark.parametrize("between", ["nothing", "a plug", "an unplug"])
def test_rules_flushed_soon_after_a_plug_come_back_with_the_next_look(at, tmp_path, between):
    _conf, _db, driver, _network = at
    with plugged(at, tmp_path) as (server, one), plugged(at, tmp_path) as (other, two):
        _flush(at)
        if between == "a plug":
            driver.plug(server, one.vif)
        elif between == "an unplug":
            driver.unplug(other, two.vif)
        driver.refresh_filters()
        assert _has_all(at, one.dress())


def test_the_next_look_starts_a_dnsmasq_that_died_and_does_the_rest_if_it_cannot(at, tmp_path, monkeypatch):
    _conf, db, driver, network = at
    with plugged(at, tmp_path) as (server, client):
        daemon = daemon_of(at)
        first = daemon.pid()
        assert first is not None
        os.kill(first, 9)
        wait_for("the end of dnsmasq", lambda: daemon.pid() is None, 60)
        (tmp_path / "dnsmasq").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "dnsmasq").chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
            assert client.dress().pings(network["gateway"])
            DatabasePortStore(db).groups.remove(CONTEXT, server, "default")
            driver.refresh_filters()
            assert not client.pings(network["gateway"])
            assert daemon.pid() is None
        driver.refresh_filters()
        assert daemon.pid() is not None
        assert client.dhcp()["ip"] == client.vif.fixed_ips[0].address
