"""Resize and cold migration on fake hosts: from the conductor's task to the user's word, and back from every failure."""
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import sqlalchemy as sa

from nova_lite import exception
from nova_lite.compute import moves as host_moves
from nova_lite.db import actions, models, moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.virt.fake import ASIDE

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)


def _resize(cloud, server, verb="resize", **arguments):
    given = {"flavor": BIGGER.to_primitive()} if verb == "resize" else {}
    return cloud.operate(server, verb, {**given, **arguments})


def _move(cloud, server):
    with cloud.db.read() as conn:
        return moves.list_all(conn, {"instance_uuid": server})[0]


def _confirm(cloud, server, verb="confirmResize"):
    move = _move(cloud, server)
    return cloud.operate(server, verb, {"migration_id": move.id},
                         host=move.source_compute if verb == "confirmResize" else None)


def _events(cloud, action_id):
    with cloud.db.read() as conn:
        return [(e["event"], e["result"]) for e in reversed(actions.events_of(conn, action_id))]


def _other(host):
    return {"h1": "h2", "h2": "h1"}[host]


@pytest.mark.parametrize("vm_state", [states.ACTIVE, states.STOPPED])
def test_a_resize_moves_the_server_and_its_claims_and_confirm_drops_the_old(cloud, vm_state):
    server = cloud.active()
    if vm_state == states.STOPPED:
        cloud.operate(server, "stop")
        cloud.wait(server, states.STOPPED)
    source = cloud.get(server).host
    action_id = _resize(cloud, server)
    found = cloud.wait(server, states.RESIZED)
    power = states.RUNNING if vm_state == states.ACTIVE else states.SHUTDOWN
    assert (found.host, found.node, found.power_state, found.flavor.flavorid) == (_other(source), _other(source), power, "2")
    assert (found.vcpus, found.memory_mb, found.flavor_ref) == (2, 2048, "2")
    assert cloud.guests(source) == {}
    assert cloud.guests(found.host) == {server: power}
    move = _move(cloud, server)
    assert (move.status, move.migration_type, move.dest_compute) == ("finished", "resize", found.host)
    cloud.conductor.reconciler.run()        # finds nothing to do
    assert cloud.holders() == {source: [(move.uuid, 1)], found.host: [(server, 2)]}
    assert cloud.wait_action(action_id, objects.DONE).message is None
    assert _events(cloud, action_id) == [(name, "Success") for name in (
        "cold_migrate", "compute_prep_resize", "compute_resize_instance", "compute_finish_resize")]
    cloud.sync(source)
    assert cloud.hosts[source].host.driver.left_behind() == {server}

    confirmed = _confirm(cloud, server)
    assert cloud.wait(server, vm_state).power_state == power
    cloud.wait_action(confirmed, objects.DONE)
    assert cloud.hosts[source].host.driver.left_behind() == set()
    assert cloud.holders() == {found.host: [(server, 2)]}
    assert _move(cloud, server).status == "confirmed"
    assert _events(cloud, confirmed) == [("compute_confirm_resize", "Success")]


@pytest.mark.parametrize("vm_state", [states.ACTIVE, states.STOPPED])
def test_revert_brings_everything_back(cloud, vm_state):
    server = cloud.active()
    if vm_state == states.STOPPED:
        cloud.operate(server, "stop")
        cloud.wait(server, states.STOPPED)
    before = cloud.get(server)
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    action_id = _confirm(cloud, server, "revertResize")
    after = cloud.wait(server, vm_state)
    for name in ("host", "node", "power_state", "flavor", "vcpus", "memory_mb", "root_gb", "availability_zone"):
        assert getattr(after, name) == getattr(before, name), name
    assert cloud.guests(dest) == {}
    assert cloud.guests(before.host) == {server: before.power_state}
    assert cloud.hosts[before.host].host.driver.left_behind() == set()
    assert cloud.holders() == {before.host: [(server, 1)]}
    assert _move(cloud, server).status == "reverted"
    assert _events(cloud, action_id) == [("compute_revert_resize", "Success"), ("compute_finish_revert_resize", "Success")]


def test_hosts_that_are_full_of_moves_to_each_other_go_on(cloud, monkeypatch):
    """Each has as many arrivals as threads, all of which wait for the other host to let a server go."""
    servers = [cloud.active(requested_destination={"host": host, "node": None, "force": True}) for host in cloud.hosts]
    both = threading.Barrier(2)
    for manager in cloud.hosts.values():
        for name in ("_pool", "_lasting"):
            monkeypatch.setattr(manager, name, ThreadPoolExecutor(1))
        driver = manager.host.driver
        monkeypatch.setattr(driver, "_act", partial(
            lambda asked, instance, act: (asked == "check_resize" and both.wait(60), act(asked, instance)), act=driver._act))
    for server in servers:
        cloud.set(server, requested_destination=None)
        _resize(cloud, server, "migrate")
    for server in servers:
        cloud.wait(server, states.RESIZED)
    assert [cloud.get(server).host for server in servers] == ["h2", "h1"]


def test_migrate_keeps_the_flavor_and_takes_the_host_that_was_asked_for(cloud):
    cloud.add_host("h3")
    server = cloud.active()
    source = cloud.get(server).host
    wanted = max({"h1", "h2", "h3"} - {source})
    _resize(cloud, server, "migrate", host=wanted)
    found = cloud.wait(server, states.RESIZED)
    assert (found.host, found.flavor.flavorid) == (wanted, "1")
    assert _move(cloud, server).migration_type == "migration"


def test_no_other_host_leaves_the_server_as_it_is(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    action_id = _resize(cloud, server)
    found = cloud.wait(server, states.ACTIVE)
    assert "No valid host" in found.fault["message"]
    assert (found.flavor.flavorid, found.vcpus) == ("1", 1)
    assert _move(cloud, server).status == "error"
    assert cloud.holders() == {"h1": [(server, 1)]}
    assert _events(cloud, action_id) == [("cold_migrate", "Error")]


def test_a_resize_on_the_same_host_where_the_option_allows_it(make_cloud):
    cloud = make_cloud("h1", compute__allow_resize_to_same_host=True)
    for word, flavor in (("confirmResize", "2"), ("revertResize", "1")):
        server = cloud.active()
        _resize(cloud, server)
        cloud.wait(server, states.RESIZED)
        assert cloud.guests("h1")[server] == states.RUNNING
        assert [vcpus for _, vcpus in cloud.holders()["h1"]].count(2) >= 1
        _confirm(cloud, server, word)
        assert cloud.wait(server, states.ACTIVE).flavor.flavorid == flavor
        assert cloud.guests("h1")[server] == states.RUNNING
        assert cloud.hosts["h1"].host.driver.left_behind() == set()


@pytest.mark.parametrize("step", ["check_resize", "set_aside", "offer_disks", "receive_guest", "finish_move"])
@pytest.mark.parametrize("vm_state", [states.ACTIVE, states.STOPPED])
def test_what_fails_on_the_way_ends_where_it_began(cloud, step, vm_state):
    server = cloud.active()
    if vm_state == states.STOPPED:
        cloud.operate(server, "stop")
        cloud.wait(server, states.STOPPED)
    before = cloud.get(server)
    cloud.fail(step)
    action_id = _resize(cloud, server)
    after = cloud.wait(server, vm_state)
    assert f"[fake] fail = {step}" in after.fault["message"]
    for name in ("host", "node", "power_state", "flavor", "vcpus", "memory_mb"):
        assert getattr(after, name) == getattr(before, name), name
    assert cloud.wait_action(action_id, objects.ERROR)
    assert ("Error") in dict(_events(cloud, action_id)).values()
    assert cloud.guests(before.host) == {server: before.power_state}
    assert cloud.guests(_other(before.host)) == {}
    assert cloud.hosts[before.host].host.driver.left_behind() == set()
    assert cloud.holders() == {before.host: [(server, 1)]}
    assert _move(cloud, server).status == "error"


def test_a_host_that_refuses_the_server_has_nothing_of_it_to_remove(cloud):
    server = cloud.active()
    cloud.fail("check_resize", "drop_received")
    _resize(cloud, server)
    found = cloud.wait(server, states.ACTIVE)
    assert "check_resize" in found.fault["message"]
    assert cloud.guests(found.host) == {server: states.RUNNING}


@pytest.mark.parametrize("step", ["set_aside", "receive_guest", "finish_move"])
def test_on_the_same_host_too(make_cloud, step):
    cloud = make_cloud("h1", compute__allow_resize_to_same_host=True)
    server = cloud.active()
    cloud.fail(step)
    _resize(cloud, server)
    assert step in cloud.wait(server, states.ACTIVE).fault["message"]
    assert cloud.guests("h1") == {server: states.RUNNING}
    assert cloud.hosts["h1"].host.driver.left_behind() == set()
    assert cloud.holders() == {"h1": [(server, 1)]}


def test_what_a_host_hands_over_to_itself_comes_before_its_worker_has_put_it_down(make_cloud, monkeypatch):
    cloud = make_cloud("h1", compute__allow_resize_to_same_host=True)
    server = cloud.active()
    leases = cloud.hosts["h1"].leases
    drop = leases.drop

    def slowly(action_ids):
        time.sleep(0.5)
        return drop(action_ids)

    monkeypatch.setattr(leases, "drop", slowly)
    cloud.fail("finish_move")
    _resize(cloud, server)
    assert "finish_move" in cloud.wait(server, states.ACTIVE).fault["message"]


def test_a_new_host_that_dies_before_the_end_gives_the_server_back(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    action_id = cloud.begin(server, "resize", {"flavor": BIGGER.to_primitive()})
    cloud.conductor.compute.wake = lambda *_: None      # the new host never hears of it
    cloud.rpc.run_action(cloud.context, [action_id])
    cloud.wait_for(lambda: cloud.action(action_id).host == _other(source))
    del cloud.conductor.compute.wake
    cloud.silence(_other(source))
    cloud.expire(action_id)
    cloud.sweep()
    found = cloud.wait(server, states.ACTIVE)
    assert "stopped reporting" in found.fault["message"]
    assert (found.host, found.vcpus) == (source, 1)
    assert cloud.guests(source) == {server: states.RUNNING}
    assert cloud.holders() == {source: [(server, 1)]}


def _stands_still(cloud, host, monkeypatch):
    """The host's driver copies disks that never come."""
    copying = threading.Event()

    def receive(_instance, _offer, _fetch, _move, check):
        copying.set()
        while True:
            check()
            time.sleep(0.05)
    monkeypatch.setattr(cloud.hosts[host].host.driver, "receive_guest", receive)
    return copying


def test_a_delete_ends_a_copy_that_stands_still(cloud, monkeypatch):
    server = cloud.active()
    copying = _stands_still(cloud, _other(cloud.get(server).host), monkeypatch)
    action_id = _resize(cloud, server)
    assert copying.wait(60)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    cloud.wait_action(action_id, objects.ERROR)
    assert (cloud.guests("h1"), cloud.guests("h2"), cloud.holders()) == ({}, {}, {})


def test_a_conductor_that_does_not_answer_once_ends_no_copy(cloud, monkeypatch):
    server = cloud.active()
    source = cloud.get(server).host
    copying = _stands_still(cloud, _other(source), monkeypatch)
    host, outages = cloud.hosts[_other(source)].host, []
    update = host.conductor.instance_update

    def unsteady(*arguments):
        if copying.is_set() and len(outages) < 3:
            outages.append(1)
            raise exception.ConductorAway(reason="no answer")
        return update(*arguments)
    monkeypatch.setattr(host.conductor, "instance_update", unsteady)
    _resize(cloud, server)
    cloud.wait_for(lambda: len(outages) == 3)
    assert cloud.get(server).task_state == states.RESIZE_MIGRATING
    [held] = cloud.hosts[_other(source)].leases.in_flight()
    cloud.run(sa.update(models.instance_actions).where(models.instance_actions.c.id == held).values(owner="another"))
    cloud.wait_for(lambda: not cloud.hosts[_other(source)].leases.in_flight())     # the lease is lost: that ends it


def test_a_new_host_that_may_run_the_guest_is_waited_for(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    cloud.delay(0.05)
    action_id = _resize(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).task_state == states.RESIZE_FINISH)
    cloud.end_host(_other(source))      # it ends what it does
    cloud.delay(0)
    found = cloud.get(server)
    if found.vm_state != states.RESIZED:
        cloud.silence(_other(source))
        cloud.expire(action_id)
        cloud.sweep()
        assert cloud.get(server).task_state == states.RESIZE_FINISH
        assert cloud.guests(source) == {}
    cloud.add_host(_other(source))


def test_a_dead_old_host_does_not_keep_a_confirmation_waiting(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    action_id = cloud.begin(server, "confirmResize", {"migration_id": _move(cloud, server).id}, host=source)
    cloud.silence(source)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.wait(server, states.ACTIVE).host == dest
    assert cloud.holders() == {dest: [(server, 2)]}
    # it comes back, and finds that what it kept is not wanted
    cloud.report(source)
    cloud.sync(source)
    cloud.wait_for(lambda: cloud.hosts[source].host.driver.left_behind() == set())


def test_a_server_deleted_before_its_confirmation_leaves_nothing(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    cloud.wait_for(lambda: not cloud.hosts[source].host.driver.left_behind())
    assert cloud.holders() == {}
    assert cloud.guests("h1") == cloud.guests("h2") == {}
    assert _move(cloud, server).status == "confirmed"


def test_a_server_deleted_on_its_way_leaves_nothing(cloud):
    server = cloud.active()
    cloud.delay(0.1)
    _resize(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).task_state == states.RESIZE_MIGRATING)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted, 10)
    cloud.delay(0)
    for host in ("h1", "h2"):
        cloud.wait_for(lambda h=host: not cloud.guests(h) and not cloud.hosts[h].host.driver.left_behind(), 10)
    assert cloud.holders() == {}
    assert _move(cloud, server).status == "error"


def test_what_nobody_spoke_about_is_confirmed_after_the_window(make_cloud):
    cloud = make_cloud("h1", "h2", compute__resize_confirm_window=1000)
    server = cloud.active()
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    cloud.conductor.confirmer.run()
    assert cloud.get(server).task_state is None
    cloud.age_moves(1001)
    cloud.conductor.confirmer.run()
    assert cloud.wait(server, states.ACTIVE).flavor.flavorid == "2"
    assert _move(cloud, server).status == "confirmed"


def test_old_moves_of_other_servers_keep_nobody_waiting(make_cloud):
    """They wait for no word any more: their server was declared active, or has moved again since."""
    cloud = make_cloud("h1", "h2", compute__resize_confirm_window=1000)
    idle, server = cloud.active(), cloud.active()

    def left(conn):
        for _ in range(60):
            moves.create(conn, cloud.get(idle), "resize", "finished")
            moves.create(conn, cloud.get(server), "migration", "finished")
    cloud.db.write(left)
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    cloud.age_moves(1001)
    newest = _move(cloud, server)
    cloud.conductor.confirmer.run()
    cloud.wait(server, states.ACTIVE)
    with cloud.db.read() as conn:
        assert moves.get(conn, newest.id).status == "confirmed"
        older = [m for m in moves.list_all(conn) if m.id != newest.id]
        assert {m.status for m in older if m.instance_uuid == idle} == {"finished"}
        assert {m.status for m in older if m.instance_uuid == server} == {"confirmed"}     # when the newest began


def test_who_lost_a_move_during_its_copy_binds_no_port(cloud, monkeypatch):
    server = cloud.active()
    host, bound, lost = cloud.hosts[_other(cloud.get(server).host)].host, [], []

    def slow(*_arguments):
        cloud.run(sa.update(models.instance_actions).values(owner="another"))
        lost.append(True)
    monkeypatch.setattr(host.driver, "receive_guest", slow)
    monkeypatch.setattr(host.network, "move", lambda *_arguments: bound.append(True) or [])
    _resize(cloud, server)
    cloud.wait_for(lambda: lost and not cloud.hosts[host.name].leases.in_flight())
    assert not bound


def test_a_confirmation_that_fails_can_be_asked_for_again(cloud):
    server = cloud.active()
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    cloud.fail("drop_aside")
    action_id = _confirm(cloud, server)
    cloud.wait_action(action_id, objects.ERROR)
    assert cloud.wait(server, states.RESIZED).fault is not None
    assert _move(cloud, server).status == "finished"
    cloud.fail()
    _confirm(cloud, server)
    assert cloud.wait(server, states.ACTIVE).fault is None


def test_reset_state_in_the_middle_gives_the_rooms_back(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    cloud.delay(0.1)
    _resize(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).task_state == states.RESIZE_MIGRATING)
    cloud.set(server, task_state=None)
    cloud.wait_for(lambda: _move(cloud, server).has_ended, 10)
    cloud.delay(0)
    cloud.wait(server, states.ACTIVE, 10)
    assert cloud.guests(source) == {server: states.RUNNING}
    assert cloud.holders() == {source: [(server, 1)]}
    assert ASIDE not in "".join(cloud.hosts[source].host.driver._guests)


def test_a_move_over_which_every_worker_dies_is_given_back(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    action_id = cloud.begin(server, "resize", {"flavor": BIGGER.to_primitive()})
    cloud.conductor.compute.wake = lambda *_: None
    cloud.rpc.run_action(cloud.context, [action_id])
    cloud.wait_for(lambda: cloud.action(action_id).host == _other(source))
    del cloud.conductor.compute.wake
    cloud.claim(action_id, _other(source), "a worker that dies")
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.expire(action_id)
    cloud.sweep()
    assert "workers died" in cloud.wait(server, states.ACTIVE).fault["message"]
    assert cloud.guests(source) == {server: states.RUNNING}
    assert cloud.holders() == {source: [(server, 1)]}


# a revert that does not come to its end -----------------------------------------------------------------------------------
def _broken_once(monkeypatch, target, name):
    """The next call of a function fails."""
    real = getattr(target, name)

    def fails(*arguments, **named):
        monkeypatch.setattr(target, name, real)
        raise exception.VirtDriverError(what="libvirt", reason="went away")
    monkeypatch.setattr(target, name, fails)


def test_a_revert_that_fails_before_the_files_go_can_be_confirmed(cloud, monkeypatch):
    server = cloud.active()
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    _broken_once(monkeypatch, host_moves.volumes, "disconnect_all")
    cloud.wait_action(_confirm(cloud, server, "revertResize"), objects.ERROR)
    assert cloud.get(server).vm_state == states.RESIZED
    assert cloud.guests(dest) == {server: states.SHUTDOWN}
    cloud.wait_action(_confirm(cloud, server), objects.DONE)
    assert cloud.wait(server, states.STOPPED).host == dest
    assert cloud.guests(dest) == {server: states.SHUTDOWN}


def test_an_error_between_the_steps_of_a_revert_is_told(cloud, monkeypatch):
    server = cloud.active()
    source = cloud.hosts[cloud.get(server).host].host
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    _broken_once(monkeypatch, source.conductor, "finish_action")
    action_id = _confirm(cloud, server, "revertResize")
    cloud.wait_action(action_id, objects.ERROR)
    assert _events(cloud, action_id) == [("compute_revert_resize", "Success"), ("compute_finish_revert_resize", "Success"),
                                         ("compute_revert_resize", "Error")]
    assert "went away" in cloud.get(server).fault["details"]


def test_one_that_fails_after_the_files_went_is_gone_on_with(cloud, monkeypatch):
    server = cloud.active()
    source = cloud.get(server).host
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    driver = cloud.hosts[dest].host.driver
    gone = driver.drop_received
    _broken_once(monkeypatch, driver, "drop_received")
    fails = driver.drop_received
    monkeypatch.setattr(driver, "drop_received", lambda *given: (gone(*given), fails(*given)))
    action_id = _confirm(cloud, server, "revertResize")
    cloud.wait_for(lambda: not cloud.guests(dest) and not cloud.hosts[dest].leases.in_flight())
    assert (cloud.action(action_id).state, cloud.get(server).task_state) == (objects.RUNNING, states.RESIZE_REVERTING)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.wait(server, states.ACTIVE).host == source
    assert cloud.guests(source) == {server: states.RUNNING}
    assert cloud.holders() == {source: [(server, 1)]}


@pytest.mark.parametrize("answers", [True, False])
def test_what_a_revert_may_need_is_not_confirmed_away(cloud, answers):
    """Every worker died over the revert, when the guest was gone."""
    server = cloud.active()
    source = cloud.get(server).host
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    move = _move(cloud, server)
    action_id = cloud.begin(server, "revertResize", {"migration_id": move.id})
    cloud.claim(action_id, dest, "a worker that dies")
    cloud.db.write(moves.update, move.id, {"facts": {**move.facts, "revert_begun": True}})
    cloud.hosts[dest].host.driver._set(server, None)
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.expire(action_id)
    cloud.sweep()
    assert "workers died" in cloud.wait(server, states.RESIZED).fault["message"]
    assert _move(cloud, server).status == "finished"
    if not answers:     # a host that is down confirms nothing either
        confirmed = cloud.begin(server, "confirmResize", {"migration_id": move.id}, host=source)
        cloud.silence(source)
        cloud.expire(confirmed)
        cloud.sweep()
        assert cloud.get(server).task_state == states.RESIZE_CONFIRMING
        cloud.report(source)
    else:
        confirmed = _confirm(cloud, server)
    cloud.wait_action(confirmed, objects.ERROR)
    assert "can only be reverted" in cloud.wait(server, states.RESIZED).fault["message"]
    assert cloud.hosts[source].host.driver.left_behind() == {server}
    _confirm(cloud, server, "revertResize")
    assert cloud.wait(server, states.ACTIVE).host == source
    assert cloud.guests(source) == {server: states.RUNNING}


def test_a_revert_to_nothing_leaves_the_guest(cloud):
    """The confirmation before it was given up when the old host had dropped what it kept."""
    server = cloud.active()
    source = cloud.get(server).host
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    cloud.hosts[source].host.driver.drop_left_behind(server)
    cloud.wait_action(_confirm(cloud, server, "revertResize"), objects.ERROR)
    assert "nothing any more" in cloud.wait(server, states.RESIZED).fault["message"]
    assert cloud.guests(dest) == {server: states.RUNNING}


@pytest.mark.parametrize("verb", ["confirmResize", "revertResize"])
def test_a_word_over_which_every_worker_dies_can_be_said_again(cloud, verb):
    server = cloud.active()
    _resize(cloud, server)
    dest = cloud.wait(server, states.RESIZED).host
    move = _move(cloud, server)
    place = move.source_compute if verb == "confirmResize" else dest
    action_id = cloud.begin(server, verb, {"migration_id": move.id}, host=place)
    cloud.claim(action_id, place, "a worker that dies")
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.rpc.host_started(cloud.context, place, "the next one", [])
    assert "workers died" in cloud.wait(server, states.RESIZED).fault["message"]
    _confirm(cloud, server, verb)
    found = cloud.wait(server, states.ACTIVE)
    assert found.host == (dest if verb == "confirmResize" else move.source_compute)
    assert [len(held) for held in cloud.holders().values()] == [1]


def test_a_move_given_up_when_the_new_host_may_run_the_guest_stays_there(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    action_id = cloud.begin(server, "resize", {"flavor": BIGGER.to_primitive()})
    cloud.conductor.compute.wake = lambda *_: None
    cloud.rpc.run_action(cloud.context, [action_id])
    dest = _other(source)
    cloud.wait_for(lambda: cloud.action(action_id).host == dest)
    del cloud.conductor.compute.wake
    cloud.claim(action_id, dest, "a worker that dies")
    move = _move(cloud, server)
    cloud.hosts[source].host.driver.set_aside(cloud.get(server), [], 0, move.uuid)
    cloud.hosts[dest].host.driver._set(server, {"power_state": states.RUNNING, "name": "guest"})
    cloud.set(server, task_state=states.RESIZE_FINISH)
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.expire(action_id)
    cloud.sweep()
    found = cloud.wait(server, states.ERROR)
    assert (found.host, found.node, found.flavor.flavorid, found.vcpus) == (dest, dest, "2", 2)
    assert cloud.holders() == {source: [(move.uuid, 1)], dest: [(server, 2)]}
    for host in (source, dest):
        cloud.sync(host)
    cloud.operate(server, "reboot_hard")        # one guest, where the server is
    cloud.wait(server, states.ACTIVE)
    assert (cloud.guests(source), cloud.guests(dest)) == ({}, {server: states.RUNNING})
    assert cloud.hosts[source].host.driver.left_behind() == {server}
    _resize(cloud, server, "migrate")           # and the next move ends this one
    cloud.wait(server, states.RESIZED)
    assert cloud.holders() == {dest: [(_move(cloud, server).uuid, 2)], source: [(server, 2)]}
    with cloud.db.read() as conn:
        assert moves.get(conn, move.id).status == "error"


# deletes of servers whose move waits for its user's word, or is on its way -------------------------------------------------
def test_a_delete_that_takes_a_server_over_ends_its_move(cloud, monkeypatch):
    """The last word of the new host comes when the server is to be deleted: its move waits for nobody's word."""
    server = cloud.active()
    driver = cloud.hosts[_other(cloud.get(server).host)].host.driver
    real = driver.finish_move
    monkeypatch.setattr(driver, "finish_move", lambda *given: (real(*given), cloud.set(server, task_state=states.DELETING)))
    action_id = _resize(cloud, server)
    cloud.wait_for(lambda: cloud.action(action_id).state in (objects.DONE, objects.ERROR))
    assert _move(cloud, server).status != "finished"


def test_the_guest_of_a_server_that_is_deleted_while_its_new_host_starts_it_goes(cloud, monkeypatch):
    """At once, not when that host looks at its guests: its ports and volumes are given back."""
    server = cloud.active()
    source = cloud.get(server).host
    driver, came = cloud.hosts[_other(source)].host.driver, []
    real = driver.finish_move

    def finish(*given):
        real(*given)
        came.append(dict(driver.power_states()))
        cloud.operate(server, "delete")
        cloud.wait_for(lambda: cloud.get(server).deleted)
    monkeypatch.setattr(driver, "finish_move", finish)
    _resize(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).deleted)
    assert came == [{server: states.RUNNING}]
    cloud.wait_for(lambda: (cloud.guests(source), cloud.guests(_other(source))) == ({}, {}), timeout=10)
    assert (driver.left_behind(), cloud.hosts[source].host.driver.left_behind()) == (set(), set())


def test_no_guest_starts_of_a_server_that_is_being_deleted(cloud, monkeypatch):
    server = cloud.active()
    driver, started = cloud.hosts[_other(cloud.get(server).host)].host.driver, []
    real = driver.finish_move

    def finish(*given):
        cloud.set(server, task_state=states.DELETING)
        real(*given)
        started.append(server)
    monkeypatch.setattr(driver, "finish_move", finish)
    cloud.wait_action(_resize(cloud, server), objects.ERROR)
    assert (started, driver.power_states()) == ([], {})
