"""POST /servers/{id}/action: resize, migrate, confirmResize and revertResize, and the lists of migrations."""
from __future__ import annotations

import datetime
import uuid

import pytest

from nova_lite import units
from nova_lite.db import moves, services
from nova_lite.objects import migration as objects
from nova_lite.objects.instance import Instance
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def server(servers, member):
    return servers.active(member)


def _act(client, server, body, status=202):
    return client.call("POST", f"/servers/{server}/action", body).status_code == status


def _fault(client, server, body, status):
    return client.fault("POST", f"/servers/{server}/action", status, body)


def _instance(servers, server):
    return Instance.from_primitive(servers.row(server))


def _moved(servers, server, status=objects.FINISHED, kind=objects.RESIZE, **values):
    """A server whose move waits for its user's word."""
    servers.set(server, vm_state="resized", task_state=None)
    return servers.cloud.db.write(moves.create, _instance(servers, server), kind, status, dest_compute="host2",
                                  dest_node="host2", dest_host="192.0.2.2", **values)


def test_a_resize_is_written_down_for_a_conductor(servers, cloud, member, server):
    flavor = cloud.add_flavor("m1.bigger", vcpus=4, memory_mb=4096, root_gb=20).flavorid
    for version, body in (("2.1", {"flavorRef": f"http://nova/flavors/{flavor}"}),
                          ("2.96", {"flavorRef": flavor, "OS-DCF:diskConfig": "AUTO"})):
        servers.set(server, vm_state="active", task_state=None)
        assert member.at(version).post(f"/servers/{server}/action", {"resize": body}, 202) is None
        action = servers.actions(server)[-1]
        assert (action["action"], action["stage"], action["host"]) == ("resize", "conductor", None)
        assert action["arguments"]["flavor"]["flavorid"] == flavor
        row = servers.row(server)
        assert (row["task_state"], row["vm_state"], row["vcpus"], row["memory_mb"]) == ("resize_prep", "active", 4, 4096)
    assert servers.row(server)["auto_disk_config"]
    assert member.get(f"/servers/{server}")["server"]["status"] == "RESIZE"


def test_flavors_that_a_server_cannot_have(servers, cloud, member, server):
    def fault(flavor):
        return _fault(member, server, {"resize": {"flavorRef": flavor}}, 400)

    assert fault(servers.flavor) == "When resizing, instances must change flavor!"
    assert "could not be found" in fault("nosuch")
    assert "could not be found" in fault(cloud.add_flavor("off", disabled=True).flavorid)
    assert fault(cloud.add_flavor("none", root_gb=0).flavorid) == \
        "Server disk was unable to be resized because: Resize to zero disk flavor is not allowed."
    for body in ({}, {"flavorRef": ""}, {"flavorRef": "1", "x": 1}, {"flavorRef": "1", "OS-DCF:diskConfig": "x"}, None):
        assert _act(member, server, {"resize": body}, 400)
    assert servers.row(server)["task_state"] is None


def test_quota_is_asked_for_the_difference(servers, cloud, member, server):
    row = servers.row(server)
    flavor = cloud.add_flavor("big", vcpus=row["vcpus"] + 2, memory_mb=row["memory_mb"], root_gb=20).flavorid
    cloud.conf.set_override("cores", row["vcpus"] + 1, group="quota")
    assert "Quota exceeded for cores: Requested 2" in _fault(member, server, {"resize": {"flavorRef": flavor}}, 403)
    cloud.conf.set_override("cores", row["vcpus"] + 2, group="quota")
    assert _act(member, server, {"resize": {"flavorRef": flavor}})
    # it counts from now on
    assert member.get("/limits")["limits"]["absolute"]["totalCoresUsed"] == row["vcpus"] + 2


@pytest.mark.parametrize("body", [{"resize": {"flavorRef": "other"}}, {"migrate": None}])
def test_when_it_may_be_asked_for(servers, cloud, admin, server, body):
    cloud.add_flavor("other", flavorid="other", root_gb=20)
    verb = next(iter(body))
    for vm_state in ("paused", "suspended", "error", "resized", "rescued", "shelved"):
        servers.set(server, vm_state=vm_state)
        assert _fault(admin, server, body, 409) == \
            f"Cannot '{verb}' instance {server} while it is in vm_state {vm_state}"
    servers.set(server, vm_state="stopped", task_state="powering-on")
    assert "task_state powering-on" in _fault(admin, server, body, 409)
    servers.set(server, task_state=None)
    number = cloud.db.write(services.get_by_host, "host1", services.COMPUTE)["id"]
    cloud.db.write(services.update, number, {"forced_down": True})
    assert "does not report" in _fault(admin, server, body, 409)
    cloud.db.write(services.update, number, {"forced_down": False})
    assert _act(admin, server, body)


@pytest.mark.parametrize("body", [{"migrate": None}, {"os-migrateLive": {"host": "host2", "block_migration": "auto"}}])
def test_a_wrong_clock_of_the_api_makes_no_host_dead(servers, cloud, admin, server, body, monkeypatch):
    cloud.add_service("host2")
    cloud.add_node("host2")
    now = units.utcnow
    monkeypatch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(hours=1))
    assert _act(admin.at("2.34"), server, body)


def test_locked(servers, cloud, member, server):
    cloud.add_flavor("other", flavorid="other", root_gb=20)
    servers.set(server, locked=True, locked_by="owner")
    assert _act(member, server, {"resize": {"flavorRef": "other"}}, 409)


def test_migrate_is_for_managers_and_a_host_for_admins(servers, cloud, member, admin, server):
    manager = cloud.client(roles=("manager", "member", "reader"))
    assert _act(member, server, {"migrate": None}, 403)
    assert _act(manager.at("2.56"), server, {"migrate": {"host": "host2"}}, 403)
    assert _fault(admin.at("2.56"), server, {"migrate": {"host": "host1"}}, 400) == \
        "Cannot migrate to the host where the server exists."
    assert _fault(admin.at("2.56"), server, {"migrate": {"host": "nosuch"}}, 400) == \
        "Compute host nosuch could not be found."
    assert _act(admin.at("2.56"), server, {"migrate": {"host": "x", "y": 1}}, 400)
    cloud.add_service("host2")
    cloud.add_node("host2")
    assert _act(admin.at("2.56"), server, {"migrate": {"host": "host2"}})
    assert servers.actions(server)[-1]["arguments"]["host"] == "host2"
    servers.set(server, task_state=None)
    assert _act(manager, server, {"migrate": None})
    assert servers.actions(server)[-1]["arguments"]["host"] is None


@pytest.mark.parametrize(("body", "status", "code", "host"), [
    ({"confirmResize": None}, objects.CONFIRMING, 204, "host1"), ({"revertResize": None}, objects.REVERTING, 202, "host2")])
def test_the_users_word_goes_to_the_host_that_has_something_to_do(servers, member, server, body, status, code, host):
    verb = next(iter(body))
    assert f"Cannot '{verb}'" in _fault(member, server, body, 409)
    servers.set(server, vm_state="resized")
    assert _fault(member, server, body, 400) == "Instance has not been resized."
    move = _moved(servers, server)
    servers.set(server, host="host2")
    assert member.post(f"/servers/{server}/action", body, code) is None
    action = servers.actions(server)[-1]
    assert (action["action"], action["host"], action["stage"]) == (verb, host, "compute")
    assert action["arguments"]["migration_id"] == move.id
    with servers.cloud.db.read() as conn:
        assert moves.get(conn, move.id).status == status
    assert _act(member, server, body, 409)


def test_the_list_of_migrations(servers, cloud, member, admin):
    made = []
    for kind, status in ((objects.RESIZE, "finished"), (objects.MIGRATION, "error"), (objects.LIVE_MIGRATION, "running")):
        made.append(_moved(servers, servers.active(member), status, kind))
    found = admin.at("2.80").get("/os-migrations")["migrations"]
    assert [m["uuid"] for m in found] == [m.uuid for m in reversed(made)]
    assert (found[2]["source_compute"], found[2]["dest_compute"], found[2]["dest_host"]) == ("host1", "host2", "192.0.2.2")
    assert [link["rel"] for link in found[0]["links"]] == ["self", "bookmark"]
    assert "links" not in found[1]
    for query, count in (("status=error", 1), ("migration_type=resize", 1), ("host=host2", 3), ("host=x", 0),
                         ("source_compute=host1", 3), (f"instance_uuid={made[0].instance_uuid}", 1),
                         (f"project_id={made[0].project_id}", 3), ("user_id=nobody", 0),
                         ("changes-since=2100-01-01T00:00:00Z", 0), ("changes-before=2100-01-01T00:00:00Z", 3)):
        assert len(admin.at("2.80").get(f"/os-migrations?{query}")["migrations"]) == count, query
    page = admin.at("2.59").get("/os-migrations?limit=2")
    assert [m["uuid"] for m in page["migrations"]] == [made[2].uuid, made[1].uuid]
    rest = admin.at("2.59").get(f"/os-migrations?limit=2&marker={made[1].uuid}")
    assert [m["uuid"] for m in rest["migrations"]] == [made[0].uuid]
    assert "marker=" + made[1].uuid in page["migrations_links"][0]["href"]
    old = admin.at("2.1").get("/os-migrations")["migrations"][0]
    assert not {"uuid", "links", "migration_type", "user_id"} & old.keys()
    manager = cloud.client(roles=("manager", "member", "reader")).at("2.80")
    mine = manager.get(f"/os-migrations?project_id={made[0].project_id}")["migrations"]
    assert {m["source_compute"] for m in mine} == {m["dest_host"] for m in mine} == {None}
    assert manager.get(f"/os-migrations?project_id={made[0].project_id}&limit=0")["migrations"] == []
    assert admin.at("2.59").call("GET", f"/os-migrations?marker={uuid.uuid4()}").status_code == 400


@pytest.mark.parametrize("state", ["active", "error"])
def test_a_state_that_is_reset_ends_the_move_that_waits(servers, admin, member, server, state):
    move = _moved(servers, server)
    assert _act(admin, server, {"os-resetState": {"state": state}})
    with servers.cloud.db.read() as conn:
        assert moves.get(conn, move.id).status == "confirmed"
    assert _act(member, server, {"confirmResize": None}, 409)


@pytest.mark.parametrize("options", [{"compute__reclaim_instance_interval": 60}])
def test_what_a_revert_may_have_taken_away_is_not_kept_to_be_restored(servers, member, server):
    move = _moved(servers, server)
    servers.cloud.db.write(moves.update, move.id, {"facts": {objects.REVERT_BEGUN: True}})
    assert "resized" in member.fault("DELETE", f"/servers/{server}", 409)
    assert _act(member, server, {"forceDelete": None})
