"""The bridge driver on a real bridge, dnsmasq and nftables, with a client that is a namespace of its own. Needs root."""
from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import shutil
import uuid

import pytest
import sqlalchemy as sa

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import networks
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.embedded.network.bridge import BridgeNetwork
from nova_lite.network import ipam
from nova_lite.network.host import NetworkHost
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import SecurityGroupRule
from tests.support import frames
from tests.support.bridge_guests import LISTEN, TALK, Client, free_range, program, reaches, run
from tests.support.bridge_host import CONTEXT, daemon_of, plugged
from tests.support.process import wait_for
from tests.support.servers import add_server

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dnsmasq"), reason="needs root and dnsmasq")


@pytest.mark.parametrize("at", ["namespace", "host"], indirect=True)
def test_a_client_gets_its_address_and_reaches_the_metadata_service(at, tmp_path):
    _conf, _db, _driver, network = at
    with plugged(at, tmp_path) as (_instance_, client):
        lease = client.dhcp()
        address, router = client.vif.fixed_ips[0].address, network["gateway"]
        assert (lease["ip"], lease["router"], lease["mtu"], lease["dns"]) == (address, router, "1450", "9.9.9.9")
        assert lease["staticroutes"].split()[:2] == ["169.254.169.254/32", router]
        said = client.run("busybox", "wget", "-q", "-O", "-", "http://169.254.169.254/latest/meta-data/").stdout
        assert said == f"{address} asked /latest/meta-data/"


def test_a_stranger_gets_no_address(at, tmp_path):
    with plugged(at, tmp_path) as (_instance_, client):
        run("ip", "-n", client.name, "link", "set", "eth0", "down")
        run("ip", "-n", client.name, "link", "set", "eth0", "address", "fa:16:3e:00:00:01", "up")
        assert client.dhcp() == {}


def test_an_address_passes_to_its_next_owner_at_once(at, tmp_path):
    _conf, db, driver, network = at
    with plugged(at, tmp_path) as (instance, client):
        assert client.dhcp()["ip"] == client.vif.fixed_ips[0].address
        driver.unplug(instance, client.vif)
        driver.deallocate(CONTEXT, instance)
        following = add_server(db)
        request = [{"network_id": network["uuid"], "address": client.vif.fixed_ips[0].address}]
        driver.allocate(CONTEXT, following, request, "node")
    with plugged(at, tmp_path, following) as (_instance_, new):
        assert new.dhcp()["ip"] == request[0]["address"]


def test_everything_can_be_done_again_and_comes_back_after_a_loss(at, tmp_path):
    conf, db, driver, network = at
    with plugged(at, tmp_path) as (instance, client):
        daemon = daemon_of(at)
        first = daemon.pid()
        assert first is not None
        driver.plug(instance, client.vif)
        again = BridgeNetwork(conf, DatabasePortStore(db))      # nova-lite-compute was restarted
        again.init_host("node")
        assert daemon.pid() == first
        os.kill(first, 9)
        wait_for("the end of dnsmasq", lambda: daemon.pid() is None, 60)
        again.init_host("node")
        assert daemon.pid() not in (None, first)
        assert client.dhcp()["ip"] == client.vif.fixed_ips[0].address


def test_a_lost_bridge_is_made_again_and_a_left_tap_is_removed(at, tmp_path):
    conf, _db, driver, network = at
    with plugged(at, tmp_path) as (instance, client):
        netns = NetworkHost(conf.network.netns)
        driver.unplug(instance, client.vif)
        assert not netns.exists(client.vif.devname)
        driver.unplug(instance, client.vif)      # nothing there any more: no error
    netns.delete_interface(network["bridge"])
    driver.plug(instance, client.vif)
    assert netns.exists(network["bridge"])


def test_the_bridge_of_a_deleted_network_goes(at, tmp_path):
    conf, db, driver, network = at
    with plugged(at, tmp_path) as (instance, _client_):
        pass
    driver.deallocate(CONTEXT, instance)
    db.write(networks.delete_network, network["uuid"])
    driver.init_host("node")
    netns = NetworkHost(conf.network.netns)
    assert not netns.exists(network["bridge"])
    assert network["bridge"] not in netns.run("nft", "list", "ruleset").stdout
    assert not (pathlib.Path(conf.state_path) / "dhcp" / network["bridge"]).exists()


def test_the_gateway_keeps_its_hardware_address(at, tmp_path):
    conf, _db, driver, network = at
    netns, mac = NetworkHost(conf.network.netns), ipam.gateway_mac(network["uuid"], "node")

    def of_bridge():
        return json.loads(netns.ip("-j", "link", "show", "dev", network["bridge"]).stdout)[0]["address"]
    netns.ip("link", "add", network["bridge"], "type", "bridge")        # by an older version, or by an operator
    with plugged(at, tmp_path) as (_instance, client):
        assert of_bridge() == mac
        netns.ip("link", "add", "low0", "address", "00:00:00:00:00:01", "type", "veth", "peer", "name", "low1")
        netns.ip("link", "set", "low0", "master", network["bridge"], "up")
        assert of_bridge() == mac
        client.dress()
        assert client.pings(network["gateway"])
        assert f"lladdr {mac} " in client.run("ip", "neighbour", "show", network["gateway"]).stdout
        netns.delete_interface("low0")
    assert of_bridge() == mac


def test_a_range_may_be_used_again_after_its_network_is_gone(at, tmp_path):
    conf, db, driver, network = at
    with plugged(at, tmp_path) as (instance, _client_):
        pass
    driver.deallocate(CONTEXT, instance)
    db.write(networks.delete_network, network["uuid"])
    heir = db.write(networks.create_network, name="heir", cidr=network["cidr"], project_id=instance.project_id)
    server = add_server(db)
    vif = driver.allocate(CONTEXT, server, [{"network_id": heir["uuid"]}], "node")[0]
    driver.plug(server, vif)
    netns = NetworkHost(conf.network.netns)
    assert netns.exists(heir["bridge"])
    assert not netns.exists(network["bridge"])


def test_a_network_that_cannot_be_had_leaves_the_others_alone(at, tmp_path):
    conf, db, driver, network = at
    if not conf.network.netns:
        pytest.skip("needs a namespace of its own")
    netns = NetworkHost(conf.network.netns)
    with plugged(at, tmp_path) as (_instance, _client_):
        netns.ip("link", "delete", network["bridge"])
        netns.ip("link", "add", "vpn", "type", "bridge")
        netns.ip("link", "set", "vpn", "up")
        netns.ip("route", "add", _around(network, 24), "dev", "vpn")
        other = db.write(networks.create_network, name="other", cidr=free_range(), project_id="p")
        server = add_server(db)
        driver.allocate(CONTEXT, server, [{"network_id": other["uuid"]}], "node")
        driver.init_host("node")
        assert netns.exists(other["bridge"])
        assert not netns.exists(network["bridge"])
        netns.ip("link", "delete", "vpn")


def test_a_bridge_that_cannot_be_removed_holds_up_nothing(at):
    conf, db, driver, network = at
    names = ("lost+found", "0table", "is-not-empty/directory")    # no name of a bridge, nftables refuses it, OSError
    for name in names:
        pathlib.Path(conf.state_path, "dhcp", name).mkdir(parents=True)
    try:
        driver.init_host("node")
        server = add_server(db)
        driver.plug(server, driver.allocate(CONTEXT, server, "auto", "node")[0])
        assert NetworkHost(conf.network.netns).exists(network["bridge"])
    finally:
        for name in names:
            shutil.rmtree(pathlib.Path(conf.state_path, "dhcp", name.split("/")[0]))


def test_networks_cannot_reach_each_other(at, tmp_path):
    conf, db, driver, network = at
    other = db.write(networks.create_network, name="other", cidr=free_range(), project_id="q")
    with plugged(at, tmp_path) as (_instance_, client):
        stranger = add_server(db)
        stranger.project_id = "q"
        vif = driver.allocate(CONTEXT, stranger, [{"network_id": other["uuid"]}], "node")[0]
        driver.plug(stranger, vif)
        neighbour = Client(tmp_path / "neighbour", conf.network.netns, other["bridge"], vif)
        try:
            assert client.dhcp()
            assert neighbour.dhcp()
            for one, address in ((client, vif.fixed_ips[0].address), (neighbour, client.vif.fixed_ips[0].address)):
                router = (network if one is client else other)["gateway"]
                one.run("ip", "route", "replace", "default", "via", router)
                assert one.pings(router)
                assert not one.pings(address)
        finally:
            neighbour.close()


@pytest.mark.parametrize(("route", "refused"), [
    ((30, "via", "192.0.2.1"), True), ((16,), True), ((16, "via", "192.0.2.1"), False)])
def test_a_range_that_the_host_reaches_elsewhere_is_refused(at, tmp_path, route, refused):
    conf, db, driver, network = at
    wanted = _around(network, route[0])
    if not conf.network.netns:
        pytest.skip("needs a namespace of its own")
    driver._at.prepare()
    driver._at.ip("link", "add", "other0", "type", "bridge")
    driver._at.ip("address", "add", "192.0.2.9/24", "dev", "other0")
    driver._at.ip("link", "set", "other0", "up")
    driver._at.ip("route", "add", wanted, *route[1:], "dev", "other0")
    if refused:
        with pytest.raises(exception.ConfigError, match=f"overlaps the host's route to {wanted}"):
            driver.plug(*_nic(at))
    else:
        driver.plug(*_nic(at))


def _nic(at):
    conf, db, driver, network = at
    instance = add_server(db)
    return instance, driver.allocate(CONTEXT, instance, "auto", "node")[0]


def _around(network, prefix: int) -> str:
    """The range of this size that begins with the network's, or that the network is in."""
    return str(ipaddress.ip_network(f"{ipaddress.ip_network(network['cidr']).network_address}/{prefix}", strict=False))


def _frames(own, other_mac: str, other_address: str) -> tuple[list[bytes], list[str]]:
    """(what a guest may try to send, names of what it may send), the last of which is "end"."""
    mac, address = own.mac_address, own.fixed_ips[0].address
    return [
        frames.udp("another's hardware address", other_mac, address),
        frames.udp("another's address", mac, other_address),
        frames.udp("no address", mac, "0.0.0.0"),
        frames.arp("arp for the gateway", mac, mac, own.fixed_ips[0].gateway),
        frames.arp("arp for another", mac, mac, other_address),
        frames.arp("arp in another's name", mac, other_mac, address),
        frames.udp("answer of a DHCP server", mac, address, (67, 68)),
        frames.ipv6("IPv6", mac),
        frames.frame("in a VLAN", mac, 0x8100, b"\x00\x01\x08\x00" + frames.udp("x", mac, other_address)[14:42]),
        frames.frame("in VLAN 0", mac, 0x8100, b"\x00\x00\x08\x00" + frames.udp("x", mac, address)[14:42]),
        frames.arp("arp", mac, mac, address),
        frames.arp("arp that asks whether an address is free", mac, mac, "0.0.0.0"),
        frames.frame("rarp after a migration", mac, 0x8035, bytes(28)),
        frames.dhcp("question of a DHCP client", mac, "0.0.0.0", mac),
        frames.dhcp("another question", mac, address, mac),
        frames.dhcp("question for another", mac, "0.0.0.0", other_mac),
        frames.dhcp("another for another", mac, address, other_mac),
        frames.udp("question without content", mac, "0.0.0.0", (68, 67)),
        frames.udp("end", mac, address)], ["arp", "arp that asks whether an address is free", "rarp after a migration",
                                           "question of a DHCP client", "another question", "end"]


def test_a_guest_sends_from_its_own_addresses_only(at, tmp_path):
    conf, _db, driver, network = at
    with plugged(at, tmp_path) as (instance, client), plugged(at, tmp_path) as (_other, neighbour):
        tries, allowed = _frames(client.vif, neighbour.vif.mac_address, neighbour.vif.fixed_ips[0].address)
        on_the_bridge = (client.name, conf.network.netns, tries, "end", network["bridge"])
        assert frames.heard(*on_the_bridge) == allowed
        driver.init_host("node")        # as after a restart, with the guest running
        driver.plug(instance, client.vif)
        assert frames.heard(*on_the_bridge) == allowed
        # of what is for all, a neighbour gets ARP and its like
        asked = frames.arp("last", client.vif.mac_address, client.vif.mac_address, client.vif.fixed_ips[0].address)
        assert frames.heard(client.name, neighbour.name, [*tries, asked], "last") == [
            "arp", "arp that asks whether an address is free", "rarp after a migration", "last"]
        rules = NetworkHost(conf.network.netns).run("nft", "list", "ruleset")
        assert client.vif.devname in rules.stdout
        driver.unplug(instance, client.vif)
        rules = NetworkHost(conf.network.netns).run("nft", "list", "ruleset")
        assert client.vif.devname not in rules.stdout
        assert neighbour.vif.devname in rules.stdout


def test_without_the_rules_all_of_it_would_arrive(at, tmp_path):
    conf, _db, _driver, network = at
    with plugged(at, tmp_path) as (_instance, client), plugged(at, tmp_path) as (_other, neighbour):
        NetworkHost(conf.network.netns).run("nft", "delete", "table", "bridge", network["bridge"])
        tries, _allowed = _frames(client.vif, neighbour.vif.mac_address, neighbour.vif.fixed_ips[0].address)
        assert frames.heard(client.name, neighbour.name, tries, "end") == [frames.name_of(one) for one in tries]


def test_a_restart_keeps_the_rules_of_a_guest_on_its_way_and_takes_those_of_one_that_is_gone(at, tmp_path):
    conf, db, driver, network = at
    host = NetworkHost(conf.network.netns)
    with plugged(at, tmp_path) as (_instance, client):
        for name in ("coming", "gone"):
            server = add_server(db)
            vif = driver.allocate(CONTEXT, server, "auto", "elsewhere")[0]
            driver.plug(server, vif)
            if name == "coming":
                coming = vif.devname
                host.ip("tuntap", "add", coming, "mode", "tap")
        driver.init_host("node")
        rules = host.run("nft", "list", "table", "bridge", network["bridge"]).stdout
        assert [tap in rules for tap in (client.vif.devname, coming, vif.devname)] == [True, True, False]
        host.delete_interface(coming)


# security groups ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", ["namespace", "host"], indirect=True)
def test_security_groups_decide_who_reaches_a_guest(at, tmp_path):
    conf, db, driver, network = at
    store, p, q = DatabasePortStore(db), CONTEXT, RequestContext(user_id="v", project_id="q", overwrite=False)
    if conf.network.netns:      # where other bridges are to be left alone, ours are seen all the same
        NetworkHost(conf.network.netns).sysctl("net/bridge/bridge-nf-call-iptables", "0")
    stranger = add_server(db, Instance(uuid=str(uuid.uuid4()), project_id="q", user_id="v", display_name="s", hostname="s",
                                       flavor=Flavor("1", "f", 1, 1, 1)))
    with plugged(at, tmp_path) as (server, one), plugged(at, tmp_path) as (_two, two), \
            plugged(at, tmp_path, stranger) as (_three, other), program(one.dress().name, LISTEN, 22) as listen, \
            program(other.dress().name, LISTEN, 22) as theirs:
        two.dress()
        assert (listen.stdout.readline(), theirs.stdout.readline()) == ("ready\n", "ready\n")
        driver.refresh_filters()        # who came later is a member, too
        address, strange = (c.vif.fixed_ips[0].address for c in (one, other))
        yes, no = 30.0, 1.0
        assert reaches(two.name, address, 22, yes)             # a member of the same group
        assert not reaches(other.name, address, 22, no)        # of another project
        assert not reaches(one.name, strange, 22, no)
        ping = ["busybox", "ping", "-c", "1", "-W", "1"]
        for host in (NetworkHost(conf.network.netns), NetworkHost()):       # the host itself, by its uplink, too
            host.run(*ping[:-1], "30", address)
        assert other.run(*ping, address, check=False).returncode != 0

        group = store.groups.create(p, "web", "").id
        rule = store.groups.add_rule(p, SecurityGroupRule("", group, "tcp", 22, 22, f"{strange}/32"))
        store.groups.add(p, server, "web")
        driver.refresh_filters()
        with program(other.name, TALK, address, 22, yes) as talk:
            assert talk.stdout.readline() == "hello\n"
            assert other.run(*ping, address, check=False).returncode != 0
            driver.init_host("node")            # as after a restart
            talk.stdin.write("\n")
            talk.stdin.flush()
            assert talk.stdout.readline() == "still here\n"
        with program(other.name, TALK, address, 22, 2) as talk:
            assert talk.stdout.readline() == "hello\n"
            store.groups.delete_rule(p, rule.id)
            driver.refresh_filters()
            talk.stdin.write("\n")
            talk.stdin.flush()
            assert talk.stdout.readline() == "silence\n"       # what the rule had let in ends with it

        store.groups.add_rule(q, SecurityGroupRule("", store.groups.list_all(q)[0].id, "icmp", 8, 0, "0.0.0.0/0"))
        driver.refresh_filters()
        one.run(*ping[:-1], "30", strange)                      # theirs says so; and the answer comes back
        store.groups.remove(p, server, "default")
        driver.refresh_filters()
        assert not reaches(two.name, address, 22, no)          # no members of the same group any more
        one.run(*ping[:-1], "30", strange)


def test_a_guest_without_egress_rules_still_has_dhcp_and_metadata(at, tmp_path):
    conf, db, driver, network = at
    store = DatabasePortStore(db)
    with plugged(at, tmp_path) as (server, one), plugged(at, tmp_path) as (_server, two):
        store.groups.remove(CONTEXT, server, "default")
        driver.refresh_filters()
        assert one.dhcp()["ip"] == one.vif.fixed_ips[0].address
        said = one.run("busybox", "wget", "-q", "-O", "-", "http://169.254.169.254/").stdout
        assert said.startswith(one.vif.fixed_ips[0].address)
        assert two.dhcp()["ip"] == two.vif.fixed_ips[0].address
        for target in (network["gateway"], two.vif.fixed_ips[0].address):
            assert not one.pings(target)


def test_a_row_that_holds_no_address_stops_filtering_for_nobody(at, tmp_path):
    _conf, db, driver, network = at       # an older version took a number for an address
    store, number = DatabasePortStore(db), str(int(ipaddress.IPv4Address(network["gateway"])))
    with plugged(at, tmp_path) as (server, one), plugged(at, tmp_path) as (_other, two):
        for holder in (None, add_server(db)):       # a member of the groups, and a guest of this host
            bad = (driver.allocate(CONTEXT, holder, "auto", "node")[0].id if holder
                   else db.write(networks.create_port, network["uuid"], "p")["uuid"])
            db.write(lambda c, uuid, wrong: c.execute(sa.update(networks.PORTS).where(networks.PORTS.c.uuid == uuid).values(
                address=wrong)), bad, number if holder else "1")
        driver.init_host("node")
        two.dress()
        assert one.dress().pings(two.vif.fixed_ips[0].address)
        store.groups.remove(CONTEXT, server, "default")
        driver.refresh_filters()
        assert not one.pings(two.vif.fixed_ips[0].address)
        driver.plug(*_nic(at))          # whoever comes next is built


def test_whatever_is_wrong_with_one_bridge_the_others_are_filtered(at, tmp_path, monkeypatch):
    conf, db, driver, network = at
    other, stranger = db.write(networks.create_network, name="other", cidr=free_range(), project_id="q"), add_server(db)
    stranger.project_id = "q"
    driver.plug(stranger, driver.allocate(CONTEXT, stranger, [{"network_id": other["uuid"]}], "node")[0])
    store, rules_for = driver._store, driver._store.rules_for
    with plugged(at, tmp_path) as (server, one):
        mine = [group.id for group in store.groups.list_all(CONTEXT)]

        def fails(groups):
            if groups and groups != mine:
                raise ValueError("rows that nobody thought of")
            return rules_for(groups)
        monkeypatch.setattr(store, "rules_for", fails)
        driver.init_host("node")
        assert one.dress().pings(network["gateway"])
        store.groups.remove(CONTEXT, server, "default")
        driver.refresh_filters()
        assert not one.pings(network["gateway"])


def test_a_listing_that_fails_opens_no_filter(at, tmp_path, monkeypatch):
    conf, db, driver, network = at
    with plugged(at, tmp_path) as (server, one):
        DatabasePortStore(db).groups.remove(CONTEXT, server, "default")
        driver.refresh_filters()
        assert not one.dress().pings(network["gateway"])
        script = tmp_path / "nft"
        script.write_text(f'#!/bin/sh\ncase "$*" in *"list map"*) kill -9 $$;; esac\nexec {shutil.which("nft")} "$@"\n')
        script.chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
            with pytest.raises(exception.VirtDriverError, match="list map"):
                driver.plug(*_nic(at))
        assert not one.pings(network["gateway"])


def test_rules_that_somebody_flushed_come_back(at, tmp_path):
    conf, db, driver, network = at
    host = NetworkHost(conf.network.netns)
    with plugged(at, tmp_path) as (server, one), plugged(at, tmp_path) as (other, gone):
        DatabasePortStore(db).groups.remove(CONTEXT, server, "default")
        driver.unplug(other, gone.vif)      # its port is still there
        driver.refresh_filters()
        seen = []
        for _ in range(2):
            host.run("nft", "flush", "ruleset")
            driver.refresh_filters()
            seen.append(sorted(host.run("nft", "-s", "list", "ruleset").stdout.splitlines()))
        assert seen[0] == seen[1]
        assert one.vif.devname in str(seen)
        assert gone.vif.devname not in str(seen)
        assert one.dhcp()
        assert not one.pings(network["gateway"])


def test_only_a_port_of_the_server_is_plugged(at):
    _conf, db, driver, _network = at
    instance, other = add_server(db), add_server(db)
    vif = driver.allocate(CONTEXT, instance, "auto", "elsewhere")[0]
    with pytest.raises(exception.PortNotFound):
        driver.plug(other, vif)
    driver.plug(instance, vif)          # its guest may be on the way to this host
    driver.unplug(instance, vif)
    driver.deallocate(CONTEXT, instance)
    with pytest.raises(exception.PortNotFound):
        driver.plug(instance, vif)
