"""/os-services."""
import datetime

import pytest

from nova_lite import units
from tests.unit.api.compute.conftest import assert_like_sample, sample_versions

LONG_AGO = datetime.timedelta(seconds=61)


@pytest.fixture
def compute(cloud):
    return cloud.add_service("host1")


@pytest.mark.parametrize("version", sample_versions("os-services/services-list-get-resp"))
def test_list_has_the_keys_of_the_sample(cloud, admin, compute, version):
    answer = admin.at(version).get("/os-services")
    assert_like_sample(answer, "os-services/services-list-get-resp", version)
    expected = compute["uuid"] if version == "2.53" else compute["id"]
    assert answer["services"][0]["id"] == expected


def test_states_zones_and_filters(cloud, admin, compute):
    cloud.add_service("host1", "nova-scheduler", disabled=True, disabled_reason="why")
    cloud.add_service("host2", last_seen_at=units.utcnow() - LONG_AGO)
    cloud.add_service("host3", forced_down=True)
    found = {(s["host"], s["binary"]): s for s in admin.get("/os-services")["services"]}
    assert {key: (s["zone"], s["state"], s["status"]) for key, s in found.items()} == {
        ("host1", "nova-compute"): ("nova", "up", "enabled"), ("host1", "nova-scheduler"): ("internal", "up", "disabled"),
        ("host2", "nova-compute"): ("nova", "down", "enabled"), ("host3", "nova-compute"): ("nova", "down", "enabled")}
    assert found["host1", "nova-scheduler"]["disabled_reason"] == "why"
    assert len(admin.get("/os-services?host=host1")["services"]) == 2
    assert len(admin.get("/os-services?host=host1&binary=nova-compute")["services"]) == 1
    assert len(admin.get("/os-services?host=&binary=")["services"]) == 4
    assert len(admin.at("2.74").get("/os-services?hast=x")["services"]) == 4
    admin.at("2.75").get("/os-services?hast=x", 400)


def test_zone_is_that_of_the_aggregate(admin, compute):
    admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "london"}})
    admin.post("/os-aggregates/1/action", {"add_host": {"host": "host1"}})
    assert admin.get("/os-services")["services"][0]["zone"] == "london"


@pytest.mark.parametrize("version", ["2.1", "2.11"])
def test_words_until_2_52(admin, compute, version):
    admin = admin.at(version)
    who = {"host": "host1", "binary": "nova-compute"}
    answer = admin.put("/os-services/disable-log-reason", {**who, "disabled_reason": "test2"})
    assert_like_sample(answer, "os-services/service-disable-log-put-resp", version)
    service = admin.get("/os-services")["services"][0]
    assert (service["status"], service["disabled_reason"]) == ("disabled", "test2")
    assert_like_sample(admin.put("/os-services/enable", who), "os-services/service-enable-put-resp", version)
    service = admin.get("/os-services")["services"][0]
    assert (service["status"], service["disabled_reason"]) == ("enabled", None)
    assert_like_sample(admin.put("/os-services/disable", who), "os-services/service-disable-put-resp", version)
    assert admin.fault("PUT", "/os-services/enable", 404, {**who, "host": "nowhere"}) == \
        "Could not find binary nova-compute on host nowhere."
    assert admin.fault("PUT", "/os-services/explode", 404, who) == "Unknown action"
    assert admin.fault("PUT", "/os-services/disable-log-reason", 400, who) == "Missing disabled_reason field"


@pytest.mark.parametrize(("word", "more"), [("disable", {}), ("enable", {}), ("disable-log-reason", {"disabled_reason": "x"}),
                                            ("force-down", {"forced_down": True})])
def test_words_are_for_compute_services_only(cloud, admin, word, more):
    cloud.add_service("host1", "nova-scheduler")
    body = {"host": "host1", "binary": "nova-scheduler", **more}
    assert "nova-scheduler" in admin.at("2.11").fault("PUT", f"/os-services/{word}", 400, body)
    (service,) = admin.at("2.11").get("/os-services")["services"]
    assert (service["status"], service["forced_down"]) == ("enabled", False)


def test_force_down_since_2_11(admin, compute):
    body = {"host": "host1", "binary": "nova-compute", "forced_down": True}
    admin.at("2.10").put("/os-services/force-down", body, 400)
    admin = admin.at("2.11")
    assert_like_sample(admin.put("/os-services/force-down", body), "os-services/service-force-down-put-resp", "2.11")
    service = admin.get("/os-services")["services"][0]
    assert (service["state"], service["forced_down"]) == ("down", True)
    assert admin.fault("PUT", "/os-services/force-down", 400, {"host": "host1", "binary": "nova-compute"}) == \
        "Missing forced_down field"


def test_update_by_uuid_since_2_53(cloud, admin, compute):
    admin = admin.at("2.53")
    path = f"/os-services/{compute['uuid']}"
    answer = admin.put(path, {"status": "disabled", "disabled_reason": "maintenance"})
    assert_like_sample(answer, "os-services/service-disable-log-put-resp", "2.53")
    assert (answer["service"]["status"], answer["service"]["disabled_reason"]) == ("disabled", "maintenance")
    answer = admin.put(path, {"status": "enabled"})
    assert_like_sample(answer, "os-services/service-enable-put-resp", "2.53")
    assert answer["service"]["disabled_reason"] is None
    assert admin.put(path, {"forced_down": "true"})["service"]["state"] == "down"
    assert admin.put(path, {"forced_down": False})["service"]["state"] == "up"
    assert admin.fault("PUT", path, 400, {}).startswith("No updates were requested.")
    assert admin.fault("PUT", path, 400, {"status": "enabled", "disabled_reason": "x"}) == \
        "Specifying disabled_reason requires that status is 'disabled'."
    assert admin.fault("PUT", "/os-services/1", 400, {"status": "enabled"}) == "Invalid uuid 1"
    unknown = "11111111-2222-3333-4444-555555555555"
    assert admin.fault("PUT", f"/os-services/{unknown}", 404, {"status": "enabled"}) == \
        f"Service {unknown} could not be found."
    scheduler = cloud.add_service("host1", "nova-scheduler")
    assert "Only nova-compute services can be updated" in admin.fault("PUT", f"/os-services/{scheduler['uuid']}", 400,
                                                                      {"status": "disabled"})


def test_delete(cloud, admin, compute):
    cloud.add_node("host1")
    admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
    admin.post("/os-aggregates/1/action", {"add_host": {"host": "host1"}})
    server = cloud.add_server(host="host1", node="host1")
    path = f"/os-services/{compute['uuid']}"
    assert admin.at("2.53").fault("DELETE", path, 409).startswith("Unable to delete compute service that is hosting")
    cloud.delete_server(server)
    admin.at("2.53").delete(path)
    admin = admin.at("2.53")
    assert admin.get("/os-services") == {"services": []}
    assert admin.get("/os-hypervisors") == {"hypervisors": []}
    assert admin.get("/os-aggregates/1")["aggregate"]["hosts"] == []
    admin.delete(path, 404)


def test_a_host_with_a_claim_is_not_deleted(cloud, admin, compute):
    node = cloud.add_node("host1")
    cloud.add_claim(node, "11111111-2222-3333-4444-555555555555")
    admin.delete(f"/os-services/{compute['id']}", 409)


def test_delete_by_number_until_2_52(admin, compute):
    admin.delete(f"/os-services/{compute['uuid']}", 400)
    admin.delete("/os-services/99", 404)
    admin.delete(f"/os-services/{compute['id']}")
    assert admin.get("/os-services") == {"services": []}


def test_only_for_administrators(member, compute):
    member.get("/os-services", 403)
    member.put("/os-services/enable", {"host": "host1", "binary": "nova-compute"}, 403)
    member.delete(f"/os-services/{compute['id']}", 403)


def test_a_list_takes_two_statements(cloud, admin):
    for number in range(5):
        cloud.add_service(f"host{number}")
    with cloud.statements() as seen:
        admin.get("/os-services")
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2
