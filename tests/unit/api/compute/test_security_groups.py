"""The security groups of servers; what Neutron does is in tests/unit/network."""
import pytest

from nova_lite.db import networks
from nova_lite.network import default_group
from nova_lite.objects.network import SecurityGroup, SecurityGroupRule
from tests.unit.api.compute.conftest import assert_like_sample
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


def test_without_a_network_there_is_one_group(servers, cloud, member, monkeypatch):
    monkeypatch.setattr(cloud.services.network, "groups", default_group.DefaultGroup())
    server = servers.active(member)
    answer = member.get(f"/servers/{server}/os-security-groups")
    assert_like_sample(answer, "os-security-groups/server-security-groups-list-resp", "2.1")
    assert answer["security_groups"] == [{"id": default_group.of("project1").id, "name": "default", "tenant_id": "project1",
                                          "description": "Allows all", "rules": []}]
    path = f"/servers/{server}/action"
    member.post(path, {"addSecurityGroup": {"name": "default"}}, 202)
    assert servers.row(server)["security_groups"] == ["default"]
    assert member.fault("POST", path, 404, {"addSecurityGroup": {"name": "web"}}) == "Security group web not found."
    assert "no other one" in member.fault("POST", path, 409, {"removeSecurityGroup": {"name": "default"}})


def test_groups_of_the_embedded_network(servers, cloud, member):
    server = servers.active(member)
    cloud.db.write(networks.allocate_ports, server, "project1", "h", [{}])
    path = f"/servers/{server}/action"

    def groups():
        listed = member.get(f"/servers/{server}/os-security-groups")["security_groups"]
        shown = [one["name"] for one in member.get(f"/servers/{server}")["server"].get("security_groups", [])]
        assert sorted(shown) == [one["name"] for one in listed]
        return shown
    member.post("/os-security-groups", {"security_group": {"name": "web", "description": ""}})
    assert groups() == ["default"]
    member.post(path, {"addSecurityGroup": {"name": "web"}}, 202)
    assert groups() == ["default", "web"]
    member.post(path, {"removeSecurityGroup": {"name": "default"}}, 202)
    assert groups() == ["web"]
    member.post(path, {"removeSecurityGroup": {"name": "default"}}, 404)
    member.post(path, {"addSecurityGroup": {"name": "more"}}, 404)


def test_a_new_server_names_its_groups(servers, cloud, member):
    web = member.post("/os-security-groups", {"security_group": {"name": "web", "description": ""}})["security_group"]["id"]
    row = servers.row(servers.create(member, security_groups=[{"name": web}, {"name": "default"}, {"name": "web"}]))
    assert row["security_groups"] == ["web", "default"]
    [request] = row["network_request"]
    assert request["security_groups"] == [web, default_group.of("project1").id]
    for nics in ("auto", "none"):
        body = servers.body(security_groups=[{"name": "default"}, {"name": "more"}], networks=nics)
        assert "more" in member.at("2.37").fault("POST", "/servers", 400, body)
    body = servers.body(security_groups=[{"name": web}], networks="none")
    bare = servers.row(member.at("2.37").post("/servers", body, 202)["server"]["id"])
    assert (bare["security_groups"], bare["network_request"]) == ([], "none")


def test_a_new_server_has_the_groups_of_the_ports_that_it_is_given(servers, cloud, member):
    member.post("/os-security-groups", {"security_group": {"name": "web", "description": ""}})
    for groups, shown in ((["web"], ["web"]), ([], [])):
        port = cloud.db.write(networks.create_port, servers.network, "project1", groups=groups)["uuid"]
        row = servers.row(servers.create(member, networks=[{"port": port}]))
        assert row["security_groups"] == shown


class Network:
    """A network with groups, where a server's nics take part in those that somebody added."""

    def __init__(self):
        self.groups = {}

    def of_server(self, context, instance):
        return list(self.groups.values())

    def add(self, context, instance, name):
        rule = SecurityGroupRule("r1", f"id-{name}", "tcp", 22, 22, "0.0.0.0/0")
        other = SecurityGroupRule("r2", f"id-{name}", remote_group={"name": "x", "tenant_id": "y"})
        return self.groups.setdefault(name, SecurityGroup(f"id-{name}", name, instance.project_id, "", [rule, other]))

    def remove(self, context, instance, name):
        return self.groups.pop(name)


def test_views_follow_what_the_network_did(servers, cloud, member, monkeypatch):
    server = servers.active(member)
    monkeypatch.setattr(cloud.services.network, "groups", Network())
    path = f"/servers/{server}/action"
    for name in ("web", "another", "web"):
        assert member.post(path, {"addSecurityGroup": {"name": name}}, 202) is None
    names = [group["name"] for group in member.get(f"/servers/{server}")["server"]["security_groups"]]
    assert names == ["default", "web", "another"]
    another, web = member.get(f"/servers/{server}/os-security-groups")["security_groups"]
    assert (another["name"], web["name"]) == ("another", "web")
    assert web["rules"] == [
        {"id": "r1", "parent_group_id": "id-web", "ip_protocol": "tcp", "from_port": 22, "to_port": 22, "group": {},
         "ip_range": {"cidr": "0.0.0.0/0"}},
        {"id": "r2", "parent_group_id": "id-web", "ip_protocol": None, "from_port": None, "to_port": None,
         "group": {"name": "x", "tenant_id": "y"}, "ip_range": {}}]
    member.post(path, {"removeSecurityGroup": {"name": "web"}}, 202)
    assert servers.row(server)["security_groups"] == ["default", "another"]


@pytest.mark.parametrize("argument", [None, {}, {"name": ""}, {"name": " "}, {"name": None}, {"name": "x", "y": 1}, "web"])
def test_bad_bodies(servers, member, argument):
    server = servers.active(member)
    for action in ("addSecurityGroup", "removeSecurityGroup"):
        member.post(f"/servers/{server}/action", {action: argument}, 400)


def test_whose_servers(servers, cloud, member):
    server = servers.active(member)
    stranger, nobody = cloud.client("x", "project2"), cloud.client(roles=("reader",))
    for client, code in ((stranger, 404), (nobody, 403)):
        for action in ("addSecurityGroup", "removeSecurityGroup"):
            client.post(f"/servers/{server}/action", {action: {"name": "default"}}, code)
    stranger.get(f"/servers/{server}/os-security-groups", 404)
    nobody.get(f"/servers/{server}/os-security-groups")
