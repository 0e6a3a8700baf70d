"""Networks and ports: what may be made, who may use it, and that no address is given away twice."""
from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.db import core, instances, networks
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.network import ipam
from tests.support.servers import add_server
from tests.unit.db.databases import URLS, empty_database

AUTO = [{}]


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def db(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        database = core.Database(nova_conf.load([], config_files=[], database__connection=url, database__max_pool_size=10))
        yield database
        database.dispose()


@pytest.fixture
def store(db):
    return DatabasePortStore(db)


@pytest.fixture
def network(db):
    return db.write(networks.create_network, name="private", cidr="10.1.0.0/28", dns=["9.9.9.9"])


def _ids(ports) -> list[str]:
    return [p["uuid"] for p in ports]


# networks ----------------------------------------------------------------------------------------------------------
def test_a_network_has_a_gateway_and_a_bridge_of_its_own(db, network):
    assert (network["gateway"], network["mtu"], network["dns"]) == ("10.1.0.1", 1500, ["9.9.9.9"])
    assert network["bridge"].startswith("nlbr")
    assert len(network["bridge"]) <= 15
    other = db.write(networks.create_network, name="private", cidr="10.1.1.0/28", gateway="10.1.1.14")
    assert other["bridge"] != network["bridge"]
    assert other["gateway"] == "10.1.1.14"


@pytest.mark.parametrize("values", [
    {"cidr": "10.1.0.0"}, {"cidr": "10.1.0.0/30"}, {"cidr": "10.1.0.1/24"}, {"cidr": "fd00::/64"}, {"cidr": "0.0.0.0/0"},
    {"cidr": "169.254.169.0/24"}, {"cidr": "127.0.0.0/24"}, {"cidr": "10.1.0.0/24; drop"}, {"cidr": "10.1.0.0/24\n"},
    {"cidr": "10.1.0.0/24", "gateway": "10.2.0.1"}, {"cidr": "10.1.0.0/24", "gateway": "10.1.0.255"},
    {"cidr": "10.1.0.0/24", "mtu": 68}, {"cidr": "10.1.0.0/24", "dns": ["resolver"]}])
def test_bad_networks_are_refused(db, values):
    with pytest.raises(exception.InvalidInput):
        db.write(networks.create_network, name="bad", **values)


def test_ranges_do_not_overlap(db, network):
    with pytest.raises(exception.InvalidInput, match=network["uuid"]):
        db.write(networks.create_network, name="again", cidr="10.1.0.0/16")


def test_a_project_sees_its_own_and_the_shared_networks(db, store, network):
    mine = db.write(networks.create_network, name="mine", cidr="10.2.0.0/24", project_id="p")
    assert [n["uuid"] for n in store.list_networks("p")] == [network["uuid"], mine["uuid"]]
    assert [n["uuid"] for n in store.list_networks("q")] == [network["uuid"]]
    assert len(store.list_networks(None)) == 2
    with pytest.raises(exception.NetworkNotFound), db.read() as c:
        networks.get_network(c, mine["uuid"], "q")


def test_a_network_with_ports_stays(db, store, network):
    server = add_server(db).uuid
    store.allocate_ports(server, "p", "h", AUTO)
    with pytest.raises(exception.Conflict):
        db.write(networks.delete_network, network["uuid"])
    store.release_ports(server)
    db.write(networks.delete_network, network["uuid"])
    with pytest.raises(exception.NetworkNotFound):
        db.write(networks.delete_network, network["uuid"])


# allocation --------------------------------------------------------------------------------------------------------
def test_an_address_that_is_asked_for_is_not_given_to_another_nic_of_the_server_first(db, store):
    network = db.write(networks.create_network, "narrow", "10.9.0.0/29")
    for _ in range(20):
        server = add_server(db).uuid
        requests = [{"network_id": network["uuid"]}, {"network_id": network["uuid"], "address": "10.9.0.4"}]
        assert store.allocate_ports(server, "p", "one", requests)[1]["address"] == "10.9.0.4"
        store.release_ports(server)


def test_the_same_server_gets_the_same_ports_on_any_host(db, store, network):
    server = add_server(db).uuid
    requests = [{"network_id": network["uuid"], "address": "10.1.0.9"}, {"network_id": network["uuid"]}]
    first = store.allocate_ports(server, "p", "one", requests)
    assert first[0]["address"] == "10.1.0.9"
    assert first[0]["network"]["bridge"] == network["bridge"]
    again = store.allocate_ports(server, "p", "two", requests)
    assert _ids(again) == _ids(first)
    assert _ids(store.list_host_ports("two")) == _ids(first)
    assert store.list_host_ports("one") == []
    json.dumps(again)      # crosses RPC
    store.move_ports(server, "three")
    assert _ids(store.list_host_ports("three")) == _ids(store.list_server_ports(server)) == _ids(first)
    store.move_ports(server, "two")
    store.release_ports(server)
    store.release_ports(server)
    assert store.list_host_ports("two") == []


def test_a_port_more_has_a_key_of_its_own_and_goes_alone(db, store, network):
    server = add_server(db).uuid
    mine = db.write(networks.create_port, network["uuid"], "p")["uuid"]
    [first] = _ids(store.allocate_ports(server, "p", "h", [{"network_id": network["uuid"]}]))
    more = {"network_id": network["uuid"], "key": "0123456789abcdef"}
    [second] = _ids(store.allocate_ports(server, "p", "h", [more]))
    assert second != first
    assert _ids(store.allocate_ports(server, "p", "h", [more])) == [second]
    store.allocate_ports(server, "p", "h", [{"port_id": mine, "key": "k"}])
    store.release_port(add_server(db).uuid, second, None)
    assert set(_ids(store.list_host_ports("h"))) == {first, second, mine}
    for _ in range(2):
        store.release_port(server, None, more["key"])
        store.release_port(server, mine, None)
    assert _ids(store.list_host_ports("h")) == [first]
    with db.read() as connection:
        assert networks.get_port(connection, mine)["instance_uuid"] is None


def test_auto_means_the_only_network(db, store):
    server = add_server(db).uuid
    assert store.allocate_ports(server, "p", "h", AUTO) == []
    network = db.write(networks.create_network, name="a", cidr="10.1.0.0/28")
    port = store.allocate_ports(server, "p", "h", AUTO)[0]
    assert port["network_uuid"] == network["uuid"]
    db.write(networks.create_network, name="b", cidr="10.2.0.0/28")
    with pytest.raises(exception.NetworkAmbiguous) as raised:
        store.allocate_ports(add_server(db).uuid, "p", "h", AUTO)
    assert raised.value.code == 409
    # a build that goes on after a crash is not disturbed by the second network
    assert _ids(store.allocate_ports(server, "p", "h", AUTO)) == [port["uuid"]]


def test_a_full_network_says_so(db, store, network):
    taken = {store.allocate_ports(add_server(db).uuid, "p", "h", AUTO)[0]["address"] for _ in range(13)}
    assert taken == {f"10.1.0.{n}" for n in range(2, 15)}
    with pytest.raises(exception.NoMoreFixedIps):
        store.allocate_ports(add_server(db).uuid, "p", "h", AUTO)
    with pytest.raises(exception.NoMoreFixedIps):
        store.check_requests("p", AUTO, 1)


def test_builds_at_the_same_time_get_different_addresses(db, store, network):
    with ThreadPoolExecutor(8) as pool:
        ports = list(pool.map(lambda n: store.allocate_ports(add_server(db).uuid, "p", "h", AUTO)[0], range(13)))
    assert len({p["address"] for p in ports}) == 13


def test_one_build_that_runs_twice_at_the_same_time_gets_one_port(db, store, network):
    server = add_server(db).uuid
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda n: _ids(store.allocate_ports(server, "p", "h", AUTO * 2)), range(4)))
    assert all(run == runs[0] for run in runs)
    assert len(store.list_host_ports("h")) == 2


def test_a_late_host_leaves_no_port_for_a_deleted_server(db, store, network):
    server = add_server(db).uuid
    store.allocate_ports(server, "p", "h", AUTO)
    db.write(instances.mark_deleted, server)
    store.release_ports(server)
    with pytest.raises(exception.InstanceNotFound, match=server):
        store.allocate_ports(server, "p", "h", AUTO)
    assert store.list_host_ports("h") == []


@pytest.mark.parametrize(("request_", "error", "code"), [
    ({"network_id": "00000000-0000-4000-8000-000000000000"}, exception.NetworkNotFound, 404),
    ({"port_id": "00000000-0000-4000-8000-000000000000"}, exception.PortNotFound, 404),
    ({"address": "10.9.0.1"}, exception.InvalidInput, 400), ({"address": 167837701}, exception.InvalidInput, 400),
    ({"address": "10.1.0.0"}, exception.InvalidInput, 400),
    ({"address": "10.1.0.15"}, exception.InvalidInput, 400), ({"address": "fd00::1"}, exception.InvalidInput, 400),
    ({"address": "10.1.0.1"}, exception.FixedIpAlreadyInUse, 400)])
def test_what_is_not_there_is_refused_before_and_at_the_build(db, store, network, request_, error, code):
    server = add_server(db).uuid
    for call in (lambda: store.check_requests("p", [request_], 1), lambda: store.allocate_ports(server, "p", "h", [request_])):
        with pytest.raises(error) as raised:
            call()
        assert raised.value.code == code
    assert store.list_host_ports("h") == []


# ports of the user -------------------------------------------------------------------------------------------------
def test_a_users_port_is_bound_and_outlives_the_server(db, store, network):
    mine = db.write(networks.create_port, network["uuid"], "p", name="n", address="10.1.0.7", mac_address="FA:16:3E:00:00:07")
    server = add_server(db).uuid
    store.check_requests("p", [{"port_id": mine["uuid"]}], 1)
    port = store.allocate_ports(server, "p", "h", [{"port_id": mine["uuid"]}])[0]
    assert (port["uuid"], port["mac_address"], port["request_key"]) == (mine["uuid"], "fa:16:3e:00:00:07", None)
    with pytest.raises(exception.PortInUse):
        store.allocate_ports(add_server(db).uuid, "p", "h", [{"port_id": mine["uuid"]}])
    with pytest.raises(exception.PortInUse):
        store.check_requests("p", [{"port_id": mine["uuid"]}], 1)
    with pytest.raises(exception.PortInUse):
        db.write(networks.delete_port, mine["uuid"])
    store.release_ports(server)
    with db.read() as c:
        assert networks.get_port(c, mine["uuid"])["instance_uuid"] is None
    db.write(networks.delete_port, mine["uuid"])


def test_many_at_the_same_time_make_no_more_than_the_limit(db, store, network, monkeypatch):
    monkeypatch.setattr(networks, "MAX_PORTS", 3)
    monkeypatch.setattr(networks, "MAX_NETWORKS", 3)

    def tries(make, *arguments, **values):
        try:
            return db.write(make, *arguments, **values)["uuid"]
        except exception.QuotaLimitExceeded:
            return None
    store.allocate_ports(add_server(db).uuid, "p", "h", [{"network_id": network["uuid"]}] * 4)
    with ThreadPoolExecutor(8) as pool:
        ports = list(pool.map(lambda n: tries(networks.create_port, network["uuid"], "p"), range(8)))
        made = list(pool.map(lambda n: tries(networks.create_next_network, name="n", project_id="p"), range(8)))
    assert (len(set(ports) - {None}), len(set(made) - {None})) == (3, 3)
    store.allocate_ports(add_server(db).uuid, "p", "h", [{"network_id": network["uuid"]}] * 4)      # those of servers go on
    db.write(networks.create_next_network, name="n")       # and so does what is everybody's


def test_nobody_uses_anothers_port(db, store, network):
    port = db.write(networks.create_port, network["uuid"], "p")
    with pytest.raises(exception.PortNotFound):
        store.allocate_ports(add_server(db).uuid, "q", "h", [{"port_id": port["uuid"]}])
    with pytest.raises(exception.PortNotFound):
        store.check_requests("q", [{"port_id": port["uuid"]}], 1)
    with pytest.raises(exception.PortNotFound):
        db.write(networks.delete_port, port["uuid"], "q")


def test_a_port_or_an_address_is_for_one_server(db, store, network):
    port = db.write(networks.create_port, network["uuid"], "p", address="10.1.0.4")
    for request in ({"port_id": port["uuid"]}, {"network_id": network["uuid"], "address": "10.1.0.5"}):
        with pytest.raises(exception.InvalidInput):
            store.check_requests("p", [request], 2)
        store.check_requests("p", [request], 1)
    with pytest.raises(exception.PortInUse):
        store.check_requests("p", [{"port_id": port["uuid"]}] * 2, 1)


@pytest.mark.parametrize("mac", ["fa:16:3e:00:00", "ff:ff:ff:ff:ff:ff", "fa:16:3e:00:00:01,10.0.0.1", "fa:16:3e:00:00:01\n"])
def test_a_bad_hardware_address_is_refused(db, network, mac):
    with pytest.raises(exception.InvalidInput):
        db.write(networks.create_port, network["uuid"], "p", mac_address=mac)


def test_nobody_has_the_hardware_address_of_the_gateway(db, network):
    for host in ("one", "two"):
        mac = ipam.gateway_mac(network["uuid"], host)
        assert ipam.parse_mac(mac) == mac
        for written in (mac, mac.upper()):
            with pytest.raises(exception.MacAddressInUse):
                db.write(networks.create_port, network["uuid"], "p", mac_address=written)
    assert ipam.gateway_mac(network["uuid"], "one") != mac
    assert ipam.gateway_mac("00000000-0000-4000-8000-000000000000", "two") != mac


def test_a_hardware_address_is_unique(db, network):
    db.write(networks.create_port, network["uuid"], "p", mac_address="fa:16:3e:00:00:01")
    with pytest.raises(exception.MacAddressInUse):
        db.write(networks.create_port, network["uuid"], "p", mac_address="fa:16:3e:00:00:01")
