"""Volumes that grow while a server has them: the Volume service tells, the guest's host does it, whatever comes between."""
from __future__ import annotations

import dataclasses

import pytest

from nova_lite import exception, operations
from nova_lite.db import actions
from nova_lite.objects import states
from tests.support.clock import FastClock
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN, made_of

BROKEN = exception.DriverRefusal(what="Resizing its disk", reason="QEMU does not answer")


@pytest.fixture
def two(make_volume_cloud):
    return make_volume_cloud("h1", "h2")


def tell(cloud, server, *volumes, code=200):
    """What Cinder says."""
    events = [{"name": "volume-extended", "server_uuid": server, "tag": volume} for volume in volumes]
    answer = cloud.admin.post("/os-server-external-events", {"events": events}, 200 if code == 200 else 207)
    assert [event["code"] for event in answer["events"]] == [code] * len(volumes)


def grow(cloud, volume, size):
    """What Cinder does with a volume in use: ours, of files, grows none of these."""
    with cloud.volumes._lock.held():
        grown = cloud.volumes._volumes.read(volume)
        grown.size = size
        cloud.volumes._volumes.write(volume, grown)


def shown(cloud, server):
    """The actions extend_volume of a server as their events: [(name, result)] each, the newest first."""
    listed = cloud.member.get(f"/servers/{server}/os-instance-actions")["instanceActions"]
    return [[(e["event"], e["result"]) for e in cloud.admin.get(
        f"/servers/{server}/os-instance-actions/{a['request_id']}")["instanceAction"]["events"]]
        for a in listed if a["action"] == "extend_volume"]


DONE = [("compute_extend_volume", "Success")]


def extended(cloud, host):
    """How often the hypervisor of a host was told."""
    return cloud.drivers[host].calls.count("extend_volume")


@pytest.fixture
def server(cloud):
    return cloud.running()


@pytest.fixture
def volume(cloud, server):
    volume = cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    grow(cloud, volume, 3)
    return volume


def test_a_guest_hears_that_its_volume_has_grown(cloud, server, volume):
    tell(cloud, server, volume)
    cloud.actions_end(server)
    assert shown(cloud, server) == [DONE]
    assert (extended(cloud, "h1"), cloud.device(server, volume).size) == (1, 3)
    tell(cloud, server, volume, volume)         # who is told twice does no harm
    cloud.actions_end(server)
    assert cloud.device(server, volume).size == 3
    assert (cloud.get(server).vm_state, cloud.get(server).fault) == (states.ACTIVE, None)


@pytest.mark.parametrize("is_apart", [False, True])
def test_what_has_grown_is_as_large_in_the_next_image(cloud, is_apart):
    """A snapshot of the volume is as large as the volume now: a server of the image asks for a volume that takes it."""
    server = cloud.running(made_of("image", cloud.image, 1))
    [root] = cloud.get(server).block_devices
    if is_apart:      # by hand: nothing of it is connected, as in the middle of a move
        cloud.set(server, block_devices=[{**root.to_primitive(), "connection_info": None, "attached": False}])
    grow(cloud, root.volume_id, 3)
    tell(cloud, server, root.volume_id)
    cloud.actions_end(server)
    assert (cloud.get(server).block_devices[0].size, extended(cloud, "h1")) == (3, 0 if is_apart else 1)
    image = cloud.member.post(f"/servers/{server}/action", {"createImage": {"name": "x"}}, 202)["image_id"]
    cloud.boot(imageRef=image, flavorRef="0")


@pytest.mark.parametrize(("vm_state", "task_state"), [
    (states.ACTIVE, states.IMAGE_UPLOADING), (states.STOPPED, states.POWERING_ON), (states.ERROR, None),
    (states.SUSPENDED, None)])
def test_nothing_refuses_it_and_it_changes_no_state(cloud, server, volume, vm_state, task_state):
    cloud.set(server, vm_state=vm_state, task_state=task_state, locked=True, locked_by="owner")
    cloud.admin = dataclasses.replace(cloud.admin, roles=("service",))      # as Cinder: an admin would override the lock
    tell(cloud, server, volume)
    cloud.wait_for(lambda: cloud.last_action(server)["row"].state == "done")
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == (vm_state, task_state)
    assert cloud.device(server, volume).size == 3


def test_a_volume_that_is_not_attached_is_nobodys_business(cloud, server):
    tell(cloud, server, cloud.volume())
    assert shown(cloud, server) == []


def test_a_server_without_a_host_has_nobody_to_hear_it(cloud, server, volume):
    cloud.member.post(f"/servers/{server}/action", {"shelve": None}, 202)
    cloud.wait(server, states.SHELVED_OFFLOADED, 20)
    tell(cloud, server, volume, code=422)
    assert shown(cloud, server) == []


@pytest.mark.parametrize(("change", "code"), [
    (lambda cloud, server: cloud.set(server, host=None), 422), (lambda cloud, server: cloud.delete(server), 404)])
def test_it_may_lose_its_host_or_be_gone_while_cinder_tells(cloud, server, volume, monkeypatch, change, code):
    compute = cloud.services.compute
    operate, meanwhile = compute.operate, [change]

    def late(*arguments, **named):
        if meanwhile:
            meanwhile.pop()(cloud, server)
        return operate(*arguments, **named)
    monkeypatch.setattr(compute, "operate", late)
    tell(cloud, server, volume, code=code)


def test_a_detach_may_be_faster(cloud, server, volume, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "power_off")
    cloud.member.post(f"/servers/{server}/action", {"os-stop": None}, 202)
    assert held.wait(10)
    tell(cloud, server, volume)                 # it is queued
    cloud.set(server, block_devices=[])
    go_on.set()
    cloud.actions_end(server)
    assert shown(cloud, server) == [DONE]
    assert extended(cloud, "h1") == 0


def test_an_open_one_keeps_no_volume(cloud, server, volume):
    cloud.operate(server, "stop")
    cloud.wait(server, states.STOPPED)
    cloud.begin(server, "extend_volume", {"volume_id": volume})     # the message is lost
    cloud.detach(server, volume)
    cloud.wait_for(lambda: cloud.device(server, volume) is None)


def test_a_failure_is_the_actions_and_not_the_servers(cloud, server, volume):
    cloud.drivers["h1"].fail("extend_volume", BROKEN)
    tell(cloud, server, volume)
    cloud.actions_end(server)
    assert shown(cloud, server) == [[("compute_extend_volume", "Error")]]
    found = cloud.get(server)
    assert (found.vm_state, found.task_state, found.fault) == (states.ACTIVE, None, None)
    assert cloud.device(server, volume).size == 3       # its next start shows it


# what may be lost ---------------------------------------------------------------------------------------------------------
def test_a_lost_message_is_no_lost_extension(cloud, server, volume, monkeypatch):
    monkeypatch.setattr(cloud.services.compute.wakeups, "send", lambda *_message: None)
    tell(cloud, server, volume)
    assert extended(cloud, "h1") == 0
    cloud.report("h1")
    cloud.actions_end(server)
    assert (shown(cloud, server), extended(cloud, "h1")) == ([DONE], 1)


def test_a_host_that_was_down_does_it_when_it_is_back(cloud, server, volume):
    cloud.end_host("h1")
    tell(cloud, server, volume)
    cloud.silence("h1")
    cloud.expire()
    cloud.sweep()
    assert shown(cloud, server) == [[]]
    cloud.add_meddled_host("h1")
    cloud.report("h1")
    cloud.actions_end(server)
    assert (shown(cloud, server), cloud.device(server, volume).size) == ([DONE], 3)


@pytest.mark.parametrize(("part", "method"), [("volumes", "get"), ("driver", "extend_volume")])
def test_a_host_that_dies_over_it_does_it_again(cloud, server, volume, part, method):
    meddled = {"volumes": cloud.host_volumes, "driver": cloud.drivers}[part]["h1"]
    meddled.fail(method, DIED, "after")
    tell(cloud, server, volume)
    cloud.wait_for(lambda: not meddled.rules[method][2] and not cloud.hosts["h1"].leases.in_flight())
    assert cloud.last_action(server)["row"].state == "running"
    cloud.expire()
    cloud.sweep()
    cloud.actions_end(server)
    assert (shown(cloud, server), cloud.device(server, volume).size) == ([DONE], 3)


def _asked_in_vain(cloud, server, left):
    """Cinder will not answer ``left`` times more; the host has let go."""
    cloud.wait_for(lambda: cloud.host_volumes["h1"].rules["get"][2] == left and not cloud.hosts["h1"].leases.in_flight())
    assert cloud.last_action(server)["row"].state == "pending"


@pytest.mark.parametrize("task_state", [None, states.IMAGE_UPLOADING])
def test_while_cinder_is_away_it_waits_and_holds_up_nothing(cloud, server, volume, task_state):
    cloud.host_volumes["h1"].fail("get", DOWN, times=5)
    cloud.set(server, task_state=task_state)
    tell(cloud, server, volume)
    for asked in range(1, 6):       # more often than a worker may die over it
        _asked_in_vain(cloud, server, 5 - asked)
        cloud.report("h1")
    cloud.actions_end(server)
    assert (shown(cloud, server), extended(cloud, "h1"), cloud.device(server, volume).size) == ([DONE], 1, 3)


def test_a_guest_is_stopped_while_cinder_is_away(cloud, server, volume):
    cloud.host_volumes["h1"].fail("get", DOWN)
    tell(cloud, server, volume)
    _asked_in_vain(cloud, server, 0)
    cloud.operate(server, "stop")
    cloud.wait(server, states.STOPPED)
    cloud.report("h1")
    cloud.actions_end(server)
    assert (shown(cloud, server), cloud.device(server, volume).size) == ([DONE], 3)


def test_a_volume_that_cinder_does_not_know_any_more_ends_it(cloud, server, volume):
    cloud.host_volumes["h1"].fail("get", exception.VolumeNotFound(volume_id=volume))
    tell(cloud, server, volume)
    cloud.actions_end(server)
    assert shown(cloud, server) == [[("compute_extend_volume", "Error")]]


# a guest that is on its way -----------------------------------------------------------------------------------------------
def _grown(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    grow(cloud, volume, 3)
    old = cloud.get(server).host
    return server, volume, old, {"h1": "h2", "h2": "h1"}[old]


@pytest.mark.parametrize(("body", "held_in", "ends"), [
    ({"migrate": None}, "finish_move", states.RESIZED),
    ({"os-migrateLive": {"host": None, "block_migration": "auto"}}, "live_migration", states.ACTIVE)])
def test_a_guest_that_moves_sees_it_where_it_comes_to(two, monkeypatch, body, held_in, ends):
    cloud = two
    server, volume, old, new = _grown(cloud)
    held, go_on = cloud.hold(monkeypatch, held_in)
    cloud.admin.post(f"/servers/{server}/action", body, 202)
    assert held.wait(10)
    tell(cloud, server, volume)
    cloud.report(old)       # it knows of it, and waits
    go_on.set()
    cloud.wait(server, ends)
    cloud.report(old)
    cloud.actions_end(server)
    assert (extended(cloud, old), extended(cloud, new)) == (0, 1)
    assert (shown(cloud, server), cloud.device(server, volume).size) == ([DONE], 3)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_evacuated_guest_sees_it_at_its_new_host(two, monkeypatch, when):
    cloud = two
    server, volume, old, new = _grown(cloud)
    cloud.end_host(old)
    cloud.silence(old)
    held, go_on = cloud.hold(monkeypatch, "spawn")
    if when == "before":
        tell(cloud, server, volume)
    cloud.admin.at("2.14").ask("POST", f"/servers/{server}/action", {"evacuate": {}}, 200)
    assert held.wait(10)
    if when == "meanwhile":
        tell(cloud, server, volume)
    with cloud.db.read() as conn:
        [waits] = [a for a in actions.open_of_instances(conn, [server])[server] if a.verb == "extend_volume"]
    cloud.expire(waits.id)
    cloud.sweep()
    assert extended(cloud, new) == 0
    go_on.set()
    cloud.wait(server, states.ACTIVE)
    cloud.expire(waits.id)
    cloud.sweep()
    cloud.actions_end(server)
    assert (shown(cloud, server), extended(cloud, new), cloud.device(server, volume).size) == ([DONE], 1, 3)


@pytest.mark.parametrize("verb", [name for name, row in operations.VERBS.items() if row.takes_guest_away])
def test_it_keeps_no_guest_where_it_is(cloud, server, volume, verb):
    cloud.services.compute.clock = FastClock(skips=3600.0)
    cloud.begin(server, "extend_volume", {"volume_id": volume})
    cloud.set(server, vm_state=operations.VERBS[verb].vm_states[0])
    cloud.begin(server, verb)
    assert cloud.get(server).task_state == operations.VERBS[verb].task_state


def test_it_is_no_work_on_a_server_that_nobody_works_on(cloud, server, volume):
    """Both would wait for each other: the extension for the end of the move, and that for whoever has the action."""
    action_id = cloud.begin(server, "extend_volume", {"volume_id": volume})
    cloud.set(server, task_state=states.RESIZE_MIGRATING)
    cloud.report("h1")
    cloud.age(server)
    cloud.conductor.sweeper.settle_orphans()
    cloud.wait(server, states.ERROR)
    cloud.report("h1")
    cloud.wait_action(action_id, "done")
    assert extended(cloud, "h1") == 1
