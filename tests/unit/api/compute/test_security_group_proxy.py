"""/os-security-groups and /os-security-group-rules until 2.35, by a small Neutron on HTTP and by the embedded network."""
import pytest

from nova_lite import conf as nova_conf
from nova_lite.network import default_group
from nova_lite.network.neutron import NeutronNetwork
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.unit.api.compute.conftest import assert_like_sample

UNKNOWN = "11111111-2222-3333-4444-555555555555"
BODY = {"security_group": {"name": "web", "description": "text"}}


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        yield fake


@pytest.fixture
def group(cloud, neutron, monkeypatch, tmp_path):
    """The API asks a Neutron, where there is this group."""
    file = tmp_path / "neutron.conf"
    file.write_text(CREDENTIALS.format(url=neutron.url))
    driver = NeutronNetwork(nova_conf.load([], config_files=[str(file)], service_user__retries=0), None)
    monkeypatch.setattr(cloud.services.network, "groups", driver.groups)
    return neutron.add_group("default", "project1")


def rule_body(group, **values):
    return {"security_group_rule": {"parent_group_id": group, "ip_protocol": "tcp", "from_port": 22, "to_port": 23, **values}}


def test_groups(member, group):
    made = member.post("/os-security-groups", BODY)
    assert_like_sample(made, "os-security-groups/security-groups-create-resp", "2.1")
    path = f"/os-security-groups/{made['security_group']['id']}"
    assert member.get(path) == made
    assert_like_sample(member.get(path), "os-security-groups/security-groups-get-resp", "2.1")
    assert_like_sample(member.get("/os-security-groups"), "os-security-groups/security-groups-list-get-resp", "2.1")
    changed = member.put(path, {"security_group": {"name": "other", "description": ""}})["security_group"]
    assert (changed["name"], changed["description"]) == ("other", "")
    member.delete(path, 202)
    member.get(path, 404)


def test_lists(cloud, neutron, member, admin, group):
    for name, project in (("b", "project1"), ("a", "project1"), ("z", "aaa")):
        neutron.add_group(name, project)

    def names(client, query):
        return [one["name"] for one in client.get(f"/os-security-groups?{query}")["security_groups"]]
    assert names(member, "") == ["a", "b", "default"]
    assert names(member, "limit=1") == ["default"]
    assert names(member, "offset=1&limit=1") == ["b"]
    assert names(member, "all_tenants=1") == ["a", "b", "default"]
    assert names(admin, "all_tenants=1") == ["z", "a", "b", "default"]
    member.get("/os-security-groups?limit=x", 400)
    member.get("/os-security-groups?offset=-1", 400)


def test_rules(member, group):
    made = member.post("/os-security-group-rules", rule_body(group, cidr="10.0.0.0/8"))
    assert_like_sample(made, "os-security-groups/security-group-rules-post-resp", "2.1")
    rule = made["security_group_rule"]
    assert rule.pop("id")
    assert rule == {"parent_group_id": group, "ip_protocol": "tcp", "from_port": 22, "to_port": 23, "group": {},
                    "ip_range": {"cidr": "10.0.0.0/8"}}
    member.post("/os-security-group-rules", rule_body(group, cidr="10.0.0.0/8"), 400)
    second = member.post("/os-security-group-rules", rule_body(group, group_id=group, from_port=None, to_port=None))
    rule = second["security_group_rule"]
    assert (rule["from_port"], rule["to_port"], rule["ip_range"]) == (1, 65535, {})
    assert rule["group"] == {"name": "default", "tenant_id": "project1"}
    assert len(member.get(f"/os-security-groups/{group}")["security_group"]["rules"]) == 2
    member.delete(f"/os-security-group-rules/{rule['id']}", 202)
    member.delete(f"/os-security-group-rules/{rule['id']}", 404)


@pytest.mark.parametrize("values", [
    {"ip_protocol": "udp", "from_port": "1", "to_port": "65535"}, {"ip_protocol": "icmp", "from_port": -1, "to_port": -1},
    {"ip_protocol": "ICMP", "from_port": 8, "to_port": 0}, {"cidr": None}, {"cidr": "::/0"}, {"cidr": "10.1.2.3/24"},
    {"unknown": 1}])
def test_good_rules(member, group, values):
    member.post("/os-security-group-rules", rule_body(group, **values))


@pytest.mark.parametrize("values", [
    {"ip_protocol": "gre"}, {"ip_protocol": None}, {"from_port": None}, {"to_port": "x"}, {"from_port": 24}, {"from_port": 0},
    {"to_port": 65536}, {"ip_protocol": "icmp", "to_port": 256}, {"cidr": "10.0.0.0"}, {"cidr": "x/8"}, {"cidr": "10.0.0.0/33"},
    {"cidr": "10.0.0.0/0"}, {"cidr": 5}, {"parent_group_id": "x"}, {"parent_group_id": None}, {"group_id": "x"},
    {"from_port": []}, {"from_port": 1e300, "to_port": 1e400}, {"ip_protocol": ["tcp"]}])
def test_bad_rules(member, group, values):
    member.post("/os-security-group-rules", rule_body(group, **values), 400)


@pytest.mark.parametrize("body", [{}, {"security_group": {}}, {"security_group": {"name": "n"}},
                                  {"security_group": {"name": "n" * 256, "description": ""}},
                                  {"security_group": {"name": 1, "description": ""}}])
def test_bad_groups(member, group, body):
    member.post("/os-security-groups", body, 400)
    member.put(f"/os-security-groups/{group}", body, 400)


def test_not_there(member, group):
    for path in ("/os-security-groups", "/os-security-group-rules"):
        member.delete(f"{path}/x", 400)
        member.delete(f"{path}/{UNKNOWN}", 404)
    member.put(f"/os-security-groups/{UNKNOWN}", BODY, 404)
    member.post("/os-security-group-rules", rule_body(UNKNOWN), 404)


def test_until_2_35_and_for_whom(cloud, member, group):
    member.at("2.35").get("/os-security-groups")
    reader = cloud.client(roles=("reader",))
    reader.get(f"/os-security-groups/{group}")
    for method, path, body in (("POST", "/os-security-groups", BODY), ("DELETE", f"/os-security-groups/{group}", None),
                               ("PUT", f"/os-security-groups/{group}", BODY),
                               ("POST", "/os-security-group-rules", rule_body(group)),
                               ("DELETE", f"/os-security-group-rules/{UNKNOWN}", None)):
        reader.ask(method, path, body, 403)
        member.at("2.36").ask(method, path, body, 404)
    member.at("2.36").get("/os-security-groups", 404)


def test_without_a_network_there_is_one_group_that_stays_as_it_is(cloud, member, monkeypatch):
    monkeypatch.setattr(cloud.services.network, "groups", default_group.DefaultGroup())
    [only] = member.get("/os-security-groups")["security_groups"]
    assert only == {"id": default_group.of("project1").id, "name": "default", "description": "Allows all", "rules": [],
                    "tenant_id": "project1"}
    path = f"/os-security-groups/{only['id']}"
    assert member.get(path) == {"security_group": only}
    member.get(f"/os-security-groups/{UNKNOWN}", 404)
    assert "no others" in member.fault("POST", "/os-security-groups", 403, BODY)
    member.put(path, BODY, 400)
    member.delete(path, 400)
    member.post("/os-security-group-rules", rule_body(only["id"]), 403)
    member.delete(f"/os-security-group-rules/{UNKNOWN}", 404)


def test_groups_of_the_embedded_network(cloud, member, admin):
    [default] = member.get("/os-security-groups")["security_groups"]
    assert (default["name"], default["tenant_id"], len(default["rules"])) == ("default", "project1", 2)
    assert {rule["group"]["name"] for rule in default["rules"]} == {"default"}
    made = member.post("/os-security-groups", BODY)
    assert_like_sample(made, "os-security-groups/security-groups-create-resp", "2.1")
    path = f"/os-security-groups/{made['security_group']['id']}"
    assert made["security_group"]["rules"] == []
    assert member.get(path) == made
    changed = member.put(path, {"security_group": {"name": "other", "description": ""}})["security_group"]
    assert (changed["name"], changed["description"]) == ("other", "")
    stranger = cloud.client("x", "project2")
    assert [one["name"] for one in stranger.get("/os-security-groups")["security_groups"]] == ["default"]
    assert len(admin.get("/os-security-groups?all_tenants=1")["security_groups"]) >= 3
    for method, body in (("GET", None), ("PUT", BODY), ("DELETE", None)):
        stranger.ask(method, path, body, 404)
    member.delete(f"/os-security-groups/{default['id']}", 400)
    member.post("/os-security-groups", {"security_group": {"name": "default", "description": ""}}, 400)
    member.delete(path, 202)
    member.get(path, 404)


@pytest.mark.parametrize(("values", "first", "last"), [
    ({}, 22, 23), ({"ip_protocol": "icmp", "from_port": -1, "to_port": -1}, -1, -1),
    ({"ip_protocol": "ICMP", "from_port": 8, "to_port": 0}, 8, 0), ({"cidr": "10.1.2.3/24"}, 22, 23),
    ({"cidr": "::/0"}, 22, 23), ({"group": True, "from_port": None, "to_port": None}, 1, 65535)])
def test_rules_of_the_embedded_network(cloud, member, values, first, last):
    [default] = member.get("/os-security-groups")["security_groups"]
    group = member.post("/os-security-groups", BODY)["security_group"]["id"]
    if values.pop("group", None):
        values["group_id"] = default["id"]
    made = member.post("/os-security-group-rules", rule_body(group, **values))
    rule = made["security_group_rule"]
    if "group_id" in values:
        assert (rule["group"], rule["ip_range"]) == ({"name": "default", "tenant_id": "project1"}, {})
    else:
        assert_like_sample(made, "os-security-groups/security-group-rules-post-resp", "2.1")
    assert (rule["from_port"], rule["to_port"]) == (first, last)
    assert member.get(f"/os-security-groups/{group}")["security_group"]["rules"] == [rule]
    member.post("/os-security-group-rules", rule_body(group, **values), 400)
    cloud.client("x", "project2").delete(f"/os-security-group-rules/{rule['id']}", 404)
    member.delete(f"/os-security-group-rules/{rule['id']}", 202)
    member.delete(f"/os-security-group-rules/{rule['id']}", 404)
    member.post("/os-security-group-rules", rule_body(UNKNOWN), 404)
