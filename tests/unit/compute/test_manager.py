"""The compute daemon of a host: drivers that fail, and a stop while there is work."""
import dataclasses
import threading
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from nova_lite.compute import manager as manager_module
from nova_lite.compute.manager import ComputeManager
from nova_lite.context import admin_context
from nova_lite.db import actions, models
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.rpc import conductor as rpcapi
from nova_lite.virt import fake


@pytest.mark.parametrize(("before", "verb", "operation", "vm_state", "power_state"), [
    (None, "stop", "power_off", states.ACTIVE, states.RUNNING), (None, "pause", "pause", states.ACTIVE, states.RUNNING),
    (None, "suspend", "suspend", states.ACTIVE, states.RUNNING), (None, "reboot", "reboot", states.ACTIVE, states.RUNNING),
    ("stop", "start", "power_on", states.STOPPED, states.SHUTDOWN),
    ("pause", "unpause", "unpause", states.PAUSED, states.POWER_PAUSED),
    ("suspend", "resume", "resume", states.SUSPENDED, states.SHUTDOWN)])
def test_after_a_failure_the_server_is_what_its_guest_is(cloud, before, verb, operation, vm_state, power_state):
    server = cloud.active()
    if before:
        cloud.wait_action(cloud.operate(server, before), objects.DONE)
    cloud.fail(operation)
    action_id = cloud.operate(server, verb)
    cloud.wait_action(action_id, objects.ERROR)
    found = cloud.wait(server, vm_state)
    assert found.power_state == power_state
    assert f"[fake] fail = {operation}" in found.fault["message"]
    with cloud.db.read() as conn:
        [event] = actions.events_of(conn, action_id)
        assert actions.get(conn, action_id).message == found.fault["message"]
    assert (event["result"], event["host"]) == ("Error", found.host)
    assert "DriverRefusal" in event["traceback"]
    cloud.fail()
    cloud.wait_action(cloud.operate(server, verb), objects.DONE)        # and it can be tried again
    assert cloud.get(server).fault is None


def test_an_operation_on_a_guest_that_is_gone_ends_in_error(cloud):
    server = cloud.active()
    found = cloud.get(server)
    cloud.hosts[found.host].host.driver.destroy(found, [])
    cloud.wait_action(cloud.operate(server, "stop"), objects.ERROR)
    assert cloud.wait(server, states.ERROR).power_state == states.NOSTATE
    cloud.wait_action(cloud.operate(server, "reboot_hard"), objects.DONE)       # which makes the guest anew
    assert cloud.guests(found.host) == {server: states.RUNNING}


def test_a_delete_that_fails_keeps_the_room_and_can_be_tried_again(cloud):
    server = cloud.active()
    host = cloud.get(server).host
    cloud.fail("destroy")
    cloud.wait_action(cloud.operate(server, "delete"), objects.ERROR)
    assert "[fake] fail = destroy" in cloud.wait(server, states.ERROR).fault["message"]
    assert cloud.claimed() == {host: {server}}
    cloud.fail()
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert cloud.get(server).deleted
    assert cloud.claimed() == cloud.guests(host) == {}


def test_a_stop_while_messages_come_loses_none(make_cloud, tmp_path):
    cloud = make_cloud("h1", fake__state_file=str(tmp_path / "guests"))
    servers = cloud.build(12)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    ids = [cloud.begin(server, "stop") for server in servers]
    cloud.delay(0.1)
    manager, half = cloud.hosts["h1"], threading.Event()

    def cast():
        for number, action_id in enumerate(ids):
            if number == len(ids) // 2:
                half.set()
            manager.wake(admin_context(), [action_id])
    sender = threading.Thread(target=cast)
    sender.start()
    assert half.wait(10)
    cloud.end_host("h1")
    sender.join()
    assert manager.leases.in_flight() == []
    states_now = {cloud.get(server).vm_state for server in servers}
    assert states_now <= {states.ACTIVE, states.STOPPED}        # what was begun has been finished
    cloud.delay(0.0)
    cloud.add_host("h1")
    for server, action_id in zip(servers, ids, strict=True):
        cloud.wait(server, states.STOPPED)
        assert cloud.wait_action(action_id, objects.DONE).attempts <= 1


def test_planned_restarts_are_nobodys_death(make_cloud, tmp_path):
    cloud = make_cloud("h1", fake__state_file=str(tmp_path / "guests"), compute__max_concurrent_builds=1,
                       conductor__max_attempts=2)
    cloud.delay(0.5)
    made = cloud.create(5)
    ids = [action_id for _, action_id in made]
    cloud.conductor.schedule_and_build_instances(admin_context(), ids)
    for _ in range(3):
        cloud.wait_for(lambda: all(cloud.action(one).state != objects.PENDING for one in ids))
        cloud.end_host("h1")
        waiting = [cloud.action(one) for one in ids if cloud.action(one).state != objects.DONE]
        assert {(a.state, a.owner, a.host) for a in waiting} <= {(objects.PENDING, None, "h1")}
        cloud.add_host("h1")
    cloud.delay(0.0)
    for server, action_id in made:
        cloud.wait(server, states.ACTIVE)
        assert cloud.wait_action(action_id, objects.DONE).attempts == 0


def test_a_stop_does_not_wait_for_a_recovery(make_cloud, monkeypatch):
    monkeypatch.setattr(rpcapi, "TIMEOUT", 60.0)
    cloud = make_cloud()
    asked, answer = threading.Event(), threading.Event()
    monkeypatch.setattr(cloud.conductor, "host_started", lambda *_a, **_k: asked.set() or answer.wait(60))
    manager = ComputeManager(cloud.conf, cloud.transport, "h1")
    stop = threading.Thread(target=manager.stop, daemon=True)
    try:
        manager.start()
        assert asked.wait(20)       # a conductor that says nothing, as one that is gone
        stop.start()
        stop.join(20)
        assert not stop.is_alive()
    finally:
        answer.set()


def test_a_stop_does_not_wait_for_a_broker_that_is_away(make_cloud, monkeypatch):
    monkeypatch.setattr(manager_module, "_GIVE_BACK_SECONDS", 0.2)
    cloud = make_cloud("h1", compute__max_concurrent_builds=1)
    cloud.delay(0.5)
    made = cloud.create(3)
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id for _, action_id in made])
    cloud.wait_for(lambda: all(cloud.action(action_id).state != objects.PENDING for _, action_id in made))
    manager, back = cloud.hosts["h1"], threading.Event()
    monkeypatch.setattr(manager.conductor, "release_actions", lambda *_a: back.wait(60))
    stop = threading.Thread(target=cloud.end_host, args=("h1",), daemon=True)
    try:
        stop.start()
        stop.join(30)
        assert not stop.is_alive()
        assert manager.leases.in_flight() == []
    finally:
        back.set()


class Old(fake.FakeDriver):
    """Its host has been up for long."""

    def uptime(self):
        return " 08:32:11 up 93 days, 18:25, 12 users,  load average: 0.20, 0.12, 0.14"


def test_a_report_says_how_long_the_host_is_up(make_cloud):
    cloud = make_cloud("h1")
    manager, nodes = cloud.hosts["h1"], models.compute_nodes
    manager.host = dataclasses.replace(manager.host, driver=Old(cloud.conf, "h1"))
    for _ in range(30):         # it goes along with the whole inventory
        cloud.report("h1")
    with cloud.db.read() as conn:
        assert conn.execute(sa.select(nodes.c.uptime)).scalar_one() == Old.uptime(manager)


def test_what_has_waited_long_for_a_thread_is_asked_for_again(cloud, monkeypatch):
    """Its host was taken for dead meanwhile, and the server is evacuated: a guest that it started would be a second one."""
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "stop"), objects.DONE)
    manager = cloud.hosts[cloud.get(server).host]
    real, waiting = manager._read, []
    monkeypatch.setattr(manager, "_read", lambda number, answer, _asked: real(number, answer, float("-inf")))
    monkeypatch.setattr(manager, "_queues", SimpleNamespace(submit=lambda _uuid, _pool, task: waiting.append(task)))
    action_id = cloud.operate(server, "start")
    cloud.wait_for(lambda: waiting)
    cloud.db.write(actions.finish, [action_id], "it failed")
    waiting[0](False)
    assert cloud.guests(manager.host.name) == {server: states.SHUTDOWN}
