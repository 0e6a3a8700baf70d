"""os-migrateLive, and the abort and forced completion of what it began."""
from __future__ import annotations

import pytest

from nova_lite.db import actions, instances, moves
from tests.support.clock import FastClock
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def server(servers, cloud, admin):
    cloud.add_service("host2")
    cloud.add_node("host2")
    return servers.active(admin)


def test_a_guest_with_pci_devices_stays_where_it_is(cloud, servers, server, admin):
    with cloud.db.read() as conn:
        flavor = instances.get(conn, server).flavor.to_primitive()
    asked = [{"alias": "a", "count": 1, "specs": [{}]}]
    cloud.db.write(instances.update, server, {"flavor": {**flavor, "pci_requests": asked}})
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert "it has PCI devices of its host" in admin.at("2.90").fault("POST", _path(server), 400, body)
    assert "live-migration" not in [action["action"] for action in servers.actions(server)]


def _path(server: str) -> str:
    return f"/servers/{server}/action"


def _asked(servers, server):
    [action] = [a for a in servers.actions(server) if a["action"] == "live-migration"]
    return action["arguments"]


@pytest.mark.parametrize(("version", "argument", "kept"), [
    ("2.1", {"host": "host2", "block_migration": True, "disk_over_commit": "false"}, (True, False, True)),
    ("2.25", {"host": "host2", "block_migration": "auto"}, (None, None, True)),
    ("2.30", {"host": "host2", "block_migration": "auto"}, (None, None, False)),
    ("2.30", {"host": "host2", "block_migration": False, "force": True}, (False, None, True)),
    ("2.68", {"host": None, "block_migration": "auto"}, (None, None, False)),
    ("2.96", {"host": "host2", "block_migration": "auto"}, (None, None, False))])
def test_what_is_asked_at_each_version(servers, cloud, server, admin, version, argument, kept):
    cloud.services.compute.clock = FastClock(skips=3600.0)      # no conductor is there to check anything
    admin.at(version).post(_path(server), {"os-migrateLive": argument}, 202)
    found = _asked(servers, server)
    assert (found["host"], found["block_migration"], found["disk_over_commit"], found["force"]) == (argument["host"], *kept)
    assert servers.row(server)["task_state"] == "migrating"


@pytest.mark.parametrize(("version", "argument"), [
    ("2.1", {"host": None, "block_migration": "auto", "disk_over_commit": False}), ("2.1", {"host": None}),
    ("2.25", {"host": None, "block_migration": "auto", "disk_over_commit": False}),
    ("2.29", {"host": None, "block_migration": "auto", "force": True}),
    ("2.68", {"host": None, "block_migration": "auto", "force": True}), ("2.68", {"block_migration": "auto"})])
def test_bodies_that_a_version_does_not_know(server, admin, version, argument):
    admin.at(version).post(_path(server), {"os-migrateLive": argument}, 400)


@pytest.mark.parametrize("version", ["2.30", "2.67"])
def test_nobody_is_forced_to_nowhere(servers, cloud, server, admin, version):
    cloud.services.compute.clock = FastClock(skips=3600.0)      # no conductor is there to check anything
    body = {"host": None, "block_migration": "auto", "force": "true"}
    assert "force needs the host" in admin.at(version).fault("POST", _path(server), 400, {"os-migrateLive": body})
    assert servers.row(server)["task_state"] is None
    admin.at(version).post(_path(server), {"os-migrateLive": {**body, "force": False}}, 202)


def test_hosts_that_cannot_be(servers, cloud, server, admin):
    admin, body = admin.at("2.68"), {"block_migration": "auto"}
    assert "current host" in admin.fault("POST", _path(server), 400, {"os-migrateLive": {**body, "host": "host1"}})
    assert "nowhere" in admin.fault("POST", _path(server), 400, {"os-migrateLive": {**body, "host": "nowhere"}})
    assert servers.row(server)["task_state"] is None


def test_states_and_policies(servers, cloud, server, member):
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    member.at("2.68").post(_path(servers.active(member)), body, 403)
    manager = cloud.client(roles=("manager", "member", "reader")).at("2.68")
    mine = servers.active(manager)
    manager.post(_path(mine), {"os-migrateLive": {"host": "host2", "block_migration": "auto"}}, 403)
    manager.post(_path(mine), body, 202)
    manager.post(_path(mine), body, 409)


def _running(servers, cloud, server, status):
    """What there is while a copy is under way."""
    def write(conn):
        move = moves.create(conn, instances.get(conn, server), "live-migration", status)
        [row] = [a for a in actions.open_of_instances(conn, [server])[server] if a.verb == "live_migrate"]
        actions.set_arguments(conn, row.id, {**row.arguments, "migration_id": move.id})
        return move.id
    return cloud.db.write(write)


@pytest.mark.parametrize(("version", "status", "code"), [
    ("2.24", "running", 202), ("2.24", "queued", 400), ("2.64", "preparing", 400), ("2.65", "queued", 202),
    ("2.65", "preparing", 202), ("2.65", "completed", 400)])
def test_an_abort_is_written_down_for_the_host(servers, cloud, server, admin, version, status, code):
    admin.at("2.68").post(_path(server), {"os-migrateLive": {"host": None, "block_migration": "auto"}}, 202)
    number = _running(servers, cloud, server, status)
    admin.at(version).delete(f"/servers/{server}/migrations/{number}", code)
    assert _asked(servers, server).get("wanted") == ("abort" if code == 202 else None)
    assert ("live_migration_cancel" in [a["action"] for a in servers.actions(server)]) == (code == 202)


@pytest.mark.parametrize(("status", "code"), [("running", 202), ("preparing", 400)])
def test_so_is_a_forced_completion(servers, cloud, server, admin, status, code):
    admin.at("2.68").post(_path(server), {"os-migrateLive": {"host": None, "block_migration": "auto"}}, 202)
    number = _running(servers, cloud, server, status)
    path = f"/servers/{server}/migrations"
    [shown] = admin.at("2.80").get(path)["migrations"]
    assert admin.at("2.80").get(f"{path}/{number}") == {"migration": shown}
    assert (shown["id"], shown["status"], shown["server_uuid"], shown["source_compute"]) == (number, status, server, "host1")
    for nothing in (f"{number}_0", "9" * 23, "%D9%A3", "x"):
        admin.at("2.24").delete(f"{path}/{nothing}", 404)
        admin.at("2.22").post(f"{path}/{nothing}/action", {"force_complete": None}, 400)
    admin.at("2.22").post(f"{path}/{number}/action", {"force_complete": None}, code)
    assert _asked(servers, server).get("wanted") == ("force_complete" if code == 202 else None)
