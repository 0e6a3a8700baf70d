"""Live migration between two fake hosts: where server, guest and room are, whatever happens on the way."""
import dataclasses
import datetime
import json
import threading
import time
from functools import partial

import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.compute import volumes
from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, models, moves, services
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.network import VIF
from nova_lite.virt.fake_live import FakeLiveMigrations


@pytest.fixture
def server(cloud):
    return cloud.active()


def _begin(cloud, server, **arguments):
    context = RequestContext(user_id="u", project_id="p", overwrite=False)
    asked = {"host": None, "block_migration": None, "disk_over_commit": None, "force": False, **arguments}
    return cloud.db.write(api._begin, context, server, "live_migrate", asked, cloud.conf.conductor.lease_seconds)[0]


def _migrate(cloud, server, **arguments):
    action_id = _begin(cloud, server, **arguments)
    cloud.rpc.run_action(admin_context(), [action_id])
    return action_id


def _move(cloud):
    with cloud.db.read() as conn:
        return moves.list_all(conn)[0]


def _other(cloud, server):
    return next(h for h in cloud.hosts if h != cloud.get(server).host)


def _is_at(cloud, server, host):
    """Server, guest and room are at one host, and nothing of it elsewhere."""
    found = cloud.get(server)
    assert (found.host, found.node, found.vm_state, found.task_state) == (host, host, states.ACTIVE, None)
    assert {name: dict(cloud.guests(name)) for name in cloud.hosts} == {
        name: {server: states.RUNNING} if name == host else {} for name in cloud.hosts}
    assert cloud.claimed() == {host: {server}}


def test_a_wrong_clock_of_the_conductor_makes_no_host_dead(cloud, server, monkeypatch):
    new, now, looked = _other(cloud, server), units.utcnow, services.is_up

    def look_with_a_wrong_clock(*arguments):
        with monkeypatch.context() as patch:        # only here: on SQLite all others' are the same clock
            patch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(hours=1))
            return looked(*arguments)
    monkeypatch.setattr(services, "is_up", look_with_a_wrong_clock)
    cloud.wait_action(_migrate(cloud, server, host=new), objects.DONE)
    _is_at(cloud, server, new)


@pytest.mark.parametrize("named", [True, False])
def test_server_guest_and_room_move_together(cloud, server, named):
    old, new = cloud.get(server).host, _other(cloud, server)
    cloud.set(server, availability_zone="of-the-old-host")
    action_id = _migrate(cloud, server, host=new if named else None)
    cloud.wait_action(action_id, objects.DONE)
    _is_at(cloud, server, new)
    assert cloud.get(server).availability_zone == "nova"
    move = _move(cloud)
    assert (move.migration_type, move.status, move.source_compute, move.dest_compute) == (
        "live-migration", "completed", old, new)
    assert move.memory_total == move.memory_processed > 0 == move.memory_remaining
    with cloud.db.read() as conn:
        events = [e["event"] for e in reversed(actions.events_of(conn, action_id))]
    assert set(events) == {"conductor_live_migrate_instance", "compute_pre_live_migration", "compute_live_migration",
                           "compute_post_live_migration_at_destination"}


def test_a_paused_guest_stays_paused(cloud, server):
    new = _other(cloud, server)
    cloud.operate(server, "pause")
    cloud.wait(server, states.PAUSED)
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert cloud.get(server).vm_state == states.PAUSED
    assert cloud.guests(new) == {server: states.POWER_PAUSED}


@pytest.mark.parametrize(("rule", "status"), [
    ("check_live_migration", "error"), ("pre_live_migration", "error"), ("live_migration", "failed")])
def test_what_fails_leaves_the_guest_where_it_is(cloud, server, rule, status):
    old = cloud.get(server).host
    cloud.fail(rule)
    cloud.wait_action(_migrate(cloud, server, host=_other(cloud, server)), objects.ERROR)
    _is_at(cloud, server, old)
    assert _move(cloud).status == status
    cloud.fail()
    cloud.wait_action(_migrate(cloud, server), objects.DONE)


def test_the_reason_of_a_refusal_is_kept(cloud, server):
    action_id = _migrate(cloud, server, host=_other(cloud, server), block_migration=False)
    assert "fake hosts share nothing" in cloud.wait_action(action_id, objects.ERROR).arguments["error"]
    # and where no host is named, that of each that was asked
    action_id = _migrate(cloud, server, block_migration=False)
    assert f"{_other(cloud, server)}: " in cloud.wait_action(action_id, objects.ERROR).arguments["error"]
    _is_at(cloud, server, cloud.get(server).host)


def test_a_host_whose_hypervisor_does_not_answer_is_not_the_last_one(make_cloud, monkeypatch):
    cloud = make_cloud("h1", "h2", "h3")
    server, asked = cloud.active(), []
    old = cloud.get(server).host

    def answer(operation, _instance, host, act):
        if operation == "check_live_migration":
            asked.append(host)
            if len(asked) == 1 or not answers:
                raise exception.VirtDriverError(what="libvirt", reason="nobody listens")
        act(operation, _instance)
    for name, manager in cloud.hosts.items():
        monkeypatch.setattr(manager.host.driver.live, "_act",
                            partial(answer, host=name, act=manager.host.driver.live._act))
    answers = False
    told = cloud.wait_action(_migrate(cloud, server), objects.ERROR).arguments["error"]
    assert (sorted(asked), told.count("nobody listens")) == (sorted(set(cloud.hosts) - {old}), 2)
    _is_at(cloud, server, old)
    asked.clear()
    answers = True
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    _is_at(cloud, server, asked[1])


def test_a_host_that_has_not_the_network_is_not_the_last_one(make_cloud, monkeypatch):
    cloud = make_cloud("h1", "h2", "h3")
    server, calls = cloud.active(), []
    old = cloud.get(server).host

    def expect(_context, instance, host):
        calls.append(("expect", host))
        if calls[0] == ("expect", host) or not one_has:
            raise exception.VirtDriverError(what=f"Binding a port to host {host}", reason="no way to connect it there")
        return instance.network_info
    for manager in cloud.hosts.values():
        monkeypatch.setattr(manager.host.network, "expect", expect)
        monkeypatch.setattr(manager.host.network, "forget", lambda _context, _instance, host: calls.append(("forget", host)))
    one_has = False
    named = _other(cloud, server)
    told = cloud.wait_action(_migrate(cloud, server, host=named), objects.ERROR).arguments["error"]
    assert told.startswith("Migration pre-check error")
    assert f"Binding a port to host {named}" in told
    assert calls == [("expect", named), ("forget", named)]
    _is_at(cloud, server, old)
    assert _move(cloud).dest_compute in (None, "")      # it was refused before anything was prepared
    calls.clear()
    one_has = True
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert calls[:4] == [(call, host) for host in (calls[0][1], calls[2][1]) for call in ("expect", "forget")]
    _is_at(cloud, server, calls[2][1])


@pytest.mark.parametrize("named", [True, False])
def test_the_source_hears_of_a_refusal(cloud, server, monkeypatch, named):
    """It removes what it has written for the check."""
    told = []
    monkeypatch.setattr(FakeLiveMigrations, "forget", lambda _self, *what: told.append(what))
    facts = FakeLiveMigrations.facts
    monkeypatch.setattr(FakeLiveMigrations, "facts", lambda self, one: dataclasses.replace(facts(self, one), token="t"))
    cloud.fail("check_live_migration")
    cloud.wait_action(_migrate(cloud, server, host=_other(cloud, server) if named else None), objects.ERROR)
    cloud.wait_for(lambda: told == [(server, "t")])
    cloud.fail()
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert told == [(server, "t")]


def test_a_guest_that_does_not_run_is_refused(cloud, server):
    cloud.set(server, power_state=states.SHUTDOWN)
    action_id = _migrate(cloud, server)
    assert "power_state" in cloud.wait_action(action_id, objects.ERROR).arguments["error"]
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == (states.ACTIVE, None)


def _running(cloud, server):
    """A copy that takes its time, and the id of its action."""
    cloud.delay(0.2)
    action_id = _migrate(cloud, server)
    cloud.wait_for(lambda: cloud.action(action_id).arguments.get("migration_id")
                   and _move(cloud).status == "running" and _move(cloud).memory_processed)
    return action_id


def _want(cloud, action_id, what):
    def write(conn):
        [action] = actions.lock(conn, [action_id]).values()
        actions.set_arguments(conn, action_id, {**action.arguments, "wanted": what})
    cloud.db.write(write)


def test_an_abort_ends_the_copy(cloud, server):
    old = cloud.get(server).host
    action_id = _running(cloud, server)
    _want(cloud, action_id, "abort")
    cloud.wait_action(action_id, objects.ERROR)
    _is_at(cloud, server, old)
    assert _move(cloud).status == "cancelled"


def test_one_guest_leaves_at_a_time_and_who_waits_can_be_aborted(cloud, monkeypatch):
    servers = [cloud.active(requested_destination={"host": "h1", "node": None, "force": True}) for _ in range(3)]
    held, go_on = cloud.hold(monkeypatch, "live_migration")
    done = []
    for server in servers:
        cloud.set(server, requested_destination=None)
        done.append(_migrate(cloud, server))
        cloud.wait_for(held.is_set)     # the first one has begun
    cloud.wait_for(lambda: cloud.action(done[1]).step == "copy")
    _want(cloud, done[1], "abort")
    cloud.wait_action(done[1], objects.ERROR)
    assert (cloud.get(servers[1]).host, cloud.get(servers[1]).vm_state) == ("h1", states.ACTIVE)
    cloud.wait_for(lambda: cloud.action(done[2]).owner == cloud.hosts["h1"].leases.owner)
    cloud.hosts["h1"].host.stopping.set()       # the first one is brought to its end, the third one not begun
    go_on.set()
    cloud.wait_action(done[0], objects.DONE)
    assert cloud.get(servers[0]).host == "h2"
    cloud.end_host("h1")
    assert (cloud.get(servers[2]).host, cloud.action(done[2]).step) == ("h1", "copy")


def test_an_abort_ends_preparations_that_stand_still(cloud, server, monkeypatch):
    old, preparing = cloud.get(server).host, threading.Event()

    def prepare(_instance, _vifs, _plan, _offer, _fetch, check):
        preparing.set()
        while True:
            check()
            time.sleep(0.05)
    monkeypatch.setattr(cloud.hosts[_other(cloud, server)].host.driver.live, "prepare", prepare)
    action_id = _migrate(cloud, server)
    assert preparing.wait(60)
    _want(cloud, action_id, "abort")
    cloud.wait_action(action_id, objects.ERROR)
    _is_at(cloud, server, old)
    assert _move(cloud).status == "cancelled"


def test_a_delete_ends_the_copy_and_takes_all(cloud, server):
    action_id = _running(cloud, server)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    cloud.wait_for(lambda: cloud.action(action_id).state == objects.ERROR)
    cloud.delay(0.0)
    assert [dict(cloud.guests(h)) for h in cloud.hosts] == [{}, {}]
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {}


def test_a_delete_that_begins_when_the_guest_has_gone_over_takes_it_there(cloud, server, monkeypatch):
    """At once, not when its new host looks at its guests: its ports and volumes are given back."""
    old, new = cloud.get(server).host, _other(cloud, server)
    real = FakeLiveMigrations.copy

    def copy(live, *given):
        real(live, *given)
        cloud.hosts[new].host.driver._set(server, {"power_state": states.RUNNING, "name": "s0"})
        cloud.operate(server, "delete")
    monkeypatch.setattr(FakeLiveMigrations, "copy", copy)
    action_id = _migrate(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).deleted)
    assert cloud.action(action_id).state == objects.ERROR
    cloud.wait_for(lambda: (cloud.guests(old), cloud.guests(new)) == ({}, {}), timeout=10)


@pytest.mark.parametrize("failing", ["leave", "move", "unplug", "disconnect_all"])
def test_a_source_that_cannot_clean_up_leaves_the_guest_where_it_went(cloud, server, monkeypatch, failing):
    cloud.set(server, network_info=[VIF("port", "net", "net", "fa:16:3e:00:00:01", "bridge").to_primitive()])
    old, new = cloud.get(server).host, _other(cloud, server)
    source, failed = cloud.hosts[old].host, []

    def away(*_arguments):
        failed.append(failing)
        raise exception.VirtDriverError(what="libvirt", reason="went away")
    place = {"leave": source.driver.live, "disconnect_all": volumes}.get(failing, source.network)
    with monkeypatch.context() as patched:
        patched.setattr(place, failing, away)
        cloud.wait_action(_migrate(cloud, server, host=new), objects.DONE)
    assert failed
    for name in (old, new):
        cloud.sync(name)
    _is_at(cloud, server, new)
    assert _move(cloud).status == "completed"


def test_the_source_ends_its_guest_before_the_ports_are_bound_to_the_destination(cloud, server, monkeypatch):
    cloud.set(server, network_info=[VIF("port", "net", "net", "fa:16:3e:00:00:01", "bridge").to_primitive()])
    old, new = cloud.get(server).host, _other(cloud, server)
    source, seen = cloud.hosts[old].host, []
    leave, move = source.driver.live.leave, source.network.move
    monkeypatch.setattr(source.driver.live, "leave", lambda *arguments: (seen.append("leave"), leave(*arguments))[1])
    monkeypatch.setattr(source.network, "move", lambda *arguments: (seen.append("move"), move(*arguments))[1])
    cloud.wait_action(_migrate(cloud, server, host=new), objects.DONE)
    assert seen[:2] == ["leave", "move"]
    _is_at(cloud, server, new)


def test_a_source_that_is_killed_after_the_switch_goes_on(cloud, server, monkeypatch):
    old, new = cloud.get(server).host, _other(cloud, server)
    killed = []

    def dies(*_arguments):
        if not killed:
            killed.append(cloud.get(server).host)
            raise exception.LeaseLost(action_id=1, owner="killed")
    monkeypatch.setattr(cloud.hosts[old].host.driver.live, "leave", dies)
    action_id = _migrate(cloud, server, host=new)
    cloud.wait_for(lambda: killed and not cloud.hosts[old].leases.in_flight())
    assert killed == [new]
    cloud.sync(old)
    cloud.sync(new)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.DONE)
    _is_at(cloud, server, new)


@pytest.mark.parametrize("then", [None, "stop"])
def test_a_state_that_is_reset_during_the_copy_does_not_bring_the_guest_back(cloud, server, then):
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _running(cloud, server)
    cloud.set(server, vm_state=states.ACTIVE, task_state=None)
    if then is not None:
        stopped = cloud.begin(server, then)
    cloud.wait_for(lambda: cloud.action(action_id).state in (objects.DONE, objects.ERROR))
    cloud.delay(0.0)
    assert (cloud.action(action_id).state, cloud.get(server).host) == (objects.DONE, new)
    if then is None:
        cloud.sync(old)
        cloud.sync(new)
        _is_at(cloud, server, new)
    else:
        assert cloud.action(stopped).state == objects.PENDING
        assert cloud.guests(new) == {server: states.RUNNING}
    assert cloud.claimed() == {new: {server}}


@pytest.mark.parametrize("verb", ["reboot_hard", "rebuild"])
def test_what_was_begun_at_the_source_meanwhile_is_done_where_the_guest_went(cloud, server, verb):
    """Declared idle by os-resetState the server takes it, and it waits for the end of the copy: its guest would run twice."""
    new = _other(cloud, server)
    action_id = _running(cloud, server)
    cloud.set(server, vm_state=states.ACTIVE, task_state=None)
    begun = cloud.operate(server, verb)
    cloud.delay(0.0)
    cloud.wait_action(action_id, objects.DONE)
    cloud.wait_for(lambda: cloud.action(begun).state in (objects.DONE, objects.ERROR))
    assert (cloud.action(begun).state, cloud.action(begun).host) == (objects.DONE, new)
    _is_at(cloud, server, new)


def test_a_lost_message_is_found_by_the_sweeper(cloud, server):
    new = _other(cloud, server)
    action_id = _begin(cloud, server)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.DONE)
    _is_at(cloud, server, new)


@pytest.mark.parametrize("dead", ["source", "destination"])
def test_a_host_that_dies_during_the_copy(make_cloud, tmp_path, monkeypatch, dead):
    """The source settles it, at once or when it comes back."""
    stayed = []
    monkeypatch.setattr(FakeLiveMigrations, "stay", lambda _self, instance, _plan: stayed.append(instance.uuid))
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _begin(cloud, server, host=new)
    lost = old if dead == "source" else new
    with cloud.db.read() as conn:
        assert not moves.list_all(conn)
    # the host is gone when it gets the slot
    cloud.end_host(lost) if dead == "source" else None
    step = {"source": ("copy", old), "destination": ("prepare", new)}[dead]

    def at_step(conn):
        move = moves.create(conn, cloud.get(server), "live-migration", "running", dest_compute=new, dest_node=new,
                            facts={"plan": {"power_state": 1}})
        from nova_lite.db import claims
        claims.rename(conn, server, move.uuid)
        arguments = {**actions.get(conn, action_id).arguments, "migration_id": move.id}
        actions.hand_over(conn, [action_id], 0, objects.COMPUTE, step[1], arguments, step[0])
    if dead == "destination":
        cloud.end_host(new)
    cloud.db.write(at_step)
    cloud.silence(lost)
    cloud.expire(action_id)
    cloud.sweep()
    if dead == "source":        # only it can tidy up after what it began: that waits for it
        cloud.wait_for(lambda: (cloud.action(action_id).host, cloud.action(action_id).step) == (old, "settle"))
        assert (cloud.get(server).host, cloud.get(server).task_state, stayed) == (old, states.MIGRATING, [])
        cloud.add_host(lost)
    cloud.wait_action(action_id, objects.ERROR)
    assert stayed == [server]
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state) == (old, states.ACTIVE, None)
    assert _move(cloud).status == "error"
    if dead == "destination":
        cloud.add_host(lost)
    _is_at(cloud, server, old)


def test_a_daemon_that_is_started_anew_goes_on(make_cloud, tmp_path):
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    new = _other(cloud, server)
    action_id = _begin(cloud, server, host=new)
    cloud.end_host(new)
    cloud.run(sa.update(models.services).values(forced_down=False))
    cloud.rpc.run_action(admin_context(), [action_id])
    cloud.add_host(new)
    # it takes up what waits for it, at its start or at a report
    cloud.wait_for(lambda: cloud.report(new) or cloud.action(action_id).state == objects.DONE, 60)
    _is_at(cloud, server, new)


@pytest.mark.parametrize("power_state", [states.RUNNING, states.POWER_PAUSED])
def test_a_copy_that_ended_while_the_daemon_of_its_source_was_away(make_cloud, tmp_path, power_state):
    """The guest is at the destination only, and the source has the mark that it began to copy."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    if power_state == states.POWER_PAUSED:
        cloud.operate(server, "pause")
        cloud.wait(server, states.PAUSED)
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _die_during_the_copy(cloud, server)
    for name, guests in ((old, {f"{server}_moved_to": {}}), (new, {server: {"power_state": power_state, "name": "s0"}})):
        (tmp_path / f"guests.{name}").write_text(json.dumps(guests))
    cloud.end_host(new)
    for name in (new, old):
        cloud.add_host(name)
    cloud.wait_action(action_id, objects.DONE)
    assert (cloud.get(server).host, cloud.get(server).power_state, cloud.guests(old)) == (new, power_state, {})
    assert cloud.guests(new) == {server: power_state}
    with cloud.db.read() as conn:
        told = [e["event"] for e in actions.events_of(conn, action_id)]
    assert told.count("compute_pre_live_migration") == 1        # nobody prepared anew


def _hang_up(*_):
    raise exception.LeaseLost(action_id=0, owner="a daemon that is gone")


def _die_during_the_copy(cloud, server):
    """The source's daemon is gone in the middle, whatever it was about to tell; the action's id."""
    old = cloud.get(server).host
    cloud.delay(0.2)
    action_id = _migrate(cloud, server)
    cloud.wait_for(lambda: cloud.action(action_id).host == old and _move(cloud).memory_processed)
    cloud.hosts[old].conductor.migration_update = _hang_up
    cloud.wait_for(lambda: not cloud.hosts[old].leases.in_flight())
    assert cloud.action(action_id).step == "copy"
    cloud.end_host(old)
    cloud.delay(0.0)
    return action_id


@pytest.mark.parametrize("has_guest", [True, False])
def test_a_daemon_that_died_during_the_copy_has_the_destination_prepare_anew(make_cloud, tmp_path, has_guest):
    """But for one that has the guest: it is asked once."""
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    old, new = cloud.get(server).host, _other(cloud, server)
    action_id = _die_during_the_copy(cloud, server)
    if has_guest:
        cloud.end_host(new)
        (tmp_path / f"guests.{new}").write_text(json.dumps({server: {"power_state": states.RUNNING, "name": "s0"}}))
        cloud.add_host(new)
    cloud.add_host(old)
    cloud.wait_action(action_id, objects.DONE)
    _is_at(cloud, server, new)
    with cloud.db.read() as conn:
        assert [e["event"] for e in actions.events_of(conn, action_id)].count("compute_pre_live_migration") == 2
