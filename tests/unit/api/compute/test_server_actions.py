"""POST /servers/{id}/action: what is written down for the workers, and when an action is refused."""
from __future__ import annotations

import pytest

from nova_lite import exception, operations
from nova_lite.objects import states
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers

BODIES = {"start": {"os-start": None}, "stop": {"os-stop": None}, "reboot": {"reboot": {"type": "SOFT"}},
          "reboot_hard": {"reboot": {"type": "Hard"}}, "pause": {"pause": None}, "unpause": {"unpause": {}},
          "suspend": {"suspend": None}, "resume": {"resume": None}, "force_delete": {"forceDelete": None}}
STATES = (states.ACTIVE, states.BUILDING, states.PAUSED, states.SUSPENDED, states.STOPPED, states.ERROR)


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


@pytest.mark.parametrize("verb", BODIES)
def test_an_action_is_a_row_for_the_host(servers, member, verb):
    operation = operations.VERBS[verb]
    server = servers.active(member)
    servers.set(server, vm_state=(operation.vm_states or (states.ACTIVE,))[0])
    assert member.post(f"/servers/{server}/action", BODIES[verb], 202) is None
    action = servers.actions(server)[-1]
    assert (action["action"], action["stage"], action["host"], action["state"]) == (
        operation.action, "compute", "host1", "pending")
    assert action["arguments"]["verb"] == verb
    assert servers.row(server)["task_state"] == operation.task_state


@pytest.mark.parametrize("verb", BODIES)
@pytest.mark.parametrize("vm_state", STATES)
def test_every_state_allows_what_the_table_says(servers, member, verb, vm_state):
    server = servers.active(member)
    operation = operations.VERBS[verb]
    for task_state in (None, "rebooting", "powering-off"):
        servers.set(server, vm_state=vm_state, task_state=task_state)
        allowed = (not operation.vm_states or vm_state in operation.vm_states) and (
            not operation.task_states or task_state in operation.task_states)
        answer = member.call("POST", f"/servers/{server}/action", BODIES[verb])
        assert answer.status_code == (202 if allowed else 409), (vm_state, task_state)
        if not allowed:
            assert answer.json_body["conflictingRequest"]["message"].startswith(
                f"Cannot '{verb.removesuffix('_hard')}' instance {server} while it is in ")
            assert servers.row(server)["task_state"] == task_state


def test_a_server_that_never_ran_is_not_ready(servers, member):
    server = servers.create(member)
    assert member.fault("POST", f"/servers/{server}/action", 409, {"os-stop": None}) == f"Instance {server} is not ready"


def test_a_hard_reboot_that_waits_is_not_asked_for_twice(servers, member):
    server = servers.active(member)
    path = f"/servers/{server}/action"
    for verb in ("reboot", "reboot_hard", "reboot_hard", "reboot_hard"):        # the soft one is overtaken
        member.post(path, BODIES[verb], 202)
    assert [a["arguments"]["verb"] for a in servers.actions(server)[1:]] == ["reboot", "reboot_hard"]
    assert servers.row(server)["task_state"] == "rebooting_hard"
    member.fault("POST", path, 409, BODIES["reboot"])
    servers.set(server, task_state="reboot_started_hard")
    member.fault("POST", path, 409, BODIES["reboot_hard"])


def test_a_hard_reboot_of_which_nobody_knows_is_begun_anew(servers, member):
    server = servers.active(member)
    servers.set(server, task_state="rebooting_hard")
    member.post(f"/servers/{server}/action", BODIES["reboot_hard"], 202)
    (_, action) = servers.actions(server)
    assert (action["arguments"]["verb"], action["state"]) == ("reboot_hard", "pending")


def test_two_actions_at_once_are_one(servers, member):
    server = servers.active(member)
    path = f"/servers/{server}/action"
    assert sorted(member.call("POST", path, {"os-stop": None}).status_code for _ in range(2)) == [202, 409]
    assert [a["action"] for a in servers.actions(server)] == ["create", "stop"]


def test_delete_goes_to_the_host_or_to_the_conductor(servers, member):
    built, waiting = servers.active(member), servers.create(member)
    for server, stage, host in ((built, "compute", "host1"), (waiting, "conductor", None)):
        member.delete(f"/servers/{server}")
        member.delete(f"/servers/{server}")          # asked twice, done once
        actions = servers.actions(server)
        assert [(a["action"], a["stage"], a["host"]) for a in actions[1:]] == [("delete", stage, host)]
        assert servers.row(server)["task_state"] == "deleting"


def test_a_delete_that_came_to_nothing_may_be_asked_for_again(servers, cloud, member):
    server = servers.active(member)
    member.delete(f"/servers/{server}")
    first = servers.actions(server)[-1]["id"]
    cloud.db.write(lambda c: c.exec_driver_sql(f"UPDATE instance_actions SET state = 'error' WHERE id = {first}"))
    member.delete(f"/servers/{server}")
    assert len(servers.actions(server)) == 3


def test_lock_keeps_everybody_but_admins_out(servers, member, admin):
    server = servers.active(member)
    member.at("2.73").post(f"/servers/{server}/action", {"lock": {"locked_reason": "do not touch"}}, 202)
    shown = member.at("2.73").get(f"/servers/{server}")["server"]
    assert (shown["locked"], shown["locked_reason"]) == (True, "do not touch")
    for method, path, body in (("POST", "/action", {"os-stop": None}), ("DELETE", "", None),
                               ("POST", "/metadata", {"metadata": {"a": "b"}})):
        assert member.fault(method, f"/servers/{server}{path}", 409, body) == f"Instance {server} is locked"
    admin.post(f"/servers/{server}/action", {"os-stop": None}, 202)
    member.post(f"/servers/{server}/action", {"unlock": None}, 202)
    assert member.at("2.73").get(f"/servers/{server}")["server"]["locked_reason"] is None
    assert [a["action"] for a in servers.actions(server)] == ["create", "lock", "stop", "unlock"]
    assert servers.actions(server)[1]["state"] == "done"


def test_an_admins_lock_needs_an_admin(servers, member, admin):
    server = servers.active(member)
    admin.post(f"/servers/{server}/action", {"lock": None}, 202)
    assert servers.row(server)["locked_by"] == "admin"
    member.post(f"/servers/{server}/action", {"lock": None}, 202)     # no way to make it one's own
    assert servers.row(server)["locked_by"] == "admin"
    assert "unlock_override" in member.fault("POST", f"/servers/{server}/action", 403, {"unlock": None})
    admin.post(f"/servers/{server}/action", {"unlock": None}, 202)
    assert servers.row(server)["locked"] is False


def test_reset_state(servers, member, admin):
    server = servers.create(member)
    body = {"os-resetState": {"state": "error"}}
    assert "reset_state" in member.fault("POST", f"/servers/{server}/action", 403, body)
    admin.post(f"/servers/{server}/action", body, 202)
    assert member.get(f"/servers/{server}")["server"]["status"] == "ERROR"
    assert servers.row(server)["task_state"] is None
    assert servers.actions(server)[-1]["action"] == "resetState"


def test_console_output(servers, cloud, member, monkeypatch):
    server = servers.active(member)
    asked = []

    def answer(_context, host, uuid, length):
        asked.append((host, uuid, length))
        return "a\x1b[0m\nb\x00"
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "get_console_output", answer)
    for argument in ({"length": 5}, {"length": "5"}, {}, {"length": None}, {"length": -1}):
        assert member.post(f"/servers/{server}/action", {"os-getConsoleOutput": argument}) == {"output": "a[0m\nb"}
    assert asked == [("host1", server, 5)] * 2 + [("host1", server, None)] * 3
    waiting = servers.create(member)
    assert "not ready" in member.fault("POST", f"/servers/{waiting}/action", 409, {"os-getConsoleOutput": {}})


def test_a_host_that_does_not_answer_is_told(servers, cloud, member, monkeypatch):
    import oslo_messaging

    def silent(*_args):
        raise oslo_messaging.MessagingTimeout("no reply")
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "get_console_output", silent)
    server = servers.active(member)
    assert "its compute host does not answer" in member.fault(
        "POST", f"/servers/{server}/action", 503, {"os-getConsoleOutput": {}})


@pytest.mark.parametrize("body", [
    {"reboot": {}}, {"reboot": {"type": "WARM"}}, {"reboot": None}, {"os-getConsoleOutput": {"length": "x"}},
    {"os-getConsoleOutput": {"length": -2}}, {"os-getConsoleOutput": None}, {"os-resetState": {"state": "paused"}}, {},
    {"os-start": None, "os-stop": None}, {"fly": None}, []])
def test_wrong_bodies(servers, admin, body):
    server = servers.active(admin)
    admin.fault("POST", f"/servers/{server}/action", 400, body)


def test_locked_reason_is_of_2_73(servers, member):
    server = servers.active(member)
    member.at("2.72").post(f"/servers/{server}/action", {"lock": {"locked_reason": "x"}}, 202)
    assert servers.row(server)["locked_reason"] is None
    member.at("2.73").fault("POST", f"/servers/{server}/action", 400, {"lock": {"locked_reason": ""}})


def test_a_server_whose_state_changed_meanwhile_is_checked_anew(servers, cloud, member):
    """The check is part of the transaction: what was read before it does not count."""
    server = servers.active(member)
    instance = cloud.services.compute.get
    context = []

    def late(ctx, uuid, deleted=False):
        found = instance(ctx, uuid, deleted)
        context.append(ctx)
        servers.set(server, vm_state="paused")
        return found
    cloud.services.compute.get = late
    assert "vm_state paused" in member.fault("POST", f"/servers/{server}/action", 409, {"os-stop": None})
    with pytest.raises(exception.InstanceInvalidState):
        cloud.services.compute.stop(context[0], server)
