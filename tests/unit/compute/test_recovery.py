"""A compute daemon that starts takes up what the one before left, and makes guests and servers agree."""
import json

import pytest

from nova_lite.compute import recovery
from nova_lite.context import admin_context
from nova_lite.db import moves
from nova_lite.objects import action as objects
from nova_lite.objects import migration, states
from nova_lite.rpc.compute import ComputeAPI


@pytest.fixture
def lasting(make_cloud, tmp_path):
    """A cloud of one host whose guests outlive its daemon."""
    return make_cloud("h1", fake__state_file=str(tmp_path / "guests"), conductor__max_attempts=2)


def set_guest(cloud, uuid, power_state):
    """What happens to a guest while nobody watches."""
    path = f"{cloud.conf.fake.state_file}.h1"
    with open(path) as file:
        guests = json.load(file)
    guests[uuid] = {"power_state": power_state, "name": "n"}
    with open(path, "w") as file:
        json.dump(guests, file)


def test_an_operation_that_the_daemon_died_over_is_taken_up_at_once(lasting):
    server = lasting.active()
    action_id = lasting.begin(server, "stop")
    assert lasting.claim(action_id, "h1", "the daemon before")
    lasting.end_host("h1")
    lasting.add_host("h1")
    lasting.wait(server, states.STOPPED)
    assert lasting.wait_action(action_id, objects.DONE).attempts == 1
    assert lasting.guests("h1") == {server: states.SHUTDOWN}


def test_a_build_that_the_daemon_died_over_is_finished(lasting):
    lasting.end_host("h1")
    [(server, action_id)] = lasting.create()
    lasting.conductor.schedule_and_build_instances(admin_context(), [action_id])      # the host seems to be up
    assert lasting.claim(action_id, "h1", "the daemon before")
    lasting.add_host("h1")
    lasting.wait(server, states.ACTIVE)
    assert lasting.wait_action(action_id, objects.DONE).attempts == 1
    assert lasting.claimed() == {"h1": {server}}


def test_what_kills_the_daemon_each_time_is_given_up(lasting):
    server = lasting.active()
    action_id = lasting.begin(server, "pause")
    for daemon in ("first", "second"):
        assert lasting.claim(action_id, "h1", daemon)
        lasting.rpc.host_started(admin_context(), "h1", f"after the {daemon}", [])
    found = lasting.wait(server, states.ERROR)
    assert found.fault["message"] == "'pause' was given up: 2 workers died over it"
    assert lasting.action(action_id).state == objects.ERROR


def test_guests_of_deleted_servers_are_removed_and_unknown_ones_left_alone(lasting):
    kept, deleted = lasting.build(2)
    for server in (kept, deleted):
        lasting.wait(server, states.ACTIVE)
    lasting.end_host("h1")
    action_id = lasting.begin(deleted, "delete")
    lasting.silence("h1")
    lasting.expire(action_id)
    lasting.sweep()
    assert lasting.get(deleted).deleted
    set_guest(lasting, "made by hand", states.RUNNING)
    lasting.add_host("h1")
    lasting.wait_for(lambda: set(lasting.guests("h1")) == {kept, "made by hand"})


def test_a_guest_that_has_come_back_is_not_removed_by_an_old_answer(lasting):
    server = lasting.active()
    host = lasting.hosts["h1"]
    host._remove(lasting.get(server))       # as it was when the server was elsewhere
    lasting.wait_for(lambda: not host._queues.is_busy(server))
    assert lasting.guests("h1") == {server: states.RUNNING}


@pytest.mark.parametrize(("resume", "vm_state", "power_state"), [(True, states.ACTIVE, states.RUNNING),
                                                                 (False, states.STOPPED, states.SHUTDOWN)])
def test_guests_that_went_down_with_their_host_start_again_if_wanted(lasting, resume, vm_state, power_state):
    stopped, running = lasting.active(), lasting.active()
    lasting.operate(stopped, "stop")
    lasting.wait(stopped, states.STOPPED)
    lasting.end_host("h1")
    for server in (stopped, running):
        set_guest(lasting, server, states.SHUTDOWN)         # the host was off and is on again
    lasting.conf.set_override("resume_guests_state_on_host_boot", resume, group="compute")
    lasting.add_host("h1")
    lasting.wait_for(lambda: lasting.guests("h1") == {running: power_state, stopped: states.SHUTDOWN})
    lasting.wait(running, vm_state)
    lasting.wait(stopped, states.STOPPED)


@pytest.mark.parametrize("values", [{"task_state": states.REBUILDING}, migration.ACCEPTED, migration.PRE_MIGRATING])
def test_no_guest_starts_again_whose_server_leaves_while_others_start(make_cloud, tmp_path, monkeypatch, values):
    """The host was declared down, and comes back while its servers are evacuated one after the other."""
    cloud = make_cloud("h1", fake__state_file=str(tmp_path / "guests"), compute__max_concurrent_builds=1)
    servers = [cloud.active() for _ in range(2)]
    cloud.end_host("h1")
    for server in servers:
        set_guest(cloud, server, states.SHUTDOWN)
    cloud.conf.set_override("resume_guests_state_on_host_boot", True, group="compute")
    real, left = recovery.resume, []

    def first_start(host, uuid, waited):
        if not left:
            left.extend(server for server in servers if server != uuid)
            if isinstance(values, str):     # so far an evacuation is, and os-resetState has declared it idle meanwhile
                cloud.db.write(moves.create, cloud.get(left[0]), migration.EVACUATION, values, dest_compute="h2")
            else:
                cloud.set(left[0], **values)
        real(host, uuid, waited)
    monkeypatch.setattr(recovery, "resume", first_start)
    host = cloud.add_host("h1")
    cloud.wait_for(lambda: left and not any(host._queues.is_busy(server) for server in servers))
    started, other = next(server for server in servers if server != left[0]), left[0]
    assert cloud.guests("h1").get(started) == states.RUNNING
    assert cloud.guests("h1").get(other) in (states.SHUTDOWN, None)     # None: removed, as it is being built elsewhere


def test_a_guest_that_does_not_start_again_keeps_no_other_from_it(lasting):
    servers = [lasting.active() for _ in range(2)]
    lasting.end_host("h1")
    for server in servers:
        set_guest(lasting, server, states.SHUTDOWN)
    lasting.conf.set_override("resume_guests_state_on_host_boot", True, group="compute")
    lasting.fail("power_on")
    lasting.add_host("h1")
    for server in servers:
        lasting.wait(server, states.STOPPED)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_host_that_misses_the_arrival_stops_serving_at_a_comparison(make_cloud, monkeypatch, tmp_path, restarts):
    monkeypatch.setattr(ComputeAPI, "arrived", lambda *_: None)
    cloud = make_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))
    server = cloud.active()
    source = cloud.get(server).host
    cloud.operate(server, "migrate", {"flavor": cloud.get(server).flavor.to_primitive()})
    cloud.wait(server, states.RESIZED)
    assert cloud.hosts[source].host.driver.offers_disks(server)
    if restarts:
        cloud.end_host(source)
        cloud.add_host(source)
    cloud.sync(source)
    cloud.wait_for(lambda: not cloud.hosts[source].host.driver.offers_disks(server))
    assert cloud.hosts[source].host.driver.left_behind() == {server}


@pytest.mark.parametrize("task_state", [states.RESIZE_PREP, states.RESIZE_MIGRATING])
def test_a_comparison_serves_the_disks_on_while_they_are_copied(make_cloud, monkeypatch, task_state):
    monkeypatch.setattr(ComputeAPI, "arrived", lambda *_: None)
    cloud = make_cloud("h1", "h2")
    server = cloud.active()
    source = cloud.get(server).host
    cloud.operate(server, "migrate", {"flavor": cloud.get(server).flavor.to_primitive()})
    cloud.wait(server, states.RESIZED)
    cloud.set(server, task_state=task_state)
    recovery.drop_left_behind(cloud.hosts[source].host, server)
    assert cloud.hosts[source].host.driver.offers_disks(server)
