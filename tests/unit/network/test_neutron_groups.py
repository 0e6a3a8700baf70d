"""Security groups of servers, by the Neutron driver against a small Neutron on HTTP."""
import uuid

import pytest

from nova_lite import exception
from nova_lite.objects.network import SecurityGroupRule
from tests.support.fake_neutron import Refused
from tests.unit.network.test_neutron import HOST, USER, _server, driver, neutron  # noqa: F401


@pytest.fixture
def server(neutron):  # noqa: F811
    """A server with two ports."""
    made = _server(None)
    network = neutron.add_network()
    for _ in range(2):
        neutron.add_port(network, device_id=made.uuid, security_groups=[])
    return made


def groups_of(neutron, server):  # noqa: F811
    return [port["security_groups"] for port in neutron.of(server.uuid)]


def test_add_and_remove(driver, neutron, server):  # noqa: F811
    web, ssh = neutron.add_group("web"), neutron.add_group("ssh")
    assert driver.groups.add(USER, server, "web").name == "web"
    assert driver.groups.add(USER, server, ssh).name == "ssh"
    assert groups_of(neutron, server) == [[web, ssh]] * 2
    neutron.calls.clear()
    driver.groups.add(USER, server, "web")      # again: nothing is written
    assert "PUT ports" not in neutron.calls
    assert driver.groups.remove(USER, server, web).name == "web"
    assert groups_of(neutron, server) == [[ssh]] * 2
    with pytest.raises(exception.SecurityGroupNotFound, match="web is not associated"):
        driver.groups.remove(USER, server, "web")


def test_remove_takes_it_from_every_port_that_has_it(driver, neutron, server):  # noqa: F811
    web = neutron.add_group("web")
    first, second = neutron.of(server.uuid)
    first["security_groups"], second["security_groups"] = [web, "x"], [web]
    driver.groups.remove(USER, server, "web")
    assert groups_of(neutron, server) == [["x"], []]


def test_the_groups_of_a_server_with_their_rules(driver, neutron, server):  # noqa: F811
    rule = {"direction": "ingress", "ethertype": "IPv4", "protocol": None, "port_range_min": None, "port_range_max": None,
            "remote_group_id": None, "remote_ip_prefix": None}
    other = neutron.add_group("other", "p")
    web = neutron.add_group("web", description="text")
    rules = [{"protocol": "tcp", "port_range_min": 22, "port_range_max": 23, "remote_ip_prefix": "10.0.0.0/8"},
             {"protocol": "udp"}, {"protocol": "icmp", "ethertype": "IPv6"}, {"remote_group_id": web},
             {"remote_group_id": other},
             {"remote_group_id": str(uuid.uuid4())}, {"direction": "egress"}]
    neutron.tables["security-groups"][web]["security_group_rules"] = [
        {**rule, "id": str(number), "security_group_id": web, **values} for number, values in enumerate(rules)]
    driver.groups.add(USER, server, "web")
    neutron.calls.clear()
    [group] = driver.groups.of_server(USER, server)
    assert neutron.calls == ["GET ports", "GET security-groups", "GET security-groups"]
    assert (group.id, group.name, group.description, group.project_id) == (web, "web", "text", "p")
    assert [(r.id, r.group_id, r.protocol, r.from_port, r.to_port, r.cidr, r.remote_group) for r in group.rules] == [
        ("0", web, "tcp", 22, 23, "10.0.0.0/8", None), ("1", web, "udp", 1, 65535, "0.0.0.0/0", None),
        ("2", web, "icmp", -1, -1, "::/0", None), ("3", web, None, None, None, None, {"name": "web", "tenant_id": "p"}),
        ("4", web, None, None, None, None, {"name": "other", "tenant_id": "p"})]


def test_what_cannot_be(driver, neutron, server):  # noqa: F811
    neutron.add_group("foreign", "q")
    for method in (driver.groups.add, driver.groups.remove):
        for name in ("nobody", "foreign"):
            with pytest.raises(exception.SecurityGroupNotFound, match=name):
                method(USER, server, name)
    neutron.add_group("twice")
    neutron.add_group("twice")
    with pytest.raises(exception.SecurityGroupAmbiguous) as caught:
        driver.groups.add(USER, server, "twice")
    assert caught.value.code == 409
    neutron.add_group("web")
    with pytest.raises(exception.SecurityGroupNotFound, match="no port"):
        driver.groups.add(USER, _server(None), "web")
    assert driver.groups.of_server(USER, _server(None)) == []


def test_neutrons_refusals_keep_their_status(driver, neutron, server):  # noqa: F811
    neutron.add_group("web")

    def refuse(method, what):
        if method == "PUT":
            raise Refused(400, "PortSecurityPortHasSecurityGroup", "Port security is off")
    neutron.before = refuse
    with pytest.raises(exception.NovaLiteError, match="Port security is off") as caught:
        driver.groups.add(USER, server, "web")
    assert caught.value.code == 400


def test_a_port_that_somebody_else_changes_meanwhile(driver, neutron, server):  # noqa: F811
    web, mine = neutron.add_group("web"), []

    def change(method, what):
        if method == "PUT" and not mine:
            for port in neutron.of(server.uuid):
                mine.append(port["id"])
                port["security_groups"] = ["theirs"]
                port["revision_number"] += 1
    neutron.before = change
    driver.groups.add(USER, server, "web")
    assert groups_of(neutron, server) == [["theirs", web]] * 2


def test_the_life_of_a_group_and_its_rules(driver, neutron, server):  # noqa: F811
    made = driver.groups.create(USER, "web", "text")
    assert (made.name, made.description, made.project_id, made.rules) == ("web", "text", "p", [])
    assert driver.groups.update(USER, made.id, "web2", "").name == "web2"
    tcp = driver.groups.add_rule(USER, SecurityGroupRule("", made.id, "tcp", 22, 23, "10.0.0.0/8"))
    icmp = driver.groups.add_rule(USER, SecurityGroupRule("", made.id, "icmp", -1, -1, "::/0"))
    source = driver.groups.add_rule(USER, SecurityGroupRule("", made.id, remote_group_id=made.id))
    assert (tcp.from_port, tcp.to_port, tcp.cidr, tcp.remote_group) == (22, 23, "10.0.0.0/8", None)
    assert (icmp.from_port, icmp.to_port, icmp.cidr) == (-1, -1, "::/0")
    assert (source.cidr, source.remote_group) == (None, {"name": "web2", "tenant_id": "p"})
    [found] = driver.groups.list_all(USER)
    assert (found.name, [rule.id for rule in found.rules]) == ("web2", [tcp.id, icmp.id, source.id])
    driver.groups.delete_rule(USER, tcp.id)
    assert [rule.id for rule in driver.groups.get(USER, made.id).rules] == [icmp.id, source.id]
    driver.groups.delete(USER, made.id)
    assert driver.groups.list_all(USER) == []


def test_groups_of_all_projects(driver, neutron):  # noqa: F811
    neutron.add_group("mine")
    neutron.add_group("other", "q")
    assert [group.name for group in driver.groups.list_all(HOST)] == ["mine"]
    assert [group.name for group in driver.groups.list_all(HOST, every_project=True)] == ["mine", "other"]


def test_refusals_of_groups(driver, neutron, server):  # noqa: F811
    nowhere, web = str(uuid.uuid4()), neutron.add_group("web")
    rule = SecurityGroupRule("", web, "tcp", 22, 22, "0.0.0.0/0")
    driver.groups.add_rule(USER, rule)
    driver.groups.add(USER, server, "web")
    neutron.group_quota = 1
    for code, call in ((404, lambda: driver.groups.get(USER, nowhere)), (404, lambda: driver.groups.delete(USER, nowhere)),
                       (404, lambda: driver.groups.update(USER, nowhere, "n", "d")),
                       (404, lambda: driver.groups.delete_rule(USER, nowhere)),
                       (404, lambda: driver.groups.add_rule(USER, SecurityGroupRule("", nowhere, "tcp", 1, 1, "0.0.0.0/0"))),
                       (404, lambda: driver.groups.add_rule(USER, SecurityGroupRule("", web, remote_group_id=nowhere))),
                       (400, lambda: driver.groups.add_rule(USER, rule)),           # it is there already
                       (400, lambda: driver.groups.delete(USER, web)),              # in use
                       (403, lambda: driver.groups.create(USER, "n", "d"))):        # over quota
        with pytest.raises(exception.NovaLiteError, match="Security group") as caught:
            call()
        assert caught.value.code == code, caught.value
