"""A guest that goes on at the destination before all of it is there: nobody gives a half of it up, nor its disks."""
import json
import threading

import oslo_messaging as messaging
import pytest

from nova_lite import exception
from nova_lite.compute.api import evacuation
from nova_lite.context import admin_context
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.guest_moves import Progress
from nova_lite.virt.fake_live import MOVED_TO, FakeLiveMigrations
from nova_lite.virt.live import BROKEN, GIVE_UP, SPLIT, WHOLE
from tests.unit.compute.test_live_migrate import _begin, _die_during_the_copy, _hang_up, _is_at, _migrate, _move, _other


@pytest.fixture
def server(cloud):
    return cloud.active()


def _no_answer(*_):
    raise messaging.MessagingTimeout


@pytest.mark.parametrize("memory", [SPLIT, BROKEN])
def test_a_guest_in_two_halves_is_given_up_by_nobody(cloud, server, monkeypatch, memory):
    """Whatever the source stumbled over, and though an abort was asked for: the copy goes on, until it is in one piece."""
    whole, copy, halves = FakeLiveMigrations.post_copy, FakeLiveMigrations.copy, []

    def stumble(live, instance, plan, report, waits):
        if len(halves) == 3:
            monkeypatch.setattr(FakeLiveMigrations, "post_copy", whole)
            return copy(live, instance, plan, lambda progress: report(progress) and None, waits)
        halves.append(memory)
        monkeypatch.setattr(FakeLiveMigrations, "post_copy", lambda *_: memory)
        cloud.db.write(lambda conn: actions.set_arguments(conn, action_id, {
            **actions.get(conn, action_id).arguments, "wanted": "abort"}))
        raise exception.VirtDriverError(what="libvirt", reason="it went away")
    monkeypatch.setattr(FakeLiveMigrations, "copy", stumble)
    gave_up = _noted(monkeypatch, "give_up", "stay")
    new = _other(cloud, server)
    action_id = _begin(cloud, server)
    cloud.rpc.run_action(admin_context(), [action_id])
    cloud.wait_action(action_id, objects.DONE)
    assert (len(halves), gave_up) == (3, [])
    _is_at(cloud, server, new)


def test_a_source_that_dies_with_half_of_the_guest_is_waited_for(make_cloud, tmp_path, monkeypatch):
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _die_during_the_copy(cloud, server)
    monkeypatch.setattr(FakeLiveMigrations, "post_copy", lambda *_: BROKEN)
    gave_up = _noted(monkeypatch, "give_up", "stay")
    cloud.silence(old)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_for(lambda: (cloud.action(action_id).host, cloud.action(action_id).step) == (old, "mend"))
    cloud.expire(action_id)
    cloud.sweep()
    assert (cloud.action(action_id).host, cloud.action(action_id).step) == (old, "mend")
    assert cloud.get(server).task_state == states.MIGRATING
    cloud.add_host(old)
    cloud.wait_action(action_id, objects.DONE)
    assert gave_up == []
    _is_at(cloud, server, new)


@pytest.mark.parametrize("step", ["copy", "mend"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_source_that_lost_power_before_it_wrote_the_switch_down_takes_no_half_away(
        make_cloud, tmp_path, monkeypatch, step, shared):
    """It takes what it has for the whole guest, that does not run. What was written since is on the destination's disks."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _die_during_the_copy(cloud, server)
    live = cloud.hosts[new].host.driver.live
    monkeypatch.setattr(FakeLiveMigrations, "post_copy", lambda asked, _server: BROKEN if asked is live else WHOLE)
    monkeypatch.setattr(FakeLiveMigrations, "arrive", _is_not_here)
    monkeypatch.setattr(FakeLiveMigrations, "copy", _is_not_here)       # a guest that is off cannot be copied
    touched = _noted(monkeypatch, "prepare", "give_up", "stay")
    mark = {} if shared else {f"{server}{MOVED_TO}": {}}
    (tmp_path / f"guests.{old}").write_text(json.dumps({server: {"power_state": states.SHUTDOWN, "name": "s0"}, **mark}))
    if step == "mend":
        cloud.silence(old)
        cloud.expire(action_id)
        cloud.sweep()
        cloud.wait_for(lambda: (cloud.action(action_id).host, cloud.action(action_id).step) == (old, "mend"))
    cloud.add_host(old)
    cloud.wait_action(action_id, objects.ERROR)
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state, touched) == (new, states.ERROR, None, [])
    assert "the old one has lost the rest" in found.fault["message"]
    cloud.operate(server, "reboot_hard")
    cloud.wait(server, states.ACTIVE)
    cloud.sync(old)
    cloud.wait_for(lambda: not cloud.guests(old))
    _is_at(cloud, server, new)


@pytest.mark.parametrize("end", ["force_down", "silence"])
@pytest.mark.parametrize("comes", [False, True])
def test_a_source_that_will_not_come_back_is_not_waited_for(make_cloud, tmp_path, monkeypatch, end, comes):
    """What there is of the guest is the destination's: its disks, or all of it after all. The source keeps nothing."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _die_during_the_copy(cloud, server)
    monkeypatch.setattr(FakeLiveMigrations, "post_copy", lambda *_: BROKEN)
    if not comes:
        monkeypatch.setattr(FakeLiveMigrations, "arrive", _is_not_here)
    cloud.silence(old)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_for(lambda: (cloud.action(action_id).host, cloud.action(action_id).step) == (old, "mend"))
    cloud.force_down(old) if end == "force_down" else cloud.silence(old, hours=3)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.DONE if comes else objects.ERROR)
    if not comes:
        found = cloud.get(server)
        assert (found.host, found.vm_state, found.task_state, _move(cloud).status) == (new, states.ERROR, None, "error")
        assert "the old one, which has the rest, does not come back" in found.fault["message"]
        cloud.operate(server, "reboot_hard")
        cloud.wait(server, states.ACTIVE)
    cloud.add_host(old)
    cloud.wait_for(lambda: not cloud.guests(old))
    _is_at(cloud, server, new)


@pytest.mark.parametrize("fenced", ["before", "after"])
def test_a_destination_that_will_not_come_back_is_not_waited_for(make_cloud, tmp_path, monkeypatch, fenced):
    """Once an admin has declared it down, or after a limit of the hypervisor's. The server can be evacuated; what the old
    destination still has of it goes when it is back."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new, split = cloud.get(server).host, _other(cloud, server), threading.Event()

    def in_halves(live, instance, plan, report, waits):
        report(Progress(post_copy=True))
        split.set()
        if fenced == "before":
            cloud.wait_for(lambda: report(Progress(post_copy=True)) == GIVE_UP)
        else:
            cloud.wait_for(lambda: new not in cloud.hosts)
        live._keep(instance.uuid, None)
        return "the other half does not answer"
    monkeypatch.setattr(FakeLiveMigrations, "copy", in_halves)
    action_id = _migrate(cloud, server)
    assert split.wait(60)
    cloud.end_host(new)
    cloud.force_down(new) if fenced == "before" else cloud.silence(new)
    cloud.wait_for(lambda: (cloud.action(action_id).host, cloud.action(action_id).step) == (new, "finish"))
    cloud.expire(action_id)
    cloud.sweep()
    found = cloud.get(server)
    assert (cloud.action(action_id).state, found.host, found.vm_state, found.task_state, _move(cloud).status) == (
        objects.ERROR, new, states.ERROR, None, "error")
    assert "the other half does not answer" in found.fault["message"]
    assert (cloud.guests(old), cloud.claimed()) == ({}, {new: {server}})
    cloud.operate(server, evacuation.VERB, {"host": None, "force": False, "stopped": False})
    cloud.wait(server, states.ACTIVE)
    cloud.add_host(new)
    cloud.wait_for(lambda: not cloud.guests(new))
    _is_at(cloud, server, old)


def test_a_guest_in_two_halves_can_be_deleted(cloud, server, monkeypatch):
    """Though an abort is not heard, and was asked for before."""
    heard = []

    def in_halves(live, instance, plan, report, waits):
        cloud.wait_for(lambda: heard.append(report(Progress(post_copy=True))) or heard[-1] == GIVE_UP)
        live._keep(instance.uuid, None)
        return "it is being deleted"
    monkeypatch.setattr(FakeLiveMigrations, "copy", in_halves)
    action_id = _migrate(cloud, server)
    cloud.wait_for(lambda: heard)
    cloud.db.write(lambda conn: actions.set_arguments(conn, action_id, {
        **actions.get(conn, action_id).arguments, "wanted": "abort"}))
    cloud.wait_for(lambda: "abort" in heard)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    cloud.wait_for(lambda: cloud.action(action_id).state == objects.ERROR)
    assert [dict(cloud.guests(h)) for h in cloud.hosts] == [{}, {}]
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {}


def test_the_ports_follow_as_soon_as_the_guest_goes_on_elsewhere(cloud, server, monkeypatch):
    moved, copy, old = [], FakeLiveMigrations.copy, cloud.get(server).host
    monkeypatch.setattr(cloud.hosts[old].host.network, "move", lambda _context, _instance, host: moved.append(host))

    def in_halves(live, instance, plan, report, waits):
        for _ in range(3):
            report(Progress(post_copy=True))
        assert moved == [new]
        copy(live, instance, plan, report, waits)
    monkeypatch.setattr(FakeLiveMigrations, "copy", in_halves)
    new = _other(cloud, server)
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert moved == [new, new]      # and once more when it has left
    _is_at(cloud, server, new)


def test_the_destination_is_asked_whether_it_waits_for_the_rest(cloud, server, monkeypatch):
    """Who does not answer is taken to wait."""
    copy, answers = FakeLiveMigrations.copy, [True, False, exception.VirtDriverError(what="libvirt", reason="it is away")]
    new, asked, heard = _other(cloud, server), [], []

    def here(live, instance):
        asked.append(live is cloud.hosts[new].host.driver.live and instance.uuid)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def broken(live, instance, plan, report, waits):
        heard.extend(waits() for _ in answers)
        monkeypatch.setattr(cloud.conductor.compute, "waits_for_rest", _no_answer)
        heard.append(waits())
        copy(live, instance, plan, report, waits)
    monkeypatch.setattr(FakeLiveMigrations, "waits", here)
    monkeypatch.setattr(FakeLiveMigrations, "copy", broken)
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert (asked, heard) == ([server] * 3, [True, False, True, True])
    _is_at(cloud, server, new)


def test_the_destination_keeps_the_disks_of_half_a_guest_that_has_died(cloud, server, monkeypatch):
    """The source stumbles over something else at the same time."""
    copy, called, new = FakeLiveMigrations.copy, [], _other(cloud, server)

    def stumble(live, instance, plan, report, waits):
        called.append(instance.uuid)
        if len(called) == 1:
            report(Progress(post_copy=True))
            raise exception.VirtDriverError(what="libvirt", reason="it went away")
        copy(live, instance, plan, report, waits)
    monkeypatch.setattr(FakeLiveMigrations, "copy", stumble)
    gave_up = _noted(monkeypatch, "give_up", "stay")
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert (len(called), gave_up) == (2, [])
    _is_at(cloud, server, new)


def test_both_halves_die(make_cloud, tmp_path, monkeypatch):
    """The server is where its disks are, and a hard reboot boots it."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new, go_on = cloud.get(server).host, _other(cloud, server), threading.Event()

    def in_halves(live, instance, plan, report, waits):
        report(Progress(post_copy=True))
        assert go_on.wait(120)
        report(Progress(post_copy=True))

    monkeypatch.setattr(FakeLiveMigrations, "copy", in_halves)
    monkeypatch.setattr(FakeLiveMigrations, "arrive", _is_not_here)
    gave_up = _noted(monkeypatch, "give_up", "stay")
    action_id = _migrate(cloud, server)
    cloud.wait_for(lambda: cloud.action(action_id).host == old and _move(cloud).went_on)
    cloud.hosts[old].conductor.migration_update = _hang_up
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts[old].leases.in_flight())
    cloud.end_host(old)
    cloud.silence(old)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    assert (cloud.get(server).host, cloud.get(server).vm_state, gave_up) == (new, states.ERROR, [])
    cloud.operate(server, "reboot_hard")
    cloud.wait(server, states.ACTIVE)
    assert cloud.guests(new) == {server: states.RUNNING}


def _is_not_here(*_):
    raise exception.VirtDriverError(what="libvirt", reason="it did not come")


def _noted(monkeypatch, *names):
    """The calls of these methods of the driver, which do nothing now."""
    calls = []
    for name in names:
        monkeypatch.setattr(FakeLiveMigrations, name, lambda *_, name=name: calls.append(name))
    return calls
