"""Nothing is lost: messages that vanish, workers and hosts that die, owners that come back too late."""
import datetime
import threading
import time
import uuid

import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.conductor import cleanup
from nova_lite.context import admin_context
from nova_lite.db import actions, models
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice

ADMIN = admin_context()


def test_a_lost_cast_of_the_api_is_found_by_the_sweeper(cloud):
    [(server, action_id)] = cloud.create()
    cloud.sweep()
    assert cloud.action(action_id).state == objects.PENDING      # its lease runs: the cast may still come
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)
    assert cloud.action(action_id).attempts == 0


def test_a_lost_cast_to_a_host_is_found_by_the_heartbeat(cloud):
    server = cloud.active()
    action_id = cloud.begin(server, "stop")
    cloud.report(cloud.get(server).host)
    cloud.wait(server, states.STOPPED)
    assert cloud.wait_action(action_id, objects.DONE).attempts == 0


def test_a_message_that_comes_twice_builds_one_guest(cloud):
    [(server, action_id)] = cloud.create()
    for _ in range(3):
        cloud.rpc.schedule_and_build_instances(ADMIN, [action_id])
    host = cloud.wait(server, states.ACTIVE).host
    for _ in range(3):
        cloud.conductor.compute.wake(ADMIN, host, [action_id])
    assert cloud.claimed() == {host: {server}}
    with cloud.db.read() as conn:
        assert len(actions.events_of(conn, action_id)) == 2


def stopping(cloud):
    """A server with a stop that a worker of its host has claimed and then says nothing more: (server, host, action id)."""
    server = cloud.active()
    host, action_id = cloud.get(server).host, cloud.begin(server, "stop")
    assert cloud.claim(action_id, host, "silent")["instance"]["uuid"] == server
    return server, host, action_id


def test_the_action_of_a_dead_worker_is_taken_over(cloud):
    server, host, action_id = stopping(cloud)
    cloud.report(host)
    cloud.sweep()
    assert cloud.action(action_id).owner == "silent"         # its lease still runs
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.STOPPED)
    assert cloud.wait_action(action_id, objects.DONE).attempts == 1
    assert cloud.guests(host)[server] == states.SHUTDOWN


def test_only_one_of_many_workers_gets_an_action(cloud):
    server = cloud.active()
    host, action_id = cloud.get(server).host, cloud.begin(server, "stop")
    answers = {}

    def claim(owner):
        answers[owner] = cloud.claim(action_id, host, owner)
    threads = [threading.Thread(target=claim, args=(f"worker-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [owner for owner, answer in answers.items() if answer]
    assert winners == [cloud.action(action_id).owner]
    assert cloud.claim(action_id, host, winners[0]) is not None      # asked again after a lost answer
    assert cloud.claim(action_id, "other", "worker-9") is None


def test_an_owner_that_lost_its_lease_changes_nothing(cloud):
    server, host, action_id = stopping(cloud)
    cloud.expire(action_id)
    assert cloud.claim(action_id, host, "next") is not None
    before = cloud.get(server)
    with pytest.raises(exception.LeaseLost):
        cloud.rpc.instance_update(server, {"progress": 50}, [states.POWERING_OFF], action_id, "silent")
    with pytest.raises(exception.LeaseLost):
        cloud.rpc.finish_action(action_id, "silent", {}, [])
    cloud.rpc.build_failed(action_id, "silent", "no", "", [], True)
    assert cloud.get(server) == before
    assert (cloud.action(action_id).state, cloud.action(action_id).owner) == (objects.RUNNING, "next")
    cloud.rpc.finish_action(action_id, "next", {}, [])
    assert cloud.wait(server, states.STOPPED)


def test_an_end_that_is_told_twice_is_written_once(cloud):
    server, _host, action_id = stopping(cloud)
    event = actions.event("compute_stop_instance", "h1", units.utcnow())
    cloud.rpc.finish_action(action_id, "silent", {}, [event])
    after = cloud.wait(server, states.STOPPED)
    cloud.rpc.finish_action(action_id, "silent", {}, [event])
    assert cloud.get(server) == after
    with cloud.db.read() as conn:
        assert len(actions.events_of(conn, action_id)) == 1


def test_an_action_whose_workers_all_die_is_given_up(make_cloud):
    cloud = make_cloud("h1", conductor__max_attempts=2)
    server, host, action_id = stopping(cloud)
    cloud.hosts[host]._stopping.set()        # it hears nothing any more
    for attempts in (1, 2):
        cloud.expire(action_id)
        cloud.report(host)
        cloud.sweep()
        if attempts == 1:
            assert cloud.action(action_id).state in (objects.PENDING, objects.RUNNING)
            cloud.wait_for(lambda: cloud.action(action_id).attempts == 1)
            cloud.claim(action_id, host, f"silent-{attempts}")
    found = cloud.wait(server, states.ERROR)
    assert "2 workers died over it" in found.fault["message"]
    assert cloud.action(action_id).state == objects.ERROR


@pytest.mark.parametrize("host_is", ["alive", "dead", "back"])
def test_of_a_build_that_is_given_up_nothing_stays_on_its_host(make_cloud, host_is):
    cloud = make_cloud("h1", conductor__max_attempts=1)
    [(server, action_id)] = cloud.create()
    manager = cloud.hosts["h1"]
    manager._ready.clear()                      # it hears nothing for now
    cloud.conductor.schedule_and_build_instances(ADMIN, [action_id])
    assert cloud.claim(action_id, "h1", "dead-worker")
    driver = manager.host.driver
    driver.spawn(cloud.get(server), [], None, None)     # it died when the guest was there
    if host_is == "dead":
        cloud.silence("h1")
    if host_is == "back":
        [unexpected] = cloud.rpc.host_started(ADMIN, "h1", "next", [server])["remove"]
        assert unexpected["uuid"] == server
    else:
        cloud.expire(action_id)
        cloud.sweep()
    found = cloud.wait(server, states.ERROR)
    assert (found.host, found.node, found.fault is not None) == (None, None, True)
    assert cloud.claimed() == {}
    manager._ready.set()
    cloud.sync("h1")
    cloud.wait_for(lambda: cloud.guests("h1") == {})


# dead hosts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lease", [600, 2])
def test_the_build_of_a_dead_host_goes_to_another(make_cloud, monkeypatch, lease):
    """The host was only cut off, and goes on: where half of its lease is over it asks before the guest runs."""
    cloud = make_cloud("h1", "h2", conductor__lease_seconds=lease)
    (held, go_on), made = cloud.hold(monkeypatch, "spawn"), []
    [(server, action_id)] = cloud.create()
    cloud.rpc.schedule_and_build_instances(ADMIN, [action_id])
    cloud.wait_for(held.is_set)
    dead = cloud.get(server).host
    driver = cloud.hosts[dead].host.driver
    write = driver._set
    monkeypatch.setattr(driver, "_set", lambda uuid, guest: (made.append(guest), write(uuid, guest)))
    cloud.silence(dead)
    cloud.expire(action_id)
    cloud.sweep()
    found = cloud.wait(server, states.ACTIVE)
    assert found.host != dead
    assert cloud.claimed() == {found.host: {server}}
    time.sleep(1.0)
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts[dead].leases.in_flight())
    assert (cloud.guests(dead), any(made)) == ({}, lease == 600)
    assert cloud.guests(found.host) == {server: states.RUNNING}


def test_the_delete_of_a_dead_host_is_finished_without_it(cloud):
    server = cloud.active()
    host, action_id = cloud.get(server).host, cloud.begin(server, "delete")
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.get(server).deleted
    assert cloud.action(action_id).state == objects.DONE
    assert cloud.claimed() == {}


def test_another_operation_of_a_dead_host_ends_in_error_and_says_so(cloud):
    server, host, action_id = stopping(cloud)
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    found = cloud.wait(server, states.ERROR)
    assert found.fault["message"] == "The compute host stopped reporting while it worked on 'stop'"
    assert cloud.action(action_id).state == objects.ERROR
    assert cloud.claimed() == {host: {server}}       # the guest may still be there


def test_a_delete_wins_over_the_new_start_of_a_build_whose_host_died(cloud):
    cloud.delay(1.0)
    [(server, build_id)] = cloud.create(arguments={"admin_password": "secret"})
    cloud.rpc.schedule_and_build_instances(ADMIN, [build_id])
    cloud.wait_for(lambda: cloud.get(server).task_state == states.SPAWNING)
    dead = cloud.get(server).host
    delete_id = cloud.begin(server, "delete")
    cloud.silence(dead)
    cloud.expire(build_id)
    cloud.sweep()
    assert (cloud.get(server).task_state, cloud.get(server).host) == (states.DELETING, dead)
    cloud.expire(delete_id)
    cloud.sweep()
    assert cloud.get(server).deleted
    assert cloud.claimed() == {}
    assert "secret" not in str(cloud.action(build_id).arguments)


def test_a_host_that_reports_is_not_dead_before_it_missed_a_report(make_cloud):
    cloud = make_cloud("h1", conductor__lease_seconds=10)        # as long as the interval of the reports
    server, host, action_id = stopping(cloud)
    table = models.services
    cloud.run(sa.update(table).where(table.c.host == host)
              .values(last_seen_at=units.utcnow() - datetime.timedelta(seconds=12)))
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.STOPPED)


def test_a_host_that_died_with_its_lease_costs_one_lease(cloud):
    server, host, action_id = stopping(cloud)
    table, lease = models.services, cloud.conf.conductor.lease_seconds
    cloud.run(sa.update(table).where(table.c.host == host)       # its last report was written a second after it came
              .values(last_seen_at=units.utcnow() - datetime.timedelta(seconds=lease - 1)))
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.ERROR)


@pytest.mark.parametrize(("before", "verb"), [
    ([], "stop"), (["stop"], "start"), (["suspend"], "resume"), (["pause"], "unpause"), (["suspend"], "reboot_hard")])
def test_what_a_dead_host_never_began_leaves_the_server_as_it_was(cloud, before, verb):
    server = cloud.active()
    for one in before:
        cloud.wait_action(cloud.operate(server, one), objects.DONE)
    was = cloud.get(server)
    action_id = cloud.begin(server, verb)
    cloud.silence(was.host)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    found = cloud.get(server)
    assert (found.vm_state, found.power_state, found.task_state) == (was.vm_state, was.power_state, None)
    with cloud.db.read() as conn:
        [event] = actions.events_of(conn, action_id)
    assert event["details"] == f"Compute host {was.host} stopped reporting before it began '{cloud.action(action_id).action}'"
    cloud.report(was.host)
    cloud.wait_action(cloud.operate(server, verb), objects.DONE)


def test_a_resume_that_a_dead_host_had_begun_can_be_done_again(cloud):
    server = cloud.active()
    host = cloud.get(server).host
    cloud.wait_action(cloud.operate(server, "suspend"), objects.DONE)
    action_id = cloud.begin(server, "resume")
    assert cloud.claim(action_id, host, "silent")
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.wait(server, states.SUSPENDED).fault["message"].endswith("while it worked on 'resume'")
    cloud.report(host)
    cloud.wait_action(cloud.operate(server, "resume"), objects.DONE)
    assert cloud.guests(host) == {server: states.RUNNING}


def test_a_rebuild_that_a_dead_host_never_began_is_an_error(cloud):
    """Its request has written down another image than that of the disk."""
    server = cloud.active()
    action_id = cloud.begin(server, "rebuild")
    cloud.silence(cloud.get(server).host)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.ERROR)


@pytest.mark.parametrize("reported", [0, 4, 9])
def test_a_host_that_dies_before_it_hears_of_an_action_costs_one_lease(cloud, reported):
    server = cloud.active()
    host = cloud.get(server).host
    cloud.hosts[host]._stopping.set()        # it hears nothing of what follows
    cloud.begin(server, "stop")
    cloud.later(reported)
    cloud.report(host)                       # its last sign of life
    lease, sweep = cloud.conf.conductor.lease_seconds, cloud.conf.conductor.sweep_interval
    for _ in range((lease + sweep) // sweep):
        cloud.later(sweep)
        cloud.sweep()
    assert "stopped reporting" in cloud.wait(server, states.ACTIVE).fault["message"]


def test_after_an_outage_hosts_get_time_to_report(cloud):
    server, host, action_id = stopping(cloud)
    cloud.silence(host)
    cloud.conductor.bus_health.since = time.monotonic()        # nobody heard anything until now
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.action(action_id).owner == "silent"        # it could not renew its lease
    assert cloud.db.write(actions.expired) == []            # and takes no place among the actions of the next sweep
    cloud.report(host)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.STOPPED)
    cloud.silence(host)
    cloud.hosts[host]._stopping.set()                       # as good as dead
    action_id = cloud.begin(server, "start")
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.action(action_id).state == objects.PENDING
    cloud.conductor.bus_health.since -= 60
    cloud.expire(action_id)
    cloud.sweep()
    assert "stopped reporting" in cloud.wait(server, states.STOPPED).fault["message"]


# what nobody works on -----------------------------------------------------------------------------------------------
def test_a_server_in_a_transient_state_without_action_ends_in_error(cloud):
    server = cloud.active()
    cloud.set(server, task_state=states.PAUSING)
    cloud.sweep()
    assert cloud.get(server).task_state == states.PAUSING        # not yet: an action may be about to come
    cloud.set(server, updated_at=units.utcnow() - datetime.timedelta(hours=1))
    cloud.sweep()
    found = cloud.wait(server, states.ERROR)
    assert "'pausing'" in found.fault["message"]


def test_one_action_that_nobody_understands_does_not_stop_the_sweeper(cloud):
    server = cloud.active()
    strange = cloud.begin(server, "pause")
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == strange).values(verb="from another version", arguments={}))
    [(other, _)] = cloud.create()
    cloud.expire()
    cloud.sweep()
    cloud.wait(other, states.ACTIVE)
    assert cloud.action(strange).state == objects.PENDING
    assert cloud.action(strange).lease_until > units.utcnow()       # not each sweep looks at it, and none gives it up


def test_one_delete_that_fails_does_not_stop_the_others(cloud):
    servers = [cloud.active() for _ in range(2)]
    for server in servers:
        cloud.set(server, host=None, node=None)
    bad, good = (cloud.begin(server, "delete") for server in servers)
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == bad).values(verb="from another version", arguments={}))
    cloud.conductor.run_action(ADMIN, [bad, good])
    assert cloud.get(servers[1]).deleted
    assert cloud.action(good).state == objects.DONE
    assert cloud.action(bad).state == objects.PENDING


def test_an_operation_on_a_server_without_host_ends_with_a_reason(cloud):
    server = cloud.active()
    cloud.set(server, host=None, node=None)
    action_id = cloud.operate(server, "reboot_hard")
    found = cloud.wait(server, states.ERROR)
    assert found.fault["message"] == "'reboot' needs a host, and the server has none"
    assert cloud.action(action_id).state == objects.ERROR


def test_a_build_that_is_taken_for_something_else_is_built(cloud):
    [(server, action_id)] = cloud.create()
    cloud.rpc.run_action(ADMIN, [action_id])
    cloud.wait(server, states.ACTIVE)
    assert cloud.wait_action(action_id, objects.DONE).attempts == 0


# deletes and resets in between --------------------------------------------------------------------------------------
def test_a_delete_during_the_build_wins(cloud):
    cloud.delay(0.3)
    [(server, build_id)] = cloud.create(arguments={"admin_password": "secret"})
    cloud.rpc.schedule_and_build_instances(ADMIN, [build_id])
    cloud.wait_for(lambda: cloud.get(server).task_state == states.SPAWNING)
    delete_id = cloud.operate(server, "delete")
    cloud.wait_action(delete_id, objects.DONE)
    assert cloud.get(server).deleted
    assert cloud.claimed() == {}
    cloud.wait_for(lambda: cloud.action(build_id).state in (objects.DONE, objects.ERROR))
    assert cloud.guests("h1") == cloud.guests("h2") == {}
    assert "secret" not in str(cloud.action(build_id).arguments)


def test_a_host_that_was_given_up_keeps_nothing_of_a_server_deleted_without_it(cloud):
    cloud.delay(1.0)
    [(server, build_id)] = cloud.create()
    cloud.rpc.schedule_and_build_instances(ADMIN, [build_id])
    cloud.wait_for(lambda: cloud.get(server).task_state == states.SPAWNING)
    host, delete_id = cloud.get(server).host, cloud.begin(server, "delete")
    cloud.silence(host)
    cloud.expire(build_id, delete_id)
    cloud.sweep()
    assert cloud.get(server).deleted
    cloud.delay(0.0)
    manager = cloud.hosts[host]
    cloud.wait_for(lambda: build_id not in manager.leases.in_flight())      # the build has come to its end
    assert cloud.guests(host) == {}
    assert cloud.action(build_id).state == objects.ERROR


def test_a_delete_before_the_placement_leaves_no_claim(cloud):
    [(server, build_id)] = cloud.create()
    delete_id = cloud.begin(server, "delete")
    cloud.rpc.schedule_and_build_instances(ADMIN, [build_id])
    cloud.wait_for(lambda: cloud.action(build_id).state == objects.ERROR)
    cloud.rpc.run_action(ADMIN, [delete_id])
    cloud.wait_action(delete_id, objects.DONE)
    assert cloud.get(server).deleted
    assert cloud.claimed() == {}


def test_a_delete_while_the_scheduler_chooses_leaves_no_claim(cloud):
    scheduler = cloud.conductor.builds.scheduler
    choose = scheduler.select_destinations

    def slow(context, spec, uuids):
        cloud.wait_action(cloud.operate(uuids[0], "delete"), objects.DONE)
        return choose(context, spec, uuids)
    scheduler.select_destinations = slow
    [(server, build_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(ADMIN, [build_id])
    assert cloud.get(server).deleted
    assert cloud.action(build_id).state == objects.ERROR
    assert cloud.claimed() == {}


def test_an_operation_that_follows_a_reset_is_not_lost(cloud):
    server, _host, action_id = stopping(cloud)
    cloud.set(server, vm_state=states.ERROR, task_state=None)        # os-resetState
    reboot = cloud.begin(server, "reboot_hard")
    cloud.rpc.finish_action(action_id, "silent", {}, [])
    assert cloud.get(server).task_state == states.REBOOTING_HARD
    cloud.report(cloud.get(server).host)
    cloud.wait(server, states.ACTIVE)
    cloud.wait_action(reboot, objects.DONE)


def test_a_hard_reboot_during_a_soft_one_is_not_lost(cloud):
    server = cloud.active()
    cloud.delay(0.3)
    soft = cloud.operate(server, "reboot")
    cloud.wait_for(lambda: cloud.action(soft).state == objects.RUNNING)
    hard = cloud.operate(server, "reboot_hard")
    assert cloud.wait_action(soft, objects.DONE)
    cloud.wait_for(lambda: cloud.action(hard).state not in (objects.PENDING, objects.RUNNING))
    assert cloud.action(hard).state == objects.DONE
    cloud.wait(server, states.ACTIVE)


def test_a_build_that_goes_on_after_a_reset_keeps_its_room(cloud):
    cloud.delay(0.3)
    [server] = cloud.build()
    cloud.wait_for(lambda: cloud.get(server).task_state == states.SPAWNING)
    cloud.set(server, vm_state=states.ERROR, task_state=None)
    host = cloud.wait(server, states.ACTIVE).host
    assert cloud.claimed() == {host: {server}}


def test_a_clean_up_that_waits_for_its_turn_is_no_dead_worker(cloud):
    device = BlockDevice(str(uuid.uuid4()), "volume", source_id=str(uuid.uuid4()), volume_id=str(uuid.uuid4()), size=1)
    server, go_on = cloud.active(), threading.Event()
    cloud.set(server, host=None, block_devices=[device])
    for _ in range(cleanup.THREADS):        # a Volume service that is slow has them all
        cloud.conductor.cleanup.later(go_on.wait, 30)
    try:
        action = cloud.operate(server, "delete")
        cloud.wait_action(action, objects.RUNNING)
        for _ in range(cloud.conf.conductor.max_attempts + 1):
            cloud.later(cloud.conf.conductor.lease_seconds / 3)
            cloud.conductor.leases.renew()
            cloud.later(cloud.conf.conductor.lease_seconds / 2)
            cloud.sweep()
            assert (cloud.action(action).state, cloud.action(action).attempts) == (objects.RUNNING, 0)
    finally:
        go_on.set()
    cloud.wait_action(action, objects.DONE)
    assert cloud.get(server).deleted
    cloud.wait_for(lambda: not cloud.conductor.leases._ids)
