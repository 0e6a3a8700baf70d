"""/os-hypervisors."""
import pytest

from nova_lite.db import hosts
from tests.unit.api.compute.conftest import assert_like_sample

UNKNOWN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def node(cloud):
    cloud.add_service("host1", disabled_reason=None)
    return cloud.add_node("host1", hypervisor_hostname="node1", vcpus_used=2, memory_mb_used=1024, reserved_memory_mb=512,
                          local_gb_used=10, instances_used=1, io_ops=1)


@pytest.fixture
def second(cloud):
    cloud.add_service("host2", disabled=True, forced_down=True)
    return cloud.add_node("host2", hypervisor_hostname="other2")


def identity(node, version):
    return node["uuid"] if version in ("2.53", "2.88") else node["id"]


@pytest.mark.parametrize("version", ["2.1", "2.28", "2.53", "2.88"])
def test_views_have_the_keys_of_the_samples(admin, node, version):
    admin = admin.at(version)
    assert_like_sample(admin.get(f"/os-hypervisors/{identity(node, version)}"), "os-hypervisors/hypervisors-show-resp", version)
    paged = "?limit=1" if version in ("2.53", "2.88") else ""
    assert_like_sample(admin.get(f"/os-hypervisors{paged}"), "os-hypervisors/hypervisors-list-resp", version)
    assert_like_sample(admin.get(f"/os-hypervisors/detail{paged}"), "os-hypervisors/hypervisors-detail-resp", version)


def test_what_is_used_and_free(admin, node):
    view = admin.get("/os-hypervisors/1")["hypervisor"]
    assert {name: view[name] for name in ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb",
                                          "local_gb_used", "free_disk_gb", "running_vms", "current_workload")} == {
        "vcpus": 4, "vcpus_used": 2, "memory_mb": 8192, "memory_mb_used": 1536, "free_ram_mb": 6656, "local_gb": 100,
        "local_gb_used": 10, "free_disk_gb": 90, "running_vms": 1, "current_workload": 1}
    assert view["cpu_info"] == '{"arch": "x86_64"}'
    assert admin.at("2.28").get("/os-hypervisors/1")["hypervisor"]["cpu_info"] == {"arch": "x86_64"}


def test_state_and_status(admin, node, second):
    found = admin.get("/os-hypervisors")["hypervisors"]
    assert [(n["hypervisor_hostname"], n["state"], n["status"]) for n in found] == [
        ("node1", "up", "enabled"), ("other2", "down", "disabled")]


def test_pages_since_2_33(admin, node, second):
    for version, marker in (("2.33", node["id"]), ("2.53", node["uuid"])):
        first = admin.at(version).get("/os-hypervisors/detail?limit=1")
        assert [n["hypervisor_hostname"] for n in first["hypervisors"]] == ["node1"]
        href = f"http://localhost:8774/v2.1/os-hypervisors/detail?limit=1&marker={marker}"
        assert first["hypervisors_links"] == [{"rel": "next", "href": href}]
        rest = admin.at(version).get(f"/os-hypervisors/detail?marker={marker}")
        assert [n["hypervisor_hostname"] for n in rest["hypervisors"]] == ["other2"]
        assert "hypervisors_links" not in rest
    assert admin.at("2.33").fault("GET", "/os-hypervisors?marker=99", 400) == "marker [99] not found"
    assert admin.at("2.53").fault("GET", f"/os-hypervisors?marker={UNKNOWN}", 400) == f"marker [{UNKNOWN}] not found"
    assert len(admin.at("2.32").get("/os-hypervisors?limit=1")["hypervisors"]) == 2


def test_pattern_since_2_53(admin, node, second):
    admin = admin.at("2.53")
    found = admin.get("/os-hypervisors?hypervisor_hostname_pattern=ther")
    assert [n["hypervisor_hostname"] for n in found["hypervisors"]] == ["other2"]
    assert admin.fault("GET", "/os-hypervisors?hypervisor_hostname_pattern=zzz", 404) == \
        "No hypervisor matching 'zzz' could be found."
    assert admin.fault("GET", "/os-hypervisors?hypervisor_hostname_pattern=node&limit=1", 400).startswith("Paging over")
    assert len(admin.get("/os-hypervisors?hypervisor_hostname_pattern=_", 404)) == 1        # it is no wildcard


def test_servers_since_2_53(cloud, admin, node, second):
    server = cloud.add_server(host="host1", node="node1", display_name="one")
    cloud.delete_server(cloud.add_server(host="host1", node="node1"))
    with_servers = admin.at("2.53").get("/os-hypervisors/detail?with_servers=true")["hypervisors"]
    assert with_servers[0]["servers"] == [{"uuid": server, "name": "one"}]
    assert "servers" not in with_servers[1]
    with_servers = admin.at("2.75").get("/os-hypervisors?with_servers=1")["hypervisors"]
    assert [n["servers"] for n in with_servers] == [[{"uuid": server, "name": "one"}], []]
    assert "servers" not in admin.at("2.75").get("/os-hypervisors")["hypervisors"][0]
    for version in ("2.53", "2.88"):
        shown = admin.at(version).get(f"/os-hypervisors/{node['uuid']}?with_servers=true")
        assert_like_sample(shown, "os-hypervisors/hypervisors-show-with-servers-resp", version)
    admin.at("2.53").get("/os-hypervisors?with_servers=perhaps", 400)


def test_search_and_servers_until_2_52(cloud, admin, node, second):
    cloud.add_server(host="host1", node="node1")
    assert_like_sample(admin.get("/os-hypervisors/node/search"), "os-hypervisors/hypervisors-search-resp", "2.1")
    assert_like_sample(admin.get("/os-hypervisors/node/servers"), "os-hypervisors/hypervisors-with-servers-resp", "2.1")
    assert_like_sample(admin.get("/os-hypervisors/other/servers"), "os-hypervisors/hypervisors-without-servers-resp", "2.1")
    for word in ("search", "servers"):
        assert admin.fault("GET", f"/os-hypervisors/zzz/{word}", 404) == "No hypervisor matching 'zzz' could be found."
        admin.at("2.53").get(f"/os-hypervisors/node/{word}", 404)


def test_statistics_until_2_87(cloud, admin, node, second):
    answer = admin.get("/os-hypervisors/statistics")
    assert_like_sample(answer, "os-hypervisors/hypervisors-statistics-resp", "2.1")
    numbers = answer["hypervisor_statistics"]
    assert (numbers["count"], numbers["vcpus"], numbers["memory_mb_used"], numbers["running_vms"]) == (2, 8, 1536, 1)
    assert admin.at("2.87").get("/os-hypervisors/statistics") == answer
    admin.at("2.88").get("/os-hypervisors/statistics", 404)
    cloud.add_node("forgotten")     # without a service
    assert admin.get("/os-hypervisors/statistics") == answer


def test_uptime(cloud, admin, node, second):
    admin.get("/os-hypervisors/1/uptime", 501)      # the driver does not tell
    assert admin.at("2.88").get(f"/os-hypervisors/{node['uuid']}")["hypervisor"]["uptime"] is None
    line = " 08:32:11 up 93 days, 18:25, 12 users,  load average: 0.20, 0.12, 0.14"
    for host, name in (("host1", "node1"), ("host2", "other2")):
        cloud.db.write(hosts.upsert_node, host, {"hypervisor_hostname": name, "uptime": line})
    for version in ("2.1", "2.28", "2.53"):
        shown = admin.at(version).get(f"/os-hypervisors/{identity(node, version)}/uptime")
        assert_like_sample(shown, "os-hypervisors/hypervisors-uptime-resp", version)
        assert shown["hypervisor"]["uptime"] == line
    admin = admin.at("2.88")
    assert [n["uptime"] for n in admin.get("/os-hypervisors/detail")["hypervisors"]] == [line, None]    # the second is down
    admin.get(f"/os-hypervisors/{node['uuid']}/uptime", 404)
    assert admin.at("2.1").fault("GET", f"/os-hypervisors/{second['id']}/uptime", 400) == \
        "Compute service of host2 is unavailable at this time."


def test_what_is_not_there(admin, member, node):
    assert admin.fault("GET", "/os-hypervisors/99", 404) == "Hypervisor with ID '99' could not be found."
    assert admin.fault("GET", "/os-hypervisors/x", 404) == "Hypervisor with ID 'x' could not be found."
    assert admin.at("2.53").fault("GET", f"/os-hypervisors/{node['id']}", 400) == f"Invalid uuid {node['id']}"
    admin.at("2.53").get(f"/os-hypervisors/{UNKNOWN}", 404)
    member.get("/os-hypervisors", 403)


def test_a_list_takes_two_statements(cloud, admin, node, second):
    cloud.add_server(host="host1", node="node1")
    with cloud.statements() as seen:
        admin.at("2.53").get("/os-hypervisors/detail?with_servers=true")
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2
