"""Security groups: the default, the limits, who may see and change what, and what a host is told."""
from __future__ import annotations

import json

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import core, networks, port_groups, security_groups
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.network.group_rules import Rule, parse
from nova_lite.objects.network import NetworkRequest
from tests.support.servers import add_server
from tests.unit.db.databases import URLS, empty_database

MINE = RequestContext(user_id="u", project_id="p", overwrite=False)
SSH = Rule("ingress", protocol="tcp", port_min=22, port_max=22)
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def db(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        database = core.Database(nova_conf.load([], config_files=[], database__connection=url))
        yield database
        database.dispose()


@pytest.fixture
def told():
    return []


@pytest.fixture
def store(db, told):
    return DatabasePortStore(db, lambda groups, hosts=(): told.append((set(groups), set(hosts))))


@pytest.fixture
def network(db):
    return db.write(networks.create_network, name="private", cidr="10.1.0.0/24")


def _make(db, name, project="p"):
    return db.write(security_groups.create_group, project, name)["uuid"]


def _rules(db, group):
    with db.read() as c:
        return {(r["direction"], r["ethertype"], r["remote_group_uuid"])
                for r in security_groups.get_group(c, group)["rules"]}


def test_the_default_group_lets_all_out_and_its_members_in(db):
    group = db.write(security_groups.ensure_default, "p")
    assert db.write(security_groups.ensure_default, "p") == group
    assert db.write(security_groups.ensure_default, "q") != group
    assert _rules(db, group) == {("egress", "IPv4", None), ("egress", "IPv6", None), ("ingress", "IPv4", group),
                                 ("ingress", "IPv6", group)}
    assert _rules(db, _make(db, "web")) == {("egress", "IPv4", None), ("egress", "IPv6", None)}


def test_default_stays(db):
    group = db.write(security_groups.ensure_default, "p")
    web = _make(db, "web")
    for change in (lambda: _make(db, "default"), lambda: db.write(security_groups.delete_group, group, None),
                   lambda: db.write(security_groups.update_group, group, "p", {"name": "other"}),
                   lambda: db.write(security_groups.update_group, web, "p", {"name": "default"})):
        with pytest.raises(exception.Conflict):
            change()
    changed = db.write(security_groups.update_group, group, "p", {"name": "default", "description": "text"})
    assert (changed["name"], changed["description"]) == ("default", "text")


def test_limits(db, monkeypatch):
    monkeypatch.setattr(security_groups, "MAX_GROUPS", 2)
    monkeypatch.setattr(security_groups, "MAX_RULES", 7)
    web = _make(db, "web")
    with pytest.raises(exception.QuotaLimitExceeded):
        _make(db, "more")
    _make(db, "more", "q")
    db.write(security_groups.add_rule, web, "p", SSH)
    with pytest.raises(exception.QuotaLimitExceeded):
        db.write(security_groups.add_rule, web, "p", Rule("ingress"))


def test_other_projects_see_nothing_of_it(db):
    web, theirs = _make(db, "web"), _make(db, "web", "q")
    rule = db.write(security_groups.add_rule, web, "p", SSH)["uuid"]
    for change in (lambda: db.write(security_groups.add_rule, web, "q", Rule("ingress")),
                   lambda: db.write(security_groups.add_rule, theirs, "q", Rule("ingress", remote_group=web)),
                   lambda: db.write(security_groups.delete_rule, rule, "q"),
                   lambda: db.write(security_groups.update_group, web, "q", {"name": "x"}),
                   lambda: db.write(security_groups.delete_group, web, "q"),
                   lambda: db.write(security_groups.choose, "q", [web])):
        with pytest.raises(exception.SecurityGroupNotFound):
            change()
    with db.read() as c:
        assert [g["name"] for g in security_groups.list_groups(c, "q")] == ["default", "web"]
        assert len(security_groups.list_groups(c)) == 4


def test_a_rule_is_there_once_and_can_be_taken_away(db):
    web = _make(db, "web")
    made = db.write(security_groups.add_rule, web, "p", SSH)
    assert (made["port_min"], made["port_max"], made["protocol"], made["project_id"]) == (22, 22, "tcp", "p")
    for same in (SSH, Rule("ingress", protocol="tcp", port_min=22, port_max=22, remote_cidr="0.0.0.0/0")):
        with pytest.raises(exception.Conflict, match=made["uuid"]):
            db.write(security_groups.add_rule, web, "p", same)
    assert db.write(security_groups.delete_rule, made["uuid"], "p") == web
    with pytest.raises(exception.SecurityGroupNotFound):
        db.write(security_groups.delete_rule, made["uuid"], "p")


def test_names_and_ids(db):
    web, twin, _twin = _make(db, "web"), _make(db, "twin"), _make(db, "twin")
    with db.read() as c:
        assert security_groups.choose(c, "p", ["web", web, twin]) == [(web, "web"), (twin, "twin")]
        with pytest.raises(exception.SecurityGroupAmbiguous):
            security_groups.choose(c, "p", ["twin"])
        with pytest.raises(exception.SecurityGroupNotFound):
            security_groups.choose(c, "p", ["more"])


# ports ----------------------------------------------------------------------------------------------------------------
def test_ports_are_in_the_groups_that_were_asked_for(db, store, network):
    web, default = _make(db, "web"), db.write(security_groups.ensure_default, "p")
    server = add_server(db).uuid
    requests = [NetworkRequest(network["uuid"]), NetworkRequest(network["uuid"], security_groups=[web])]
    store.allocate_ports(server, "p", "h", [r.to_primitive() for r in requests])
    first, second = store.list_host_ports("h")
    assert (first["security_groups"], second["security_groups"]) == ([default], [web])
    assert [g.name for g in store.groups.of_server(MINE, add_server(db))] == []
    with pytest.raises(exception.Conflict):
        db.write(security_groups.delete_group, web, "p")
    store.release_ports(server)
    db.write(security_groups.delete_group, web, "p")
    with pytest.raises(exception.SecurityGroupNotFound):
        store.allocate_ports(add_server(db).uuid, "p", "h", [requests[1].to_primitive()])


def test_a_users_port_keeps_its_groups(db, store, network):
    web = _make(db, "web")
    port = db.write(networks.create_port, network["uuid"], "p", groups=["web"])["uuid"]
    assert db.write(networks.update_port, port, "p", groups=["default"])["security_groups"] != [web]
    assert db.write(networks.update_port, port, "p", name="n", groups=[])["security_groups"] == []
    assert db.write(networks.update_port, port, "p", groups=[web])["name"] == "n"
    server = add_server(db).uuid
    store.allocate_ports(server, "p", "h", [{"port_id": port}])
    store.release_ports(server)
    with db.read() as c:
        assert networks.get_port(c, port)["security_groups"] == [web]
    db.write(networks.delete_port, port, "p")
    db.write(security_groups.delete_group, web, "p")


def test_a_server_joins_and_leaves(db, store, network, told):
    instance = add_server(db)
    for action in (store.groups.add, store.groups.remove):
        with pytest.raises(exception.SecurityGroupNotFound):
            action(MINE, instance, "default")
    store.allocate_ports(instance.uuid, "p", "h", [{}])
    web = _make(db, "web")
    told.clear()
    assert store.groups.add(MINE, instance, "web").id == web
    store.groups.add(MINE, instance, web)
    assert [g.name for g in store.groups.of_server(MINE, instance)] == ["default", "web"]
    assert told == [({web}, {"h"})] * 2
    store.groups.remove(MINE, instance, "default")
    store.groups.remove(MINE, instance, "web")
    assert store.groups.of_server(MINE, instance) == []
    with pytest.raises(exception.SecurityGroupNotFound, match="not associated"):
        store.groups.remove(MINE, instance, "web")


# what hosts need ------------------------------------------------------------------------------------------------------
def test_a_host_is_told_rules_and_the_members_that_they_speak_of(db, store, network):
    default, web = db.write(security_groups.ensure_default, "p"), _make(db, "web")
    db.write(security_groups.add_rule, web, "p", Rule("ingress", protocol="udp", remote_cidr="10.0.0.0/8"))
    for host, groups in (("one", None), ("two", [web]), ("three", [default, web])):
        store.allocate_ports(add_server(db).uuid, "p", host, [{"security_groups": groups}])
    answer = json.loads(json.dumps(store.rules_for([default, web])))
    addresses = [p["address"] for host in ("one", "three") for p in store.list_host_ports(host)]
    assert answer["members"] == {default: [[network["uuid"], address] for address in addresses]}
    assert {(r["direction"], r["remote_group_uuid"]) for r in answer["rules"][default]} == {
        ("egress", None), ("ingress", default)}
    assert {"direction": "ingress", "protocol": "udp", "port_min": None, "port_max": None, "remote_cidr": "10.0.0.0/8",
            "remote_group_uuid": None} in answer["rules"][web]
    assert store.rules_for([]) == {"rules": {}, "members": {}}
    with db.read() as c:
        assert port_groups.hosts_of(c, [web]) == {"three", "two"}
        assert port_groups.hosts_of(c, [default]) == {"one", "three"}
        assert port_groups.hosts_of(c, [], [network["uuid"]]) == {"one", "two", "three"}
        assert port_groups.hosts_of(c, []) == set()
    db.write(security_groups.add_rule, web, "p", Rule("ingress", remote_group=default))
    with db.read() as c:
        assert port_groups.hosts_of(c, [default]) == {"one", "three", "two"}


def test_a_group_that_goes_takes_along_the_rules_that_speak_of_it(db, store, network, told):
    web, other = _make(db, "web"), _make(db, "other")
    db.write(security_groups.add_rule, web, "p", Rule("ingress", remote_group=other))
    store.groups.delete(MINE, other)
    assert told == [({web}, set())]
    assert all(remote is None for _, _, remote in _rules(db, web))


# rules as Neutron has them --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("body", "rule"), [
    ({}, Rule("ingress")),
    ({"protocol": "any", "remote_ip_prefix": "10.1.2.3/8"}, Rule("ingress", remote_cidr="10.0.0.0/8")),
    ({"protocol": "6", "port_range_min": 1, "port_range_max": "2"}, Rule("ingress", protocol="tcp", port_min=1, port_max=2)),
    ({"protocol": "ICMP", "port_range_min": 8}, Rule("ingress", protocol="icmp", port_min=8)),
    ({"protocol": 47, "ethertype": "ipv4", "remote_address_group_id": None}, Rule("ingress", protocol="47")),
    ({"ethertype": "IPv6", "remote_ip_prefix": "fd00::1"}, Rule("ingress", "IPv6", remote_cidr="fd00::1/128"))])
def test_good_rules(body, rule):
    assert parse({"direction": "ingress", **body}) == rule


@pytest.mark.parametrize("body", [
    {"direction": "in"}, {"ethertype": "IPv5"}, {"protocol": "tcpp"}, {"protocol": 256}, {"protocol": "²"}, {"protocol": []},
    {"port_range_min": 1, "port_range_max": 2}, {"protocol": "tcp", "port_range_min": 1},
    {"protocol": "tcp", "port_range_min": 2, "port_range_max": 1}, {"protocol": "tcp", "port_range_min": "x"},
    {"protocol": "udp", "port_range_min": 0, "port_range_max": 65536}, {"protocol": "icmp", "port_range_max": 0},
    {"protocol": "icmp", "port_range_min": 256}, {"protocol": "gre", "port_range_min": 1, "port_range_max": 1},
    {"remote_ip_prefix": "10.0.0.0/33"}, {"remote_ip_prefix": "fd00::/8"}, {"remote_ip_prefix": "10.0.0.0/8; accept"},
    {"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": NOWHERE}, {"description": "d" * 256},
    {"protocol": "tcp", "port_range_min": 0, "port_range_max": 1}, {"remote_address_group_id": NOWHERE},
    {"protocol": "tcp", "port_range_min": True, "port_range_max": 1}, {"remote_ip": "10.1.2.3"}])
def test_bad_rules(body):
    with pytest.raises(exception.InvalidInput):
        parse({"direction": "ingress", **body})
