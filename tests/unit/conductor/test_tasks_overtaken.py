"""What a conductor's task has found a place for is deleted, or declared idle, while the scheduler chooses."""
import pytest

from nova_lite.db import claims
from nova_lite.objects import action as objects
from nova_lite.objects import states


def _ready_for(cloud, verb):
    """A server that the operation can begin with."""
    server = cloud.active()
    if verb == "unshelve":
        found = cloud.get(server)
        cloud.hosts[found.host].host.driver.destroy(found, [])
        cloud.db.write(claims.release, server)
        cloud.set(server, vm_state=states.SHELVED_OFFLOADED, host=None, node=None)
    return server


def _meanwhile(cloud, monkeypatch, what, when="after"):
    """``what`` happens before or after the scheduler has claimed a place for the task, which does not know it yet."""
    scheduler = cloud.conductor.tasks._tools.scheduler
    choose = scheduler.select_destinations

    def slow(context, spec, uuids):
        if when == "before":
            what(uuids[0])
        places = choose(context, spec, uuids)
        if when == "after":
            what(uuids[0])
        return places
    monkeypatch.setattr(scheduler, "select_destinations", slow)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["migrate", "unshelve"])
def test_a_delete_while_the_scheduler_chooses_leaves_no_claim(cloud, monkeypatch, verb, when):
    server = _ready_for(cloud, verb)

    def delete(uuid):
        cloud.wait_action(cloud.operate(uuid, "delete"), objects.DONE)
    _meanwhile(cloud, monkeypatch, delete, when)
    action_id = cloud.operate(server, verb)
    cloud.wait_action(action_id, objects.ERROR)
    cloud.wait_for(lambda: not cloud.conductor.leases._ids)
    assert cloud.get(server).deleted
    assert cloud.claimed() == {}


@pytest.mark.parametrize("then", [states.DELETING, None])
def test_an_unshelve_that_is_overtaken_ends_and_holds_no_room(cloud, monkeypatch, then):
    """By a delete that has just begun, or by os-resetState: neither closes the action."""
    server = _ready_for(cloud, "unshelve")
    _meanwhile(cloud, monkeypatch, lambda uuid: cloud.set(uuid, task_state=then))
    action_id = cloud.operate(server, "unshelve")
    cloud.wait_action(action_id, objects.ERROR)
    found = cloud.get(server)
    assert (found.vm_state, found.task_state, found.host) == (states.SHELVED_OFFLOADED, then, None)
    assert cloud.claimed() == {}
