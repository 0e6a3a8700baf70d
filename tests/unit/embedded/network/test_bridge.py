"""The embedded drivers as the API and the build see them; what happens on the host is tests/integration's."""
from __future__ import annotations

import pytest

from nova_lite import conf as conf_module
from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import networks
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.embedded.network.dhcp import Lease, configuration
from nova_lite.network import base
from nova_lite.network.host import check_name
from nova_lite.objects.network import NetworkRequest
from tests.support.servers import add_server
from tests.unit.db.databases import make_tables

CONTEXT = RequestContext(user_id="u", project_id="p", overwrite=False)
ADMIN = RequestContext(user_id="a", project_id="a", is_admin=True, overwrite=False)
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def conf(tmp_path):
    made = conf_module.load([], config_files=[], state_path=str(tmp_path), database__connection=f"sqlite:///{tmp_path}/db")
    make_tables(made.database.connection)
    return made


@pytest.fixture
def db(conf):
    database = Database(conf)
    yield database
    database.dispose()


@pytest.fixture
def driver(conf, db):
    return base.load(conf, DatabasePortStore(db))


def test_a_nic_holds_what_guest_and_host_need(driver, db):
    network = db.write(networks.create_network, name="private", cidr="10.1.0.0/24", dns=["9.9.9.9"], mtu=1450)
    instance = add_server(db)
    nic, = driver.allocate(CONTEXT, instance, [NetworkRequest(network["uuid"], address="10.1.0.9", tag="blue")], "h")
    assert (nic.network_id, nic.network_name, nic.type) == (network["uuid"], "private", "bridge")
    assert (nic.mtu, nic.tag) == (1450, "blue")
    assert nic.details["bridge"] == network["bridge"]
    assert nic.devname == "tap" + nic.id[:11]
    assert not nic.preserve_on_delete
    fixed, = nic.fixed_ips
    assert (fixed.address, fixed.version, fixed.cidr, fixed.gateway, fixed.dns) == (
        "10.1.0.9", 4, "10.1.0.0/24", "10.1.0.1", ["9.9.9.9"])
    assert driver.allocate(CONTEXT, instance, [NetworkRequest(network["uuid"], address="10.1.0.9", tag="blue")], "h") == [nic]
    driver.deallocate(CONTEXT, instance)
    with db.read() as c:
        assert networks.list_ports(c) == []


def test_a_users_port_is_preserved(driver, db):
    network = db.write(networks.create_network, name="private", cidr="10.1.0.0/24")
    port = db.write(networks.create_port, network["uuid"], "p")
    nic, = driver.allocate(CONTEXT, add_server(db), [NetworkRequest(port_id=port["uuid"])], "h")
    assert nic.preserve_on_delete


@pytest.mark.parametrize("requests", [None, "auto", []])
def test_auto(driver, db, requests):
    driver.validate(CONTEXT, requests, 1)
    assert driver.allocate(CONTEXT, add_server(db), requests, "h") == []
    db.write(networks.create_network, name="a", cidr="10.1.0.0/24")
    driver.validate(CONTEXT, requests, 100)
    assert len(driver.allocate(CONTEXT, add_server(db), requests, "h")) == 1
    db.write(networks.create_network, name="b", cidr="10.2.0.0/24")
    with pytest.raises(exception.NetworkAmbiguous, match="Multiple possible networks found, use a Network ID"):
        driver.validate(CONTEXT, requests, 1)


def test_what_an_admin_names_for_a_server_is_its_projects(driver, db):
    network = db.write(networks.create_network, name="a", cidr="10.1.0.0/24", project_id="p")
    theirs = db.write(networks.create_network, name="b", cidr="10.2.0.0/24", project_id="a")
    server, mine = add_server(db), db.write(networks.create_port, network["uuid"], "p")
    assert server.project_id == "p"
    for requests in ([NetworkRequest(port_id=mine["uuid"])], [NetworkRequest(network["uuid"])], None):
        driver.validate(ADMIN, requests, 1, server=server)
    with pytest.raises(exception.NetworkNotFound):
        driver.validate(ADMIN, [NetworkRequest(theirs["uuid"])], 1, server=server)
    with pytest.raises(exception.PortNotFound):
        driver.validate(ADMIN, [NetworkRequest(port_id=mine["uuid"])], 1)


def test_none_is_none(driver, db):
    db.write(networks.create_network, name="a", cidr="10.1.0.0/24")
    driver.validate(CONTEXT, "none", 1)
    assert driver.allocate(CONTEXT, add_server(db), "none", "h") == []


def test_validate_names_what_is_missing(driver):
    with pytest.raises(exception.NetworkNotFound, match=NOWHERE):
        driver.validate(CONTEXT, [NetworkRequest(NOWHERE)], 1)
    with pytest.raises(exception.PortNotFound, match=NOWHERE):
        driver.validate(CONTEXT, [NetworkRequest(port_id=NOWHERE)], 1)
    with pytest.raises(exception.InvalidInput):
        driver.validate(CONTEXT, "some", 1)


def test_list_networks_of_a_project_and_of_an_admin(driver, db):
    other = db.write(networks.create_network, name="other", cidr="10.1.0.0/24", project_id="q")
    assert driver.list_networks(CONTEXT) == []
    assert driver.list_networks(ADMIN) == [{"id": other["uuid"], "label": "other", "cidr": "10.1.0.0/24"}]


def test_the_null_driver_has_no_network(conf, db):
    conf.set_override("driver", "null", group="network")
    driver = base.load(conf, None)
    for requests in (None, "auto", "none", []):
        driver.validate(CONTEXT, requests, 3)
        assert driver.allocate(CONTEXT, add_server(db), requests, "h") == []
    with pytest.raises(exception.NetworkNotFound, match=NOWHERE):
        driver.validate(CONTEXT, [NetworkRequest(NOWHERE)], 1)
    with pytest.raises(exception.PortNotFound, match=NOWHERE):
        driver.validate(CONTEXT, [NetworkRequest(port_id=NOWHERE)], 1)
    assert driver.list_networks(ADMIN) == []


def test_the_bridge_driver_says_what_it_misses(conf):
    with pytest.raises(exception.ConfigError, match="store"):
        base.load(conf, None)


# what reaches files and commands -------------------------------------------------------------------------------------
def test_dnsmasq_is_told_the_whole_network(tmp_path):
    text = configuration({"bridge": "nlbr1", "cidr": "10.1.0.0/24", "gateway": "10.1.0.1", "dns": ["9.9.9.9", "1.1.1.1"],
                          "mtu": 1450}, tmp_path, "nobody").splitlines()
    assert {"interface=nlbr1", "bind-interfaces", "port=0", "dhcp-range=10.1.0.0,static,255.255.255.0,86400", "user=nobody",
            "dhcp-option=option:router,10.1.0.1", "dhcp-option=option:mtu,1450",
            "dhcp-option=option:dns-server,9.9.9.9,1.1.1.1",
            "dhcp-option=option:classless-static-route,169.254.169.254/32,10.1.0.1,0.0.0.0/0,10.1.0.1"} <= set(text)


def test_a_lease_holds_nothing_but_addresses_and_a_name():
    assert Lease("fa:16:3e:00:00:01", "10.1.0.5", "web-1").line() == "fa:16:3e:00:00:01,10.1.0.5,web-1"
    for name in ("", "a,b", "a\nb", "-a", "a" * 64, "tag:x"):
        assert Lease("fa:16:3e:00:00:01", "10.1.0.5", name).line() == "fa:16:3e:00:00:01,10.1.0.5"
    with pytest.raises(exception.InvalidInput):
        Lease("fa:16:3e:00:00:01,set:x", "10.1.0.5")
    with pytest.raises(ValueError):
        Lease("fa:16:3e:00:00:01", "10.1.0.5,x")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "../a", "a" * 16, "a\n", "a;b"])
def test_no_odd_name_reaches_a_command(name):
    with pytest.raises(exception.ConfigError):
        check_name(name)
