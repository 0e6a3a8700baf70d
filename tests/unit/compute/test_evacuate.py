"""Evacuation from a fake host that is down: one guest, wherever and whenever the old host comes back."""
import json
import threading

import pytest
import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.compute import verbs
from nova_lite.compute.api import base as api
from nova_lite.compute.api import evacuation
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import models, moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.virt import fake


@pytest.fixture
def cloud(make_cloud, tmp_path):
    """Guests outlive the daemons of their hosts."""
    return make_cloud("h1", "h2", "h3", fake__state_file=str(tmp_path / "guests"))


@pytest.fixture
def server(cloud):
    """A server whose host has died."""
    server = cloud.active(requested_destination={"host": "h1", "node": None, "force": True})
    assert cloud.get(server).host == "h1"
    cloud.end_host("h1")
    cloud.silence("h1")
    cloud.set(server, requested_destination=None)
    return server


def _evacuate(cloud, server, **arguments):
    context = RequestContext(user_id="u", project_id="p", overwrite=False)
    asked = {"host": None, "force": False, "stopped": False, **arguments}
    action_id = cloud.db.write(api._begin, context, server, "evacuate", asked, cloud.conf.conductor.lease_seconds,
                               evacuation._end_others)[0]
    cloud.rpc.run_action(admin_context(), [action_id])
    return action_id


def _move(cloud):
    with cloud.db.read() as conn:
        return moves.list_all(conn)[0]


def _guests(cloud):
    return {name: guests for name in cloud.hosts if (guests := dict(cloud.guests(name)))}


def test_the_server_is_built_elsewhere_and_the_old_guest_goes(cloud, server):
    cloud.set(server, availability_zone="of-the-old-host")
    cloud.wait_action(_evacuate(cloud, server, host="h2"), objects.DONE)
    found = cloud.get(server)
    assert (found.host, found.node, found.vm_state, found.power_state) == ("h2", "h2", states.ACTIVE, states.RUNNING)
    assert found.availability_zone == "nova"
    assert (_move(cloud).migration_type, _move(cloud).status) == ("evacuation", "done")
    assert cloud.claimed() == {"h2": {server}}
    cloud.add_host("h1")
    cloud.wait_for(lambda: _guests(cloud) == {"h2": {server: states.RUNNING}})


def test_since_2_95_it_is_off(cloud, server):
    cloud.wait_action(_evacuate(cloud, server, stopped=True), objects.DONE)
    found = cloud.get(server)
    assert (found.vm_state, found.power_state) == (states.STOPPED, states.SHUTDOWN)
    assert _guests(cloud) == {found.host: {server: states.SHUTDOWN}}


def test_one_that_was_off_stays_off(cloud, server):
    cloud.set(server, vm_state=states.STOPPED, power_state=states.SHUTDOWN)
    cloud.wait_action(_evacuate(cloud, server), objects.DONE)
    assert cloud.get(server).vm_state == states.STOPPED


def test_a_failure_leaves_the_server_where_it_was_in_error(cloud, server):
    cloud.fail("spawn")
    cloud.wait_action(_evacuate(cloud, server, host="h2"), objects.ERROR)
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state) == ("h1", states.ERROR, None)
    assert cloud.claimed() == {"h1": {server}}
    assert (_move(cloud).status, _guests(cloud)) == ("failed", {})
    cloud.fail()
    cloud.wait_action(_evacuate(cloud, server), objects.DONE)
    assert cloud.get(server).vm_state == states.ACTIVE


def test_no_host(cloud, server):
    for name in ("h2", "h3"):
        cloud.silence(name)
    cloud.wait_action(_evacuate(cloud, server), objects.ERROR)
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state) == ("h1", states.ACTIVE, None)
    assert cloud.claimed() == {"h1": {server}}


def test_a_host_that_is_back_already_keeps_its_server(cloud, server):
    cloud.add_host("h1")
    cloud.wait_action(_evacuate(cloud, server), objects.ERROR)
    assert cloud.get(server).host == "h1"
    assert _guests(cloud) == {"h1": {server: states.RUNNING}}


@pytest.mark.parametrize("forced_down", [False, True])
def test_an_old_host_that_returns_while_a_new_one_is_looked_for_keeps_its_server(cloud, server, monkeypatch, forced_down):
    """Unless it was declared down: then it loses its guest."""
    if forced_down:
        cloud.force_down("h1")
    scheduler = cloud.conductor.tasks._tools.scheduler
    real = scheduler.select_destinations

    def look(*asked):
        found = real(*asked)
        cloud.add_host("h1")
        return found
    monkeypatch.setattr(scheduler, "select_destinations", look)
    before = cloud.get(server)
    cloud.wait_action(_evacuate(cloud, server, host="h2"), objects.DONE if forced_down else objects.ERROR)
    found, at = cloud.get(server), "h2" if forced_down else "h1"
    assert (found.host, found.node, found.vm_state, found.task_state) == (at, at, before.vm_state, None)
    assert cloud.claimed() == {at: {server}}
    cloud.sync("h1")
    cloud.wait_for(lambda: _guests(cloud) == {at: {server: states.RUNNING}})


def test_an_old_host_that_returns_in_the_middle_loses_its_guest_at_once(cloud, server, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    action_id = _evacuate(cloud, server, host="h2")
    assert held.wait(30)
    cloud.add_host("h1")
    cloud.sync("h1")
    cloud.wait_for(lambda: not cloud.guests("h1"))
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    assert _guests(cloud) == {"h2": {server: states.RUNNING}}


def _hold_begin(cloud, monkeypatch, name):
    """A new host stops before it takes what it finds for its own: (it has come so far, go on)."""
    came, go_on, live = threading.Event(), threading.Event(), cloud.hosts[name].host.driver.live
    real = live.adopt

    def adopt(instance):
        came.set()
        assert go_on.wait(120)
        real(instance)
    monkeypatch.setattr(live, "adopt", adopt)
    return came, go_on


def _returns(cloud, name):
    """A host is back, and has done all that it was told when it looked at its guests."""
    manager = cloud.add_host(name)
    cloud.sync(name)
    cloud.wait_for(lambda: not any(manager._queues.is_busy(uuid) for uuid in [*cloud.guests(name)]))


def test_an_old_host_that_returns_before_the_new_one_has_begun_has_its_guest_off_and_keeps_it(cloud, server, monkeypatch):
    """On shared storage its disks are all that there is of the server until the new host has taken them."""
    came, go_on = _hold_begin(cloud, monkeypatch, "h2")
    action_id = _evacuate(cloud, server, host="h2")
    assert came.wait(30)
    _returns(cloud, "h1")
    assert _guests(cloud) == {"h1": {server: states.SHUTDOWN}}
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    cloud.wait_for(lambda: _guests(cloud) == {"h2": {server: states.RUNNING}})      # it was told so, and does not have to look


def test_a_second_new_host_has_to_begin_for_itself(cloud, server, monkeypatch):
    """It may have the disks of the old host in common with it, which the first one had not."""
    held, first_goes_on = cloud.hold(monkeypatch, "spawn")
    action_id = _evacuate(cloud, server)
    assert held.wait(30)
    first = cloud.action(action_id).host
    [second] = {"h2", "h3"} - {first}
    came, go_on = _hold_begin(cloud, monkeypatch, second)
    cloud.silence(first)
    cloud.expire(action_id)
    cloud.sweep()
    assert came.wait(30)
    _returns(cloud, "h1")
    assert cloud.guests("h1") == {server: states.SHUTDOWN}
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    first_goes_on.set()
    cloud.wait_for(lambda: not cloud.hosts[first].leases.in_flight())
    cloud.sync("h1")
    cloud.wait_for(lambda: _guests(cloud) == {second: {server: states.RUNNING}})


def test_who_lost_the_evacuation_before_it_began_takes_no_files(cloud, server, monkeypatch):
    """They may be those of the host that has come to an end with it."""
    live, adopted, lost = cloud.hosts["h2"].host.driver.live, [], []
    carry_out = verbs.carry_out

    def late(*claimed):
        cloud.run(sa.update(models.instance_actions).values(owner="another"))
        with pytest.raises(exception.LeaseLost):
            carry_out(*claimed)
        lost.append(True)
    monkeypatch.setattr(verbs, "carry_out", late)
    monkeypatch.setattr(live, "adopt", adopted.append)
    _evacuate(cloud, server, host="h2")
    cloud.wait_for(lambda: lost)
    assert adopted == []


def test_a_new_host_that_dies_is_replaced(cloud, server, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    action_id = _evacuate(cloud, server)
    cloud.wait_for(held.is_set)
    first = cloud.action(action_id).host
    cloud.silence(first)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.DONE)
    found = cloud.get(server)
    assert found.host not in ("h1", first)
    assert cloud.claimed() == {found.host: {server}}
    go_on.set()         # it was only cut off
    cloud.wait_for(lambda: not cloud.hosts[first].leases.in_flight())
    assert _guests(cloud) == {found.host: {server: states.RUNNING}}


def test_a_guest_that_cannot_be_powered_off_is_not_kept(cloud, server):
    cloud.fail("power_off@h2")
    cloud.wait_action(_evacuate(cloud, server, host="h2", stopped=True), objects.ERROR)
    found = cloud.get(server)
    assert (found.host, found.vm_state, _guests(cloud)) == ("h1", states.ERROR, {})
    cloud.fail()
    cloud.wait_action(_evacuate(cloud, server, host="h2", stopped=True), objects.DONE)
    assert _guests(cloud) == {"h2": {server: states.SHUTDOWN}}


@pytest.mark.parametrize("named", [True, False])
def test_a_new_host_that_dies_after_the_old_one_came_back(cloud, server, monkeypatch, named):
    """The old host's guest is off: there is one elsewhere, or the server is in ERROR until somebody starts that again."""
    take_up = {name: cloud.hosts[name]._take_up for name in ("h2", "h3")}
    for name in take_up:        # whoever is chosen does nothing
        monkeypatch.setattr(cloud.hosts[name], "_take_up", lambda _ids: None)
    action_id = _evacuate(cloud, server, host="h2" if named else None)
    cloud.wait_for(lambda: cloud.action(action_id).stage == objects.COMPUTE)
    first = cloud.action(action_id).host
    [other] = set(take_up) - {first}
    monkeypatch.setattr(cloud.hosts[other], "_take_up", take_up[other])
    _returns(cloud, "h1")
    assert _guests(cloud) == {"h1": {server: states.SHUTDOWN}}
    cloud.silence(first)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR if named else objects.DONE)
    found = cloud.get(server)
    if named:
        assert (found.host, found.vm_state, found.task_state) == ("h1", states.ERROR, None)
        cloud.wait_action(cloud.operate(server, "reboot_hard"), objects.DONE)
        at = "h1"
    else:
        cloud.sync("h1")
        cloud.wait_for(lambda: not cloud.guests("h1"))
        at = other
    assert (cloud.get(server).host, _guests(cloud), cloud.claimed()) == (at, {at: {server: states.RUNNING}}, {at: {server}})


def test_who_lost_the_evacuation_binds_no_port(cloud, server, monkeypatch):
    host, bound, lost = cloud.hosts["h2"].host, [], []

    def slow(_server):
        cloud.run(sa.update(models.instance_actions).values(owner="another"))
        lost.append(True)
    monkeypatch.setattr(host.driver.live, "adopt", slow)
    monkeypatch.setattr(host.network, "move", lambda *_arguments: bound.append(True) or [])
    _evacuate(cloud, server, host="h2")
    cloud.wait_for(lambda: lost and not cloud.hosts["h2"].leases.in_flight())
    assert not bound


def test_who_lost_the_evacuation_and_fails_leaves_ports_and_volumes_alone(cloud, server, monkeypatch):
    host, touched = cloud.hosts["h2"].host, []
    held, go_on = cloud.hold(monkeypatch, "spawn")
    _evacuate(cloud, server, host="h2")
    cloud.wait_for(held.is_set)
    monkeypatch.setattr(host.network, "move", lambda *_arguments: touched.append("ports") or [])
    monkeypatch.setattr(host.volume, "attachments", lambda *_arguments: touched.append("volumes") or [])
    cloud.run(sa.update(models.instance_actions).values(owner="another"))
    cloud.fail("spawn@h2")
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts["h2"].leases.in_flight())
    assert (touched, cloud.guests("h2")) == ([], {})


# what was under way when the host died --------------------------------------------------------------------------------------
def _all_moves_ended(cloud, server):
    with cloud.db.read() as conn:
        return not moves.open_of(conn, [server])


def _begin_move(cloud, server, verb):
    """A move from h1 that is under way; the host that it goes to."""
    arguments = {"host": None, "block_migration": None, "disk_over_commit": None, "force": False} \
        if verb == "live_migrate" else {"flavor": {**cloud.get(server).flavor.to_primitive(), "vcpus": 2}} \
        if verb == "resize" else {}
    action_id = cloud.operate(server, verb, arguments)
    step = "running" if verb == "live_migrate" else "migrating"
    cloud.wait_for(lambda: "migration_id" in cloud.action(action_id).arguments and _move(cloud).status == step)
    return _move(cloud).dest_compute


@pytest.mark.parametrize("verb", ["live_migrate", "migrate", "resize"])
def test_a_move_of_its_old_host_is_over(cloud, verb):
    server = cloud.active(requested_destination={"host": "h1", "node": None, "force": True})
    cloud.set(server, requested_destination=None)
    cloud.delay(0.3)
    moved_to = _begin_move(cloud, server, verb)
    [third] = {"h2", "h3"} - {moved_to}
    cloud.silence("h1")
    action_id = _evacuate(cloud, server, host=third)
    # the hypervisors copy by themselves: the guest comes, although nobody wants it there any more
    cloud.hosts[moved_to].host.driver._set(server, {"power_state": states.RUNNING, "name": "s0"})
    cloud.delay(0.0)
    cloud.wait_action(action_id, objects.DONE)
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state, found.vcpus) == (third, states.ACTIVE, None, 1)
    assert _all_moves_ended(cloud, server)
    assert cloud.holders() == {third: [(server, 1)]}
    for name in cloud.hosts:        # what still worked there has lost its action
        cloud.wait_for(lambda host=cloud.hosts[name]: not host.leases.in_flight())
        cloud.report(name)

    def is_only_there():
        for name in cloud.hosts:
            cloud.sync(name)
        return _guests(cloud) == {third: {server: states.RUNNING}} and not any(
            cloud.hosts[name].host.driver.left_behind() for name in cloud.hosts)
    cloud.wait_for(is_only_there)


def test_a_resize_that_nobody_confirmed_is_over(cloud):
    """Declared active by os-resetState, so that it can be evacuated at all."""
    server = cloud.active()
    source = cloud.get(server).host
    resize = cloud.operate(server, "resize", {"flavor": {**cloud.get(server).flavor.to_primitive(), "vcpus": 2}})
    cloud.wait_action(resize, objects.DONE)
    died = cloud.get(server).host
    cloud.set(server, vm_state=states.ACTIVE)
    cloud.silence(died)
    [third] = {"h1", "h2", "h3"} - {source, died}
    cloud.wait_action(_evacuate(cloud, server, host=third), objects.DONE)
    assert _all_moves_ended(cloud, server)
    assert cloud.holders() == {third: [(server, 2)]}
    cloud.report(died)
    for name in (source, died):
        cloud.sync(name)
    cloud.wait_for(lambda: _guests(cloud) == {third: {server: states.RUNNING}})
    cloud.wait_for(lambda: not cloud.hosts[source].host.driver.left_behind())


@pytest.mark.parametrize("verb", ["delete", "force_delete", "soft_delete"])
def test_what_is_being_deleted_is_not_evacuated(cloud, server, verb):
    delete = cloud.begin(server, verb)
    with pytest.raises(exception.InstanceInvalidState):
        _evacuate(cloud, server, host="h2")
    cloud.expire(delete)
    cloud.sweep()
    cloud.wait_action(delete, objects.DONE)


@pytest.fixture
def half_evacuated(cloud, server, monkeypatch):
    """A server that is being built on h2 and was declared idle by os-resetState meanwhile; its old host is off."""
    held, go_on = cloud.hold(monkeypatch, "spawn")
    action_id = _evacuate(cloud, server, host="h2")
    assert held.wait(30)
    cloud.set(server, task_state=None)
    yield server
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    cloud.wait_for(lambda: _guests(cloud) == {"h2": {server: states.RUNNING}})


def test_an_old_host_that_boots_starts_no_second_copy_of_an_idle_server(cloud, half_evacuated, monkeypatch):
    path = f"{cloud.conf.fake.state_file}.h1"
    with open(path, "w") as file:
        json.dump({half_evacuated: {"power_state": states.SHUTDOWN, "name": "n"}}, file)
    cloud.conf.set_override("resume_guests_state_on_host_boot", True, group="compute")
    started = []
    monkeypatch.setattr(fake.FakeDriver, "power_on", lambda _self, instance, _network_info: started.append(instance.uuid))
    cloud.add_host("h1")
    assert started == []


def test_an_old_host_that_was_only_silent_removes_its_copy_of_an_idle_server(cloud, half_evacuated):
    cloud.add_host("h1").host.driver.spawn(cloud.get(half_evacuated), [], None, None)
    cloud.sync("h1")
    cloud.wait_for(lambda: not cloud.guests("h1"))


def test_nothing_is_begun_with_an_idle_server_that_is_evacuated(cloud, half_evacuated):
    """Its old host, which is back, would start a second guest."""
    cloud.add_host("h1")
    for verb, operation in operations.VERBS.items():
        for vm_state in operation.vm_states or (states.ACTIVE,):
            if operation.task_states and verb != "build":
                cloud.set(half_evacuated, vm_state=vm_state)
                with pytest.raises(exception.InstanceIsBusy, match="in the middle of its evacuation to h2"):
                    cloud.begin(half_evacuated, verb)
    assert cloud.get(half_evacuated).task_state is None
    assert cloud.guests("h1") == {}
    cloud.set(half_evacuated, vm_state=states.ACTIVE)


@pytest.mark.parametrize("verb", ["delete", "force_delete"])
def test_an_idle_server_that_is_evacuated_can_be_deleted(cloud, server, monkeypatch, verb):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    _evacuate(cloud, server, host="h2")
    assert held.wait(30)
    cloud.set(server, task_state=None)
    cloud.add_host("h1")
    cloud.wait_action(cloud.operate(server, verb), objects.DONE)
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts["h2"].leases.in_flight())
    assert (cloud.get(server).deleted, _guests(cloud)) == (True, {})
