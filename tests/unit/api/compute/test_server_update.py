"""PUT /servers/{id}, metadata, tags, addresses and the history of a server."""
from __future__ import annotations

import datetime

import pytest

from nova_lite import units
from nova_lite.db import models
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def test_update(servers, member):
    server = servers.active(member)
    body = {"name": "n2", "accessIPv4": "192.0.2.1", "accessIPv6": "2001:db8::1", "OS-DCF:diskConfig": "AUTO",
            "description": "d", "hostname": "h2"}
    member.at("2.90").put(f"/servers/{server}", {"server": body})
    shown = member.at("2.90").get(f"/servers/{server}")["server"]
    assert {key: shown[key] for key in body if key != "hostname"} == {k: v for k, v in body.items() if k != "hostname"}
    assert shown["OS-EXT-SRV-ATTR:hostname"] == "h2"
    member.put(f"/servers/{server}", {"server": {"accessIPv4": ""}})
    assert member.get(f"/servers/{server}")["server"]["accessIPv4"] == ""
    assert member.get(f"/servers/{server}")["server"]["name"] == "n2"


@pytest.mark.parametrize(("version", "body"), [
    ("2.1", {"name": ""}), ("2.1", {"description": "x"}), ("2.1", {"imageRef": "x"}), ("2.89", {"hostname": "hh"}),
    ("2.90", {"hostname": "h.h"}), ("2.94", {"hostname": "a b"}), ("2.103", {"pinned_availability_zone": None}),
    ("2.1", {"accessIPv4": "300.1.1.1"}), ("2.104", {"pinned_availability_zone": ""})])
def test_wrong_updates(servers, member, version, body):
    member.at(version).fault("PUT", f"/servers/{servers.active(member)}", 400, {"server": body})


@pytest.fixture
def pin(servers, member, cloud):
    """Pins a server to a zone; there is a host of the zone "west"."""
    cloud.add_service("host2")
    number = cloud.insert(models.aggregates, uuid="a", name="a", metadata={"availability_zone": "west"})
    cloud.db.write(lambda c: c.execute(models.aggregate_hosts.insert().values(aggregate_id=number, host="host2")))

    def pin(server, zone, status=200):
        answer = member.at("2.104").put(f"/servers/{server}", {"server": {"pinned_availability_zone": zone}}, status)
        if status == 200:
            assert answer["server"]["pinned_availability_zone"] == zone
        return answer
    return pin


def test_a_server_is_pinned_to_the_zone_that_it_is_in(servers, member, pin):
    server = servers.active(member)
    for zone in ("nova", "nova", None, None):
        pin(server, zone)
    for zone in ("west", "mars"):
        assert "it is in nova" in str(pin(server, zone, 409))
    servers.set(server, host="host2")
    pin(server, "nova", 409)
    pin(server, "west")


def test_a_pinned_server_is_unpinned_first(servers, member, pin):
    server = servers.active(member, availability_zone="nova")
    servers.set(server, host="host2")
    assert "Unpin it first" in str(pin(server, "west", 409))
    pin(server, "nova")         # nothing changes
    pin(server, None)
    pin(server, "west")


def test_a_server_without_a_host_is_in_the_zone_that_was_asked_for(servers, member, pin):
    free, asked = servers.create(member), servers.create(member, availability_zone="west")
    assert "it is in none" in str(pin(free, "nova", 409))
    pin(free, None)
    for zone in ("west", None, "west"):
        pin(asked, zone)


def test_fault_hides_its_details_of_500_from_users(servers, member, admin):
    server = servers.active(member)
    for code, seen in ((500, False), (404, True)):
        servers.set(server, vm_state="error", fault={"code": code, "message": "m" * 300, "details": "trace",
                                                     "created": "2026-01-02T03:04:05.123456"})
        fault = member.get(f"/servers/{server}")["server"]["fault"]
        assert fault["created"] == "2026-01-02T03:04:05Z"
        assert len(fault["message"]) == 255
        assert ("details" in fault) is seen
        assert admin.get(f"/servers/{server}")["server"]["fault"]["details"] == "trace"
    servers.set(server, vm_state="active")
    assert "fault" not in member.get(f"/servers/{server}")["server"]


@pytest.mark.parametrize(("change", "status"), [
    ({}, "UP"), ({"forced_down": True}, "DOWN"), ({"disabled": True}, "MAINTENANCE"),
    ({"last_seen_at": datetime.datetime(2020, 1, 1)}, "UNKNOWN")])
def test_host_status(servers, cloud, admin, member, change, status):
    server = servers.active(admin)
    if change:
        cloud.db.write(lambda c: c.execute(models.services.update().values(**change)))
    assert admin.at("2.16").get(f"/servers/{server}")["server"]["host_status"] == status
    assert admin.at("2.16").get("/servers/detail")["servers"][0]["host_status"] == status
    assert "host_status" not in admin.at("2.15").get(f"/servers/{server}")["server"]
    assert "host_status" not in member.at("2.16").get(f"/servers/{servers.active(member)}")["server"]


def test_metadata(servers, member):
    path = f"/servers/{servers.active(member, metadata={'a': '1'})}/metadata"
    assert member.post(path, {"metadata": {"b": "2"}}) == {"metadata": {"a": "1", "b": "2"}}
    assert member.put(path, {"metadata": {"c": "3", "d": "4"}}) == {"metadata": {"c": "3", "d": "4"}}
    assert member.put(f"{path}/c", {"meta": {"c": "5"}}) == {"meta": {"c": "5"}}
    assert member.get(f"{path}/c") == {"meta": {"c": "5"}}
    member.delete(f"{path}/d")
    assert member.get(path) == {"metadata": {"c": "5"}}
    for method in ("GET", "DELETE"):
        assert member.fault(method, f"{path}/d", 404) == "Metadata item was not found"
    assert member.fault("PUT", f"{path}/x", 400, {"meta": {"y": "1"}}) == "Request body and URI mismatch"
    many = {"metadata": {str(n): "" for n in range(128)}}
    assert member.fault("POST", path, 403, many) == "Maximum number of metadata items exceeds 128"
    member.put(path, many)
    member.fault("PUT", f"{path}/one-more", 403, {"meta": {"one-more": ""}})
    for wrong in ({}, {"metadata": {"a": None}}, {"metadata": {"": "x"}}, {"metadata": {"a": "x" * 256}}, {"metadata": None}):
        member.fault("PUT", path, 400, wrong)


@pytest.mark.parametrize("task_state", ["image_uploading", "migrating", "powering-off"])
def test_metadata_and_tags_do_not_mind_what_is_being_done(servers, member, task_state):
    server = servers.active(member, metadata={"old": "1"})
    servers.set(server, task_state=task_state)
    path = f"/servers/{server}/metadata"
    assert member.post(path, {"metadata": {"a": "1"}}) == {"metadata": {"old": "1", "a": "1"}}
    assert member.put(f"{path}/b", {"meta": {"b": "2"}}) == {"meta": {"b": "2"}}
    assert member.put(path, {"metadata": {"c": "3", "d": "4"}}) == {"metadata": {"c": "3", "d": "4"}}
    member.delete(f"{path}/d")
    assert member.get(path) == {"metadata": {"c": "3"}}
    member.at("2.26").ask("PUT", f"/servers/{server}/tags/x", status=201)
    assert servers.row(server)["task_state"] == task_state


def test_metadata_and_tags_need_a_quiet_server(servers, member):
    server = servers.create(member)
    servers.set(server, launched_at=units.utcnow())
    assert "while it is in vm_state building" in member.fault(
        "POST", f"/servers/{server}/metadata", 409, {"metadata": {}})
    assert "while it is in vm_state building" in member.at("2.26").fault("PUT", f"/servers/{server}/tags/x", 409)


def test_tags(servers, member):
    client = member.at("2.26")
    path = f"/servers/{servers.active(member)}/tags"
    assert client.put(path, {"tags": ["b", "a", "a"]}) == {"tags": ["a", "b"]}
    created = client.call("PUT", f"{path}/c")
    assert (created.status_code, created.headers["Location"]) == (201, f"http://localhost:8774/v2.1{path}/c")
    assert client.call("PUT", f"{path}/c").status_code == 204
    client.ask("GET", f"{path}/c", status=204)
    client.delete(f"{path}/a")
    assert client.get(path) == {"tags": ["b", "c"]}
    for method in ("GET", "DELETE"):
        assert "has no tag 'a'" in client.fault(method, f"{path}/a", 404)
    client.put(path, {"tags": [str(n) for n in range(50)]})
    assert "exceeded" in client.fault("PUT", f"{path}/x", 400)
    client.delete(path)
    assert client.get(path) == {"tags": []}
    client.fault("PUT", f"{path}/{'x' * 61}", 400)
    client.fault("PUT", f"{path}/a,b", 400)
    for wrong in ({"tags": ["a/b"]}, {"tags": "a"}, {"tags": [str(n) for n in range(51)]}, {"tags": [""]}):
        client.fault("PUT", path, 400, wrong)
    member.at("2.25").fault("GET", path, 404)


def test_addresses(servers, member):
    server = servers.active(member)
    assert member.get(f"/servers/{server}/ips/private") == {"private": [{"addr": "192.0.2.5", "version": 4}]}
    assert member.fault("GET", f"/servers/{server}/ips/other", 404) == "Instance is not a member of specified network"
    servers.set(server, vm_state="building")
    assert member.get(f"/servers/{server}")["server"]["addresses"] == {}


def test_history(servers, cloud, member, admin):
    server = servers.active(member)
    member.post(f"/servers/{server}/action", {"os-stop": None}, 202)
    path = f"/servers/{server}/os-instance-actions"
    stop, create = member.at("2.58").get(path)["instanceActions"]
    assert (stop["action"], create["action"]) == ("stop", "create")
    page = member.at("2.58").get(f"{path}?limit=1")
    assert page["instanceActions"] == [stop]
    rest = page["links"][0]["href"].partition("/v2.1")[2]
    assert member.at("2.58").get(rest)["instanceActions"] == [create]
    member.at("2.58").fault("GET", f"{path}?marker=none", 400)
    member.at("2.58").fault("GET", f"{path}?nonsense=1", 400)
    member.at("2.65").fault("GET", f"{path}?changes-before=2030-01-01T00:00:00Z", 400)
    member.at("2.66").fault("GET", f"{path}?changes-since=0001-01-01T00:00:00%2B14:00", 400)
    assert member.at("2.66").get(f"{path}?changes-since=2030-01-01T00:00:00Z")["instanceActions"] == []
    assert len(member.at("2.66").get(f"{path}?changes-before=2030-01-01T00:00:00Z")["instanceActions"]) == 2
    missing = member.fault("GET", f"{path}/req-none", 404)
    assert missing == f"Action for request_id req-none on instance {server} not found"


def test_events_of_an_action(servers, cloud, member, admin):
    server = servers.active(member)
    (action,) = servers.actions(server)
    cloud.insert(models.instance_action_events, action_id=action["id"], event="compute__do_build_and_run_instance",
                 host="host1", start_time=units.utcnow(), result="Error", traceback="trace", details="why")
    path = f"/servers/{server}/os-instance-actions/{action['request_id']}"
    assert "events" not in member.at("2.50").get(path)["instanceAction"]
    (event,) = member.at("2.84").get(path)["instanceAction"]["events"]
    assert "traceback" not in event
    assert "host" not in event
    assert event["hostId"] == member.get(f"/servers/{server}")["server"]["hostId"]
    (event,) = admin.at("2.84").get(path)["instanceAction"]["events"]
    assert (event["traceback"], event["host"], event["details"]) == ("trace", "host1", "why")
    assert len(admin.at("2.1").get(path)["instanceAction"]["events"]) == 1


def test_history_of_a_deleted_server(servers, member):
    server = servers.active(member)
    servers.set(server, deleted=1, vm_state="deleted")
    member.at("2.20").fault("GET", f"/servers/{server}/os-instance-actions", 404)
    assert len(member.at("2.21").get(f"/servers/{server}/os-instance-actions")["instanceActions"]) == 1
