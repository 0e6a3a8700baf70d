"""Evacuation from a fake host that is down: one guest, wherever and whenever the old host comes back."""
import pytest

from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import moves
from nova_lite.objects import action as objects
from nova_lite.objects import states


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
    action_id = cloud.db.write(api._begin, context, server, "evacuate", asked, cloud.conf.conductor.lease_seconds)[0]
    cloud.rpc.run_action(admin_context(), [action_id])
    return action_id


def _move(cloud):
    with cloud.db.read() as conn:
        return moves.list_all(conn)[0]


def _guests(cloud):
    return {name: guests for name in cloud.hosts if (guests := dict(cloud.guests(name)))}


def test_the_server_is_built_elsewhere_and_the_old_guest_goes(cloud, server):
    cloud.wait_action(_evacuate(cloud, server, host="h2"), objects.DONE)
    found = cloud.get(server)
    assert (found.host, found.node, found.vm_state, found.power_state) == ("h2", "h2", states.ACTIVE, states.RUNNING)
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


def test_an_old_host_that_returns_in_the_middle_loses_its_guest_at_once(cloud, server):
    cloud.delay(1.0)
    action_id = _evacuate(cloud, server, host="h2")
    cloud.wait_for(lambda: cloud.action(action_id).stage == objects.COMPUTE)
    cloud.delay(0.0)
    cloud.add_host("h1")
    cloud.sync("h1")
    cloud.wait_for(lambda: not cloud.guests("h1"))
    cloud.wait_action(action_id, objects.DONE)
    assert _guests(cloud) == {"h2": {server: states.RUNNING}}


def test_a_new_host_that_dies_is_replaced(cloud, server):
    cloud.delay(1.5)
    action_id = _evacuate(cloud, server)
    cloud.wait_for(lambda: cloud.action(action_id).stage == objects.COMPUTE)
    first = cloud.action(action_id).host
    cloud.silence(first)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.delay(0.0)
    cloud.wait_action(action_id, objects.DONE, 10)
    found = cloud.get(server)
    assert found.host not in ("h1", first)
    assert cloud.claimed() == {found.host: {server}}
    cloud.report(first)
    cloud.sync(first)
    cloud.wait_for(lambda: _guests(cloud) == {found.host: {server: states.RUNNING}})


def test_a_guest_that_cannot_be_powered_off_is_not_kept(cloud, server):
    cloud.fail("power_off@h2")
    cloud.wait_action(_evacuate(cloud, server, host="h2", stopped=True), objects.ERROR)
    found = cloud.get(server)
    assert (found.host, found.vm_state, _guests(cloud)) == ("h1", states.ERROR, {})
    cloud.fail()
    cloud.wait_action(_evacuate(cloud, server, host="h2", stopped=True), objects.DONE)
    assert _guests(cloud) == {"h2": {server: states.SHUTDOWN}}
