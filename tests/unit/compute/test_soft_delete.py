"""Soft deletes: off, brought back, or gone for good when the time is over."""
import datetime

import pytest

from nova_lite import exception, operations, units
from nova_lite.compute.api import ComputeAPI
from nova_lite.db import actions, clock, moves, quotas
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.objects import states
from nova_lite.volume import base as volume_base


@pytest.fixture
def cloud(make_cloud):
    return make_cloud("h1", compute__reclaim_instance_interval=3600)


@pytest.fixture
def api(cloud):
    """What users ask, with all that it writes."""
    neighbours = image_base.load(cloud.conf), network_base.load(cloud.conf, None), volume_base.load(cloud.conf)
    return ComputeAPI(cloud.conf, cloud.db, cloud.transport, *neighbours)


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state


def test_off_and_on_again(cloud):
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    assert state(cloud, server) == ("soft-delete", None, 4)
    assert cloud.guests("h1") == {server: 4}
    with cloud.db.read() as conn:
        assert quotas.usage(conn, "p")["instances"] == 0
    cloud.wait_action(cloud.operate(server, "restore"), "done")
    assert state(cloud, server) == ("active", None, 1)
    with cloud.db.read() as conn:
        assert quotas.usage(conn, "p")["instances"] == 1


@pytest.mark.parametrize("verb", ["restore", "delete"])
def test_a_server_that_was_on_a_shelf_leaves_no_image(cloud, api, verb):
    """Neither when its time is over nor when it is brought back: until then the image may be wanted."""
    images, server = image_base.load(cloud.conf), cloud.active()
    image = images.create(cloud.context, {"name": "vm-shelved"}).id
    noted = {"shelved_image_id": image, "shelved_at": "now", "other": "kept"}
    cloud.set(server, vm_state=states.SHELVED, system_metadata=noted)
    api.delete(cloud.context, server)
    cloud.wait(server, states.SOFT_DELETED)
    assert images.get(cloud.context, image).id == image
    if verb == "delete":
        cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(hours=2))
        cloud.conductor.expiry.run()
        cloud.wait_for(lambda: cloud.get(server).deleted)
    else:
        api.restore(cloud.context, server)
        assert cloud.wait(server, states.ACTIVE).system_metadata == {"other": "kept"}
    with pytest.raises(exception.ImageNotFound):
        images.get(cloud.context, image)


@pytest.mark.parametrize("image_is_away", [False, True])
def test_nor_does_one_whose_host_is_dead(cloud, api, monkeypatch, image_is_away):
    images, server = image_base.load(cloud.conf), cloud.active()
    image = images.create(cloud.context, {"name": "vm-shelved"}).id
    cloud.set(server, vm_state=states.SHELVED, system_metadata={"shelved_image_id": image})
    api.delete(cloud.context, server)
    cloud.wait(server, states.SOFT_DELETED)
    cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(hours=2))
    cloud.silence("h1")
    cloud.conductor.compute.wake = lambda *arguments: None

    def is_away(*arguments):
        raise exception.ServiceUnavailable(what="Glance", reason="it does not answer")
    if image_is_away:       # it keeps no server from going
        monkeypatch.setattr(type(images), "delete", is_away)
    cloud.conductor.expiry.run()
    cloud.expire()
    cloud.sweep()
    cloud.wait_for(lambda: cloud.get(server).deleted)
    if not image_is_away:
        with pytest.raises(exception.ImageNotFound):
            images.get(cloud.context, image)


def test_one_in_trouble_whose_host_is_dead_leaves_its_shelf_alone(cloud):
    """The image may be all that its user has of it."""
    images, server = image_base.load(cloud.conf), cloud.active()
    image = images.create(cloud.context, {"name": "vm-shelved"}).id
    cloud.set(server, vm_state=states.ERROR, system_metadata={"shelved_image_id": image})
    cloud.silence("h1")
    cloud.begin(server, "delete")
    cloud.expire()
    cloud.sweep()
    cloud.wait_for(lambda: cloud.get(server).deleted)
    assert images.get(cloud.context, image).id == image


@pytest.mark.parametrize(("verb", "step", "vm_state"), [("soft_delete", "power_off", "active"),
                                                        ("restore", "power_on", "soft-delete")])
def test_what_fails_leaves_it_as_it_was(cloud, verb, step, vm_state):
    server = cloud.active()
    if verb == "restore":
        cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    cloud.fail(step)
    cloud.wait_action(cloud.operate(server, verb), "error")
    assert state(cloud, server)[:2] == (vm_state, None)
    assert step in cloud.get(server).fault["message"]


@pytest.mark.parametrize("task_state", [states.RESIZE_MIGRATING, states.RESIZE_REVERTING, states.MIGRATING, states.REBUILDING,
                                        states.UNSHELVING])
def test_what_is_in_pieces_cannot_be_deleted_softly(cloud, task_state):
    server = cloud.active()
    cloud.set(server, task_state=task_state)
    with pytest.raises(exception.InstanceInvalidState, match=task_state):
        operations.check(operations.VERBS["soft_delete"], cloud.get(server))
    operations.check(operations.VERBS["delete"], cloud.get(server))


def test_it_confirms_the_move_that_waited_for_its_users_word(make_cloud):
    cloud = make_cloud("h1", "h2", compute__reclaim_instance_interval=3600)
    server = cloud.active()
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    cloud.operate(server, "migrate", {"flavor": cloud.get(server).flavor.to_primitive()})
    cloud.wait(server, "resized", 20)
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    with cloud.db.read() as conn:
        assert [m.status for m in moves.list_all(conn, {"instance_uuid": server})] == ["confirmed"]
    assert [(host, [uuid for uuid, _ in held]) for host, held in cloud.holders().items() if held] == [(new, [server])]
    cloud.wait_action(cloud.operate(server, "restore"), "done")
    assert (state(cloud, server), cloud.get(server).host) == (("active", None, 1), new)
    cloud.hosts[old].look_for_left_behind(None, [server])
    cloud.wait_for(lambda: not cloud.hosts[old].host.driver.left_behind())


def test_a_conductor_whose_clock_is_wrong_deletes_nothing_early(make_cloud, monkeypatch):
    cloud = make_cloud("h1", compute__reclaim_instance_interval=60)
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    cloud.set(server, deleted_at=units.utcnow())
    now = units.utcnow
    with monkeypatch.context() as patch:
        patch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(hours=1))
        cloud.conductor.expiry.run()
    assert cloud.get(server).task_state is None
    assert not cloud.get(server).deleted


@pytest.mark.parametrize("verb", ["soft_delete", "restore"])
def test_a_worker_that_died_is_followed_by_another(cloud, verb):
    server = cloud.active()
    if verb == "restore":
        cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    action_id = cloud.begin(server, verb)
    assert cloud.claim(action_id, "h1", "dead-worker")
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server)[0] == ("active" if verb == "restore" else "soft-delete")


def test_its_time_is_over_after_the_interval(cloud):
    servers = [cloud.active() for _ in range(2)]
    for server in servers:
        cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    hour = datetime.timedelta(seconds=3601)
    cloud.set(servers[0], deleted_at=units.utcnow() - hour)
    cloud.set(servers[1], deleted_at=units.utcnow())
    cloud.conductor.expiry.run()
    cloud.wait_for(lambda: cloud.get(servers[0]).deleted)
    assert cloud.guests("h1") == {servers[1]: 4}
    assert state(cloud, servers[1]) == ("soft-delete", None, 4)


def test_one_whose_delete_fails_for_good_is_tried_again(cloud):
    """A neighbour was away for a minute: in ERROR it would count and be there for ever, and nobody would look at it."""
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    over = units.utcnow() - datetime.timedelta(hours=2)
    cloud.set(server, deleted_at=over)
    cloud.fail("destroy")
    cloud.conductor.expiry.run()
    cloud.wait_for(lambda: cloud.get(server).fault)
    assert state(cloud, server)[:2] == ("soft-delete", None)
    assert "destroy" in cloud.get(server).fault["message"]
    assert cloud.get(server).deleted_at == over
    cloud.fail()
    cloud.conductor.expiry.run()
    cloud.wait_for(lambda: cloud.get(server).deleted)
    assert cloud.guests("h1") == {}


@pytest.mark.parametrize("verb", ["delete", "force_delete"])
def test_one_whose_user_deletes_it_for_good_tells_that_it_failed(cloud, verb):
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    cloud.fail("destroy")
    cloud.wait_action(cloud.operate(server, verb), "error")
    assert state(cloud, server)[:2] == ("error", None)


def test_one_whose_delete_is_given_up_ends_in_error(cloud):
    """What kills each daemon that does it must not do so every minute."""
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(hours=2))
    cloud.conductor.compute.wake = lambda *arguments: None
    cloud.conductor.expiry.run()
    with cloud.db.read() as conn:
        [action] = actions.open_of_instances(conn, [server])[server]
    for _ in range(cloud.conf.conductor.max_attempts):
        assert cloud.claim(action.id, "h1", "dead-worker")
        cloud.expire(action.id)
        cloud.sweep()
    assert state(cloud, server)[:2] == ("error", None)


def test_one_that_was_brought_back_and_deleted_again_while_others_go_has_its_whole_time(cloud, monkeypatch):
    servers = [cloud.active() for _ in range(2)]
    for server in servers:
        cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
        cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(hours=2))
    real, woken = cloud.conductor.compute.wake, []

    def wake(context, host, action_ids):
        woken.append(cloud.action(action_ids[0]).instance_uuid)
        for other in {*servers} - {*woken}:
            cloud.set(other, deleted_at=units.utcnow())
        real(context, host, action_ids)
    monkeypatch.setattr(cloud.conductor.compute, "wake", wake)
    cloud.conductor.expiry.run()
    [first] = woken
    [other] = {*servers} - {first}
    cloud.wait_for(lambda: cloud.get(first).deleted)
    assert (state(cloud, other), cloud.guests("h1")) == (("soft-delete", None, 4), {other: 4})


def test_a_restore_that_fails_leaves_it_its_grace(cloud, api):
    server = cloud.active()
    api.delete(cloud.context, server)
    cloud.wait(server, "soft-delete")
    before = cloud.get(server).deleted_at
    assert before is not None
    cloud.fail("power_on")
    api.restore(cloud.context, server)
    cloud.wait_for(lambda: cloud.get(server).fault)
    cloud.wait(server, "soft-delete")
    assert cloud.get(server).deleted_at >= before
    cloud.conductor.expiry.run()
    assert state(cloud, server)[:2] == ("soft-delete", None)
    cloud.fail()
    api.restore(cloud.context, server)
    cloud.wait(server, "active")
    assert cloud.get(server).deleted_at is None


def test_a_second_delete_that_fails_keeps_no_server_for_ever(cloud, api, monkeypatch):
    server = cloud.active()
    api.delete(cloud.context, server)
    cloud.wait(server, "soft-delete")
    with monkeypatch.context() as patch:
        def fails(_instance):
            patch.undo()
            raise exception.VirtDriverError(what="power state", reason="libvirtd is away")
        patch.setattr(cloud.hosts["h1"].host.driver, "power_state", fails)
        api.delete(cloud.context, server)
        cloud.wait_for(lambda: cloud.get(server).fault)
    cloud.wait(server, "soft-delete")
    assert cloud.get(server).deleted_at is not None
    with monkeypatch.context() as patch:
        now = clock.read
        patch.setattr(clock, "read", lambda conn: now(conn) + datetime.timedelta(seconds=3601))
        cloud.conductor.expiry.run()
    cloud.wait_for(lambda: cloud.get(server).deleted)


def test_what_nobody_knows_the_time_of_is_not_deleted(cloud):
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "soft_delete"), "done")
    assert cloud.get(server).deleted_at is None
    cloud.conductor.expiry.run()
    assert state(cloud, server)[:2] == ("soft-delete", None)


def test_on_a_dead_host_it_is_soft_deleted_all_the_same(cloud):
    server = cloud.active()
    action_id = cloud.begin(server, "soft_delete")
    cloud.silence("h1")
    cloud.expire(action_id)
    cloud.conductor._sweep()
    assert state(cloud, server)[:2] == ("soft-delete", None)
    assert cloud.action(action_id).state == "done"
    assert cloud.guests("h1") == {server: 1}
    cloud.report("h1")          # it was only cut off, or its guest outlived the daemon
    cloud.sync("h1")
    cloud.wait_for(lambda: cloud.guests("h1") == {server: 4})
    assert state(cloud, server) == ("soft-delete", None, 4)


def test_a_restore_that_a_dead_host_had_not_begun_leaves_it_its_grace(cloud, api):
    server = cloud.active()
    api.delete(cloud.context, server)
    cloud.wait(server, "soft-delete")
    cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(seconds=3601))
    action_id = cloud.begin(server, "restore")
    cloud.silence("h1")
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.action(action_id).state == "error"
    assert state(cloud, server)[:2] == ("soft-delete", None)
    assert "before it began 'restore'" in cloud.get(server).fault["message"]
    cloud.conductor.expiry.run()
    assert state(cloud, server)[:2] == ("soft-delete", None)
    cloud.report("h1")
    api.restore(cloud.context, server)
    assert cloud.wait(server, "active").fault is None


def test_a_guest_that_is_brought_back_meanwhile_is_not_turned_off(cloud):
    server = cloud.active()
    host = cloud.hosts["h1"]
    host._turn_off(server)      # as it was when the server was soft-deleted
    cloud.wait_for(lambda: not host._queues.is_busy(server))
    assert cloud.guests("h1") == {server: 1}
