"""/os-hosts until 2.42."""
import pytest

from nova_lite.objects.flavor import Flavor
from tests.unit.api.compute.conftest import assert_like_sample


@pytest.fixture
def host(cloud):
    cloud.add_service("host1")
    cloud.add_service("control", "nova-conductor")
    cloud.add_node("host1", vcpus=8, memory_mb=8192, local_gb=100, vcpus_used=3, memory_mb_used=1024, local_gb_used=5,
                   reserved_memory_mb=512, reserved_local_gb=10)


def test_list(cloud, admin, host):
    cloud.add_service("host2", disabled=True)
    answer = admin.get("/os-hosts")
    assert answer == {"hosts": [{"host_name": "host1", "service": "compute", "zone": "nova"},
                                {"host_name": "control", "service": "conductor", "zone": "internal"}]}
    for zone, names in (("nova", ["host1"]), ("internal", ["control"]), ("none", []), ("", ["host1", "control"])):
        assert [found["host_name"] for found in admin.get(f"/os-hosts?zone={zone}")["hosts"]] == names


def test_the_zone_of_an_aggregate(admin, host):
    admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z1"}})
    admin.post("/os-aggregates/1/action", {"add_host": {"host": "host1"}})
    assert [found["host_name"] for found in admin.get("/os-hosts?zone=z1")["hosts"]] == ["host1"]


def test_show(cloud, admin, host):
    for project, vcpus in (("p1", 1), ("p1", 2), ("p2", 4)):
        cloud.add_server(host="host1", project_id=project, flavor=Flavor("1", "f", 512, vcpus, 1, ephemeral_gb=2))
    cloud.delete_server(cloud.add_server(host="host1"))
    cloud.add_server(host="host2")
    with cloud.statements() as seen:
        answer = admin.get("/os-hosts/host1")
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2
    assert_like_sample(answer, "os-hosts/host-get-resp", "2.1")
    rows = {row["resource"].pop("project"): row["resource"] for row in answer["host"]}
    assert {row.pop("host") for row in rows.values()} == {"host1"}
    assert rows == {"(total)": {"cpu": 8, "memory_mb": 8192, "disk_gb": 100},
                    "(used_now)": {"cpu": 3, "memory_mb": 1536, "disk_gb": 15},
                    "(used_max)": {"cpu": 7, "memory_mb": 1536, "disk_gb": 9},
                    "p1": {"cpu": 3, "memory_mb": 1024, "disk_gb": 6},
                    "p2": {"cpu": 4, "memory_mb": 512, "disk_gb": 3}}


def test_status(admin, host):
    for word, state in (("disable", "disabled"), ("ENABLE", "enabled")):
        assert admin.put("/os-hosts/host1", {"status": word}) == {"host": "host1", "status": state}
        assert admin.get("/os-services?host=host1")["services"][0]["status"] == state


def test_what_no_host_can(admin, host):
    admin.put("/os-hosts/host1", {"status": "disable", "maintenance_mode": "enable"}, 501)
    assert admin.get("/os-services?host=host1")["services"][0]["status"] == "enabled"
    for verb in ("startup", "shutdown", "reboot"):
        assert "power actions" in admin.fault("GET", f"/os-hosts/host1/{verb}", 501)


def test_not_there(admin, host):
    for path in ("/os-hosts/x", "/os-hosts/x/startup", "/os-hosts/x/shutdown", "/os-hosts/x/reboot", "/os-hosts/control"):
        assert admin.fault("GET", path, 404).startswith("Compute host ")
    for body in ({"status": "enable"}, {"maintenance_mode": "enable"}):
        assert admin.fault("PUT", "/os-hosts/control", 404, body) == "Compute host control could not be found."


@pytest.mark.parametrize("body", [{}, {"status": "x"}, {"maintenance_mode": "x"}, {"status": "enable", "x": 1},
                                  {"status": None}])
def test_bad_bodies(admin, host, body):
    admin.put("/os-hosts/host1", body, 400)


def test_admins_only_and_until_2_42(member, admin, host):
    for path in ("/os-hosts", "/os-hosts/host1", "/os-hosts/host1/reboot"):
        member.get(path, 403)
        admin.at("2.43").get(path, 404)
    member.put("/os-hosts/host1", {"status": "enable"}, 403)
    admin.at("2.43").put("/os-hosts/host1", {"status": "enable"}, 404)
    admin.at("2.42").get("/os-hosts/host1")
