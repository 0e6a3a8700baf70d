"""evacuate: what each version takes and answers."""
from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models, services
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def server(servers, cloud, admin):
    """One whose host has not been heard of."""
    made = servers.active(admin)
    table = models.services
    cloud.db.write(lambda c: c.execute(sa.update(table).where(table.c.host == "host1").values(forced_down=True)))
    cloud.add_service("host2")
    return made


def _arguments(servers, server):
    return next(a["arguments"] for a in servers.actions(server) if a["action"] == "evacuate")


@pytest.mark.parametrize(("version", "argument", "kept"), [
    ("2.1", {"host": "host2", "onSharedStorage": "False"}, ("host2", True, False)),
    ("2.14", {"host": "host2"}, ("host2", True, False)), ("2.29", {"host": "host2"}, ("host2", False, False)),
    ("2.29", {"host": "host2", "force": True}, ("host2", True, False)), ("2.68", {}, (None, False, False)),
    ("2.95", {"host": "host2", "adminPass": "MySecretPass"}, ("host2", False, True))])
def test_what_is_asked_at_each_version(servers, server, admin, version, argument, kept):
    answer = admin.at(version).post(f"/servers/{server}/action", {"evacuate": argument}, 200)
    found = _arguments(servers, server)
    assert (found["host"], found["force"], found["stopped"]) == kept
    assert "admin_password" not in found      # there is no config drive to put it into
    assert servers.row(server)["task_state"] == "rebuilding"
    assert bool(answer) == (version == "2.1")


def test_passwords(servers, server, admin):
    path, admin = f"/servers/{server}/action", admin.at("2.1")
    body = {"evacuate": {"adminPass": "MySecretPass", "onSharedStorage": "True"}}
    assert "admin password" in admin.fault("POST", path, 400, body)
    body["evacuate"]["onSharedStorage"] = False
    assert admin.post(path, body, 200) == {"adminPass": "MySecretPass"}


def test_a_disk_that_is_shared_keeps_its_password(server, admin):
    body = {"evacuate": {"host": "host2", "onSharedStorage": True}}
    assert admin.at("2.13").post(f"/servers/{server}/action", body, 200) == {"adminPass": None}


def test_passwords_that_are_not_told(cloud, server, admin):
    cloud.conf.set_override("enable_instance_password", False, "api")
    body = {"evacuate": {"host": "host2", "onSharedStorage": False}}
    assert admin.at("2.13").post(f"/servers/{server}/action", body, 200) is None


@pytest.mark.parametrize(("version", "argument"), [
    ("2.1", {"host": "host2"}), ("2.14", {"onSharedStorage": False}), ("2.28", {"force": True}), ("2.68", {"force": True})])
def test_bodies_that_a_version_does_not_know(server, admin, version, argument):
    admin.at(version).post(f"/servers/{server}/action", {"evacuate": argument}, 400)


@pytest.mark.parametrize("version", ["2.29", "2.67"])
def test_nobody_is_forced_to_nowhere(servers, server, admin, version):
    path, admin = f"/servers/{server}/action", admin.at(version)
    assert "force needs the host" in admin.fault("POST", path, 400, {"evacuate": {"force": "true"}})
    assert servers.row(server)["task_state"] is None
    admin.post(path, {"evacuate": {"force": False}}, 200)


def test_refusals(servers, cloud, server, admin, member):
    path, admin = f"/servers/{server}/action", admin.at("2.68")
    assert "nowhere" in admin.fault("POST", path, 404, {"evacuate": {"host": "nowhere"}})
    assert "same" in admin.fault("POST", path, 400, {"evacuate": {"host": "host1"}})
    member.at("2.68").post(f"/servers/{servers.active(member)}/action", {"evacuate": {}}, 403)
    servers.set(server, vm_state="paused")
    admin.post(path, {"evacuate": {}}, 409)
    servers.set(server, vm_state="active", host="host2")
    assert "still in use" in admin.fault("POST", path, 400, {"evacuate": {}})


def _ago(seconds):
    return units.utcnow() - datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize("conductor", [
    None, {}, {"listening_since": 600, "listened_until": 100}, {"listening_since": 9, "listened_until": 1}],
    ids=["none", "of the release before", "broker away", "just started"])
def test_a_silent_host_is_not_evacuated_when_nobody_could_hear_it(servers, cloud, admin, conductor):
    """Its guests run, and it goes on with what it does."""
    server, path = servers.active(admin), "/servers/{}/action"
    admin.post(path.format(server), {"os-stop": None}, 202)
    begun = servers.actions(server)
    table = models.services
    cloud.db.write(lambda c: c.execute(sa.update(table).where(table.c.host == "host1").values(last_seen_at=_ago(300))))
    if conductor is not None:
        cloud.add_service("control", services.CONDUCTOR, **{name: _ago(seconds) for name, seconds in conductor.items()})
    fault = admin.at("2.68").fault("POST", path.format(server), 409, {"evacuate": {}})
    assert "Compute service of host1 may still be in use" in fault
    assert servers.actions(server) == begun


def test_a_host_that_was_silent_while_conductors_listened_is_evacuated(servers, cloud, admin):
    server, table = servers.active(admin), models.services
    cloud.db.write(lambda c: c.execute(sa.update(table).where(table.c.host == "host1").values(last_seen_at=_ago(40))))
    cloud.add_service("control", services.CONDUCTOR, listening_since=_ago(40), listened_until=_ago(5))
    admin.at("2.68").post(f"/servers/{server}/action", {"evacuate": {}}, 200)
    assert servers.row(server)["task_state"] == "rebuilding"
