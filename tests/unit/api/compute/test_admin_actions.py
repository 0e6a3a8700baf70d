"""changePassword, trigger_crash_dump and injectNetworkInfo; what hosts do is in tests/unit/compute."""
import oslo_messaging
import pytest

from nova_lite import exception
from tests.unit.api.compute.server_support import Servers

PASSWORD = {"changePassword": {"adminPass": "s3cret"}}
DUMP = {"trigger_crash_dump": None}


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def host(cloud, monkeypatch):
    """What the host says to the question whether it can set passwords: an error, or nothing."""
    answers = []

    def check(_context, name, uuid):
        if answers:
            raise answers[0]
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "check_admin_password", check)
    return answers


def test_change_password(servers, member, host):
    server = servers.active(member)
    assert member.post(f"/servers/{server}/action", PASSWORD, 202) is None
    assert member.get(f"/servers/{server}")["server"]["status"] == "PASSWORD"
    action = servers.actions(server)[-1]
    assert (action["action"], action["stage"], action["host"]) == ("changePassword", "compute", "host1")
    assert action["arguments"] == {"verb": "changePassword", "admin_password": "s3cret"}
    member.post(f"/servers/{server}/action", PASSWORD, 409)


@pytest.mark.parametrize(("error", "code"), [
    (exception.NotImplementedByDriver(what="passwords"), 501), (exception.Conflict("no agent"), 409),
    (oslo_messaging.MessagingTimeout("no reply"), 503)])
def test_what_the_host_cannot_do_is_told_at_once(servers, member, host, error, code):
    server = servers.active(member)
    host.append(error)
    member.post(f"/servers/{server}/action", PASSWORD, code)
    assert [action["action"] for action in servers.actions(server)] == ["create"]
    assert servers.row(server)["task_state"] is None


def test_crash_dump(servers, member):
    server = servers.active(member)
    path = f"/servers/{server}/action"
    for version in ("2.17", "2.96"):
        assert member.at(version).post(path, DUMP, 202) is None
    action = servers.actions(server)[-1]
    assert (action["action"], action["stage"], action["host"]) == ("trigger_crash_dump", "compute", "host1")
    assert (servers.row(server)["vm_state"], servers.row(server)["task_state"]) == ("active", None)
    member.at("2.16").post(path, DUMP, 404)
    member.at("2.17").post(path, {"trigger_crash_dump": {}}, 400)
    servers.set(server, host=None)
    assert "not ready" in member.at("2.17").fault("POST", path, 409, DUMP)


def test_states_that_forbid_it(servers, member, host):
    server = servers.active(member)
    path = f"/servers/{server}/action"
    servers.set(server, vm_state="stopped")
    assert member.fault("POST", path, 409, PASSWORD) == \
        f"Cannot 'changePassword' instance {server} while it is in vm_state stopped"
    assert member.at("2.17").fault("POST", path, 409, DUMP) == \
        f"Cannot 'trigger_crash_dump' instance {server} while it is in vm_state stopped"
    servers.set(server, vm_state="active", locked=True, locked_by="admin")
    for version, body in (("2.1", PASSWORD), ("2.17", DUMP)):
        assert member.at(version).fault("POST", path, 409, body) == f"Instance {server} is locked"


def test_network_info_is_injected_nowhere(servers, cloud, admin, member):
    server = servers.active(member)
    path, body = f"/servers/{server}/action", {"injectNetworkInfo": None}
    assert admin.post(path, body, 202) is None
    member.post(path, body, 403)
    admin.post("/servers/x/action", body, 404)
    assert [action["action"] for action in servers.actions(server)] == ["create"]


@pytest.mark.parametrize("argument", [None, {}, {"adminPass": None}, {"adminPass": "x", "y": 1}, "x"])
def test_bad_bodies(servers, member, argument):
    member.post(f"/servers/{servers.active(member)}/action", {"changePassword": argument}, 400)


@pytest.mark.parametrize("body", [{"os-resetState": {"state": "error"}}, {"migrate": None}, {"injectNetworkInfo": None},
                                  {"os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False}}])
def test_what_only_an_admin_may_is_404_on_a_server_that_one_cannot_see(servers, cloud, member, body):
    path = f"/servers/{servers.active(member)}/action"
    member.at("2.1").post(path, body, 403)
    cloud.client("x", "project2").at("2.1").post(path, body, 404)
    member.at("2.1").post("/servers/x/action", body, 404)


def test_for_whom(servers, cloud, member, host):
    server = servers.active(member)
    for version, body in (("2.1", PASSWORD), ("2.17", DUMP)):
        cloud.client(roles=("reader",)).at(version).post(f"/servers/{server}/action", body, 403)
        cloud.client("x", "project2").at(version).post(f"/servers/{server}/action", body, 404)
