"""os-resetState of a server that looks stuck in a resize: its guest comes to its place all the same, and so do the rooms."""
import pytest
import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)
STEPS = [("receive_guest", "before"), ("receive_guest", "after"), ("finish_move", "before"), ("finish_move", "after")]


def _move(cloud, server):
    with cloud.db.read() as conn:
        return moves.list_all(conn, {"instance_uuid": server})[0]


def _resize(cloud, server):
    """As the API: from now on quotas count the larger of both flavors. (action, old host, new host)"""
    cloud.set(server, vcpus=BIGGER.vcpus, memory_mb=BIGGER.memory_mb)
    source = cloud.get(server).host
    return cloud.begin(server, "resize", {"flavor": BIGGER.to_primitive()}), source, {"h1": "h2", "h2": "h1"}[source]


def _reset(cloud, server, state=states.ERROR):
    cloud.set(server, vm_state=state, task_state=None)


def _is_home(cloud, server, source):
    found = cloud.get(server)
    assert (found.host, found.flavor.flavorid, found.vcpus, found.memory_mb) == (source, "1", 1, 1024)
    assert cloud.guests(source) == {server: states.RUNNING}
    assert cloud.hosts[source].host.driver.left_behind() == set()
    assert cloud.holders() == {source: [(server, 1)]}
    assert _move(cloud, server).status == "error"


@pytest.fixture
def killed(cloud, monkeypatch):
    """A resize whose new host is killed before or after a step: (server, action, old host, new host)."""
    def kill(method, when):
        server = cloud.active()
        action_id, source, dest = _resize(cloud, server)
        driver, died = cloud.hosts[dest].host.driver, []
        real = getattr(driver, method)

        def die(*given):
            if when == "after":
                real(*given)
            died.append(method)
            raise exception.ConductorAway(reason="no answer")
        with monkeypatch.context() as patched:
            patched.setattr(driver, method, die)
            cloud.rpc.run_action(cloud.context, [action_id])
            cloud.wait_for(lambda: died and not cloud.hosts[dest].leases.in_flight())
        return server, action_id, source, dest
    return kill


@pytest.mark.parametrize("state", [states.ACTIVE, states.ERROR])
def test_the_way_back_goes_on(cloud, monkeypatch, state):
    """The old host was busy, or down, when it was to bring its guest back."""
    server = cloud.active()
    action_id, source, dest = _resize(cloud, server)
    cloud.fail(f"finish_move@{dest}")
    with monkeypatch.context() as patched:
        patched.setattr(cloud.hosts[source], "_take_up", lambda ids: None)
        cloud.rpc.run_action(cloud.context, [action_id])
        cloud.wait_for(lambda: cloud.action(action_id).step == "undo")
    assert cloud.guests(source) == {}
    _reset(cloud, server, state)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    assert "finish_move" in cloud.wait(server, states.ACTIVE).fault["message"]
    _is_home(cloud, server, source)


@pytest.mark.parametrize(("method", "when"), STEPS)
def test_a_new_host_that_was_killed_goes_on(cloud, killed, method, when):
    server, action_id, source, dest = killed(method, when)
    _reset(cloud, server)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.DONE)
    found = cloud.get(server)
    assert (found.vm_state, found.task_state, found.host, found.vcpus) == (states.RESIZED, None, dest, 2)
    assert (cloud.guests(source), cloud.guests(dest)) == ({}, {server: states.RUNNING})
    assert cloud.holders() == {source: [(_move(cloud, server).uuid, 1)], dest: [(server, 2)]}


@pytest.mark.parametrize(("method", "when"), STEPS[:2])
def test_a_new_host_that_is_dead_gives_the_server_back_as_long_as_it_may_not_run_it(cloud, killed, method, when):
    server, action_id, source, dest = killed(method, when)
    _reset(cloud, server)
    cloud.silence(dest)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    cloud.wait(server, states.ACTIVE)
    _is_home(cloud, server, source)


def test_a_new_host_that_may_run_it_is_waited_for(cloud, killed):
    server, action_id, source, dest = killed("finish_move", "after")
    _reset(cloud, server)
    cloud.silence(dest)
    cloud.expire(action_id)
    cloud.sweep()
    assert (cloud.action(action_id).state, cloud.action(action_id).host) == (objects.PENDING, dest)
    assert (cloud.guests(source), cloud.guests(dest)) == ({}, {server: states.RUNNING})


def test_one_that_is_given_up_then_is_where_it_may_run(cloud, killed):
    server, action_id, source, dest = killed("finish_move", "after")
    _reset(cloud, server)
    table = models.instance_actions
    cloud.run(sa.update(table).where(table.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    found = cloud.get(server)
    assert (found.vm_state, found.host, found.flavor.flavorid, found.vcpus) == (states.ERROR, dest, "2", 2)
    assert cloud.holders() == {source: [(_move(cloud, server).uuid, 1)], dest: [(server, 2)]}


def test_one_that_has_not_begun_is_dropped_and_counts_as_what_it_is(cloud, monkeypatch):
    server = cloud.active()
    action_id, source, dest = _resize(cloud, server)
    with monkeypatch.context() as patched:
        patched.setattr(cloud.hosts[dest], "_take_up", lambda ids: None)
        cloud.rpc.run_action(cloud.context, [action_id])
        cloud.wait_for(lambda: cloud.action(action_id).host == dest)
    _reset(cloud, server, states.ACTIVE)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    _is_home(cloud, server, source)
