"""/os-server-groups."""
import pytest

from nova_lite.db import server_groups
from tests.unit.api.compute.conftest import assert_like_sample, sample_versions


def make(client, name="test", status=200, **more):
    body = {"name": name, **(more or {"policies": ["anti-affinity"]})}
    return client.post("/os-server-groups", {"server_group": body}, status)


@pytest.mark.parametrize("version", sample_versions("os-server-groups/server-groups-post-resp"))
def test_views_have_the_keys_of_the_samples(member, version):
    member = member.at(version)
    more = {"policy": "anti-affinity", "rules": {"max_server_per_host": 3}} if version == "2.64" else {}
    made = make(member, **more)
    assert_like_sample(made, "os-server-groups/server-groups-post-resp", version)
    path = f"/os-server-groups/{made['server_group']['id']}"
    assert_like_sample(member.get(path), "os-server-groups/server-groups-get-resp", version)
    assert_like_sample(member.get("/os-server-groups"), "os-server-groups/server-groups-list-resp", version)
    assert member.get(path) == made
    if version == "2.64":
        assert made["server_group"]["rules"] == {"max_server_per_host": 3}


@pytest.mark.parametrize(("version", "body", "fine"), [
    ("2.1", {"policies": ["affinity"]}, True), ("2.14", {"policies": ["soft-affinity"]}, False),
    ("2.15", {"policies": ["soft-affinity"]}, True), ("2.15", {"policies": ["soft-anti-affinity"]}, True),
    ("2.63", {"policies": []}, False), ("2.63", {"policies": ["affinity", "anti-affinity"]}, False),
    ("2.63", {"policy": "affinity"}, False), ("2.64", {"policies": ["affinity"]}, False),
    ("2.64", {"policy": "affinity"}, True),
    ("2.64", {"policy": "affinity", "rules": {}}, True),
    ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 1}}, False),
    ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "2"}}, True),
    ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}, False),
    ("2.64", {"policy": "anti-affinity", "rules": {"other": 1}}, False), ("2.64", {"policy": "none"}, False)])
def test_policies_and_rules(member, version, body, fine):
    make(member.at(version), status=200 if fine else 400, **body)


def test_rules_are_for_anti_affinity(member):
    answer = make(member.at("2.64"), status=400, policy="affinity", rules={"max_server_per_host": 1})
    assert answer["badRequest"]["message"] == "Only anti-affinity policy supports rules."


def test_members_are_living_servers(cloud, member):
    group = make(member)["server_group"]["id"]
    servers = [cloud.add_server() for _ in range(3)]
    cloud.db.write(server_groups.add_members, group, servers)
    cloud.delete_server(servers[1])
    assert member.get(f"/os-server-groups/{group}")["server_group"]["members"] == [servers[0], servers[2]]


def test_delete(cloud, member):
    group = make(member)["server_group"]["id"]
    cloud.db.write(server_groups.add_members, group, [cloud.add_server()])
    member.delete(f"/os-server-groups/{group}")
    assert member.fault("GET", f"/os-server-groups/{group}", 404) == f"Instance group {group} could not be found."
    member.delete(f"/os-server-groups/{group}", 404)


def test_whose_groups_one_sees(cloud, admin, member):
    mine = make(member)["server_group"]["id"]
    stranger = cloud.client("other", "project2")
    theirs = make(stranger)["server_group"]["id"]

    def ids(client, query=""):
        return [group["id"] for group in client.get(f"/os-server-groups{query}")["server_groups"]]
    assert ids(member) == [mine]
    assert ids(admin) == []
    assert ids(admin, "?all_projects=True") == [mine, theirs]
    assert ids(member, "?all_projects=True") == [mine]
    assert ids(admin, "?all_projects&limit=1&offset=1") == [theirs]
    assert ids(admin, "?all_projects&limit=0&offset=1") == [theirs]
    stranger.get(f"/os-server-groups/{mine}", 403)
    stranger.delete(f"/os-server-groups/{mine}", 403)
    admin.get(f"/os-server-groups/{mine}")
    cloud.client(roles=("reader",)).delete(f"/os-server-groups/{mine}", 403)
    member.get("/os-server-groups?limit=x", 400)
    member.at("2.75").get("/os-server-groups?unknown=1", 400)


def test_quota(admin, member):
    admin.put("/os-quota-sets/project1", {"quota_set": {"server_groups": 1}})
    first = make(member)["server_group"]["id"]
    assert make(member, status=403)["forbidden"]["message"] == "Quota exceeded, too many server groups."
    make(admin)
    member.delete(f"/os-server-groups/{first}")
    make(member)


def test_a_list_takes_two_statements(cloud, member):
    for number in range(3):
        group = make(member, f"g{number}")["server_group"]["id"]
        cloud.db.write(server_groups.add_members, group, [cloud.add_server()])
    with cloud.statements() as seen:
        found = member.get("/os-server-groups")["server_groups"]
    assert [(group["name"], len(group["members"])) for group in found] == [("g0", 1), ("g1", 1), ("g2", 1)]
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2
