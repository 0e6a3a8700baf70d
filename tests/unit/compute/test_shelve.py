"""Shelving on hosts and at the conductor: what the image, the host's room and the volumes are after each step."""
import datetime

import pytest

from nova_lite import exception, units
from nova_lite.compute import shelve as shelve_on_host
from nova_lite.compute import snapshot
from nova_lite.compute import volumes as volumes_on_host
from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, claims, networks
from nova_lite.image import base as image_base
from nova_lite.volume import base as volume_base

OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)


@pytest.fixture
def images(cloud):
    return image_base.load(cloud.conf)


def begin(cloud, server, verb, updates=None, **arguments):
    """What the API writes; the action's id."""
    def prepare(_conn, _server):
        return api.Prepared(updates or {}, arguments)
    return cloud.db.write(api._begin, OWNER, server, verb, {}, cloud.conf.conductor.lease_seconds, prepare)[0]


def wake(cloud, action_id):
    action = cloud.action(action_id)
    if action.host is None:
        cloud.rpc.run_action(admin_context(), [action_id])
    else:
        cloud.conductor.compute.wake(admin_context(), action.host, [action_id])
    return action_id


def shelve(cloud, images, server, start=True):
    """Returns action and image."""
    image_id = None
    if not cloud.get(server).is_volume_backed:
        image_id = images.create(OWNER, {"name": "s-shelved", "properties": {"image_type": "snapshot"}}).id
    action_id = begin(cloud, server, "shelve", {"system_metadata": {
        "shelved_at": "2026-11-21T00:00:00", "shelved_image_id": image_id, "shelved_host": "h",
        "other": "x"}}, image_id=image_id)
    if start:
        wake(cloud, action_id)
    return action_id, image_id


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state


def room(cloud, server):
    with cloud.db.read() as conn:
        return [c.node_id for c in claims.held_by(conn, [server]).get(server, [])]


def offloaded(cloud, images, **values):
    server = cloud.active(**values)
    action_id, image_id = shelve(cloud, images, server)
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("shelved_offloaded", None, 4)
    return server, image_id


def test_it_leaves_its_host_at_once(cloud, images):
    server = cloud.active()
    host = cloud.get(server).host
    assert room(cloud, server)
    action_id, image_id = shelve(cloud, images, server)
    cloud.wait_action(action_id, "done")
    found = cloud.get(server)
    assert state(cloud, server) == ("shelved_offloaded", None, 4)
    assert (found.host, found.node, found.availability_zone) == (None, None, None)
    assert room(cloud, server) == []
    assert cloud.guests(host) == {}
    assert b"".join(images.read(OWNER, image_id)) == f"disk of {server}\n".encode()


def test_its_ports_are_no_hosts_any_more(cloud, images):
    """A host that starts makes the rules of all ports that are bound to it."""
    server = cloud.active()
    cloud.db.write(networks.create_network, "private", "10.1.0.0/24")
    [port] = cloud.db.write(networks.allocate_ports, server, "p", "h1", [{}])
    action_id, _ = shelve(cloud, images, server)
    cloud.wait_action(action_id, "done")
    with cloud.db.read() as conn:
        assert networks.list_host_ports(conn, "h1") == []
        assert [p["uuid"] for p in networks.list_server_ports(conn, server)] == [port["uuid"]]


def test_and_comes_back_where_the_scheduler_likes(cloud, images):
    server, image_id = offloaded(cloud, images)
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve", destination="h2")), "done")
    found = cloud.get(server)
    assert state(cloud, server) == ("active", None, 1)
    assert (found.host, found.launched_on, found.availability_zone) == ("h2", "h2", "nova")
    assert (cloud.guests("h1"), cloud.guests("h2")) == ({}, {server: 1})
    assert len(room(cloud, server)) == 1
    assert found.system_metadata == {"other": "x"}
    assert images.list(OWNER) == []
    assert image_id


@pytest.mark.parametrize("verb", ["stop", "pause", "suspend"])
def test_from_each_state(cloud, images, verb):
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, verb), "done")
    cloud.wait_action(shelve(cloud, images, server)[0], "done")
    assert state(cloud, server)[0] == "shelved_offloaded"


def test_with_time_to_come_back(make_cloud):
    cloud = make_cloud("h1", compute__shelved_offload_time=60)
    images = image_base.load(cloud.conf)
    server = cloud.active()
    cloud.wait_action(shelve(cloud, images, server)[0], "done")
    assert state(cloud, server) == ("shelved", None, 4)
    assert cloud.guests("h1") == {server: 4}
    assert len(room(cloud, server)) == 1
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")
    assert state(cloud, server) == ("active", None, 1)
    assert (images.list(OWNER), cloud.guests("h1"), len(room(cloud, server))) == ([], {server: 1}, 1)


def test_the_conductor_takes_it_off_when_its_time_is_over(make_cloud):
    cloud = make_cloud("h1", compute__shelved_offload_time=60)
    server = cloud.active()
    cloud.wait_action(shelve(cloud, image_base.load(cloud.conf), server)[0], "done")
    cloud.set(server, system_metadata={**cloud.get(server).system_metadata, "shelved_at": "2999-01-01T00:00:00"})
    cloud.conductor.expiry.run()
    assert state(cloud, server) == ("shelved", None, 4)
    cloud.set(server, system_metadata={**cloud.get(server).system_metadata, "shelved_at": "2026-01-01T00:00:00"})
    cloud.conductor.expiry.run()
    cloud.wait(server, "shelved_offloaded")
    cloud.wait_for(lambda: not room(cloud, server))


def _due(make_cloud):
    """A cloud with one server that is to leave its host, which is dead."""
    cloud = make_cloud("h1", compute__shelved_offload_time=60)
    server = cloud.active()
    cloud.wait_action(shelve(cloud, image_base.load(cloud.conf), server)[0], "done")
    cloud.set(server, system_metadata={**cloud.get(server).system_metadata, "shelved_at": "2026-01-01T00:00:00"})
    cloud.silence("h1")
    return cloud, server


def test_nobody_asks_a_dead_host_to_let_it_go(make_cloud):
    cloud, server = _due(make_cloud)
    cloud.conductor.expiry.run()
    assert state(cloud, server) == ("shelved", None, 4)
    cloud.report("h1")
    cloud.conductor.expiry.run()
    cloud.wait(server, "shelved_offloaded")


def test_a_conductor_whose_clock_is_wrong_takes_no_host_for_dead(make_cloud, monkeypatch):
    cloud, server = _due(make_cloud)
    cloud.report("h1")
    now = units.utcnow
    with monkeypatch.context() as patch:
        patch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(hours=1))
        cloud.conductor.expiry.run()
    cloud.wait(server, "shelved_offloaded")


def test_who_just_gets_a_volume_leaves_its_host_later(make_cloud):
    cloud, server = _due(make_cloud)
    cloud.report("h1")
    attach = begin(cloud, server, "attach_volume")
    cloud.conductor.expiry.run()
    assert state(cloud, server) == ("shelved", None, 4)
    cloud.db.write(actions.finish, [attach])
    cloud.conductor.expiry.run()
    cloud.wait(server, "shelved_offloaded")


def test_a_host_that_dies_over_it_leaves_it_on_its_shelf(make_cloud):
    cloud, server = _due(make_cloud)
    offload = begin(cloud, server, "shelveOffload")
    cloud.expire(offload)
    cloud.sweep()
    cloud.wait_action(offload, "error")
    assert (state(cloud, server), cloud.get(server).host) == (("shelved", None, 4), "h1")


# failures -----------------------------------------------------------------------------------------------------------------
def test_a_copy_that_fails_leaves_it_off_and_no_image(cloud, images):
    server = cloud.active()
    cloud.fail("snapshot")
    cloud.wait_action(shelve(cloud, images, server)[0], "error")
    assert state(cloud, server) == ("stopped", None, 4)
    assert "[fake] fail = snapshot" in cloud.get(server).fault["message"]
    assert images.list(OWNER) == []


def test_an_offload_that_fails_can_be_done_again(cloud, images):
    server = cloud.active()
    cloud.fail("destroy")
    cloud.wait_action(shelve(cloud, images, server)[0], "error")
    assert state(cloud, server) == ("shelved", None, 4)
    assert len(room(cloud, server)) == 1
    cloud.fail()
    cloud.wait_action(wake(cloud, begin(cloud, server, "shelveOffload")), "done")
    assert state(cloud, server) == ("shelved_offloaded", None, 4)
    assert room(cloud, server) == []


def test_without_a_host_it_stays_on_its_shelf(cloud, images):
    server, _ = offloaded(cloud, images)
    action_id = begin(cloud, server, "unshelve", destination="h9")
    cloud.wait_action(wake(cloud, action_id), "error")
    assert state(cloud, server)[:2] == ("shelved_offloaded", None)
    assert cloud.get(server).host is None
    assert room(cloud, server) == []
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")


def test_a_build_that_fails_puts_it_back(cloud, images):
    server, image_id = offloaded(cloud, images)
    cloud.fail("spawn")
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "error")
    assert state(cloud, server) == ("shelved_offloaded", None, 4)
    assert "[fake] fail = spawn" in cloud.get(server).fault["message"]
    assert (cloud.get(server).host, room(cloud, server)) == (None, [])
    assert [i.id for i in images.list(OWNER)] == [image_id]
    cloud.fail()
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")
    assert state(cloud, server) == ("active", None, 1)


def test_an_image_that_is_gone_is_an_error(cloud, images):
    server, image_id = offloaded(cloud, images)
    images.delete(OWNER, image_id)
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "error")
    assert state(cloud, server)[:2] == ("error", None)
    assert image_id in cloud.get(server).fault["message"]
    assert room(cloud, server) == []


# workers that die ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("task_state", "guest_is_there"), [
    ("shelving", True), ("shelving_image_pending_upload", True), ("shelving_image_uploading", True),
    ("shelving_offloading", True), ("shelving_offloading", False)])
def test_a_shelve_is_taken_over_anywhere(cloud, images, task_state, guest_is_there):
    server = cloud.active()
    host = cloud.get(server).host
    action_id, image_id = shelve(cloud, images, server, start=False)
    assert cloud.claim(action_id, host, "dead-worker")
    cloud.set(server, task_state=task_state)
    if task_state == "shelving_offloading":
        images.upload(OWNER, image_id, [b"all"])
    if not guest_is_there:
        cloud.hosts[host].host.driver._set(server, None)
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("shelved_offloaded", None, 4)
    assert (cloud.guests(host), room(cloud, server)) == ({}, [])
    assert images.get(OWNER, image_id).status == "active"


def test_an_unshelve_whose_conductor_died_with_a_claim(cloud, images):
    server, _ = offloaded(cloud, images)
    action_id = begin(cloud, server, "unshelve")
    with cloud.db.read() as conn:
        node = conn.exec_driver_sql("select id from compute_nodes where host = 'h1'").scalar()
    assert cloud.db.write(claims.claim, server, node, 1, 1024, 10)
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("active", None, 1)
    assert len(room(cloud, server)) == 1


def test_an_unshelve_whose_host_dies_goes_back_to_the_shelf(cloud, images, monkeypatch):
    server, _ = offloaded(cloud, images)
    action_id = begin(cloud, server, "unshelve", destination="h2")
    manager = cloud.hosts["h2"]
    monkeypatch.setattr(manager, "_take_up", lambda ids: None)
    wake(cloud, action_id)
    cloud.wait_for(lambda: cloud.get(server).host == "h2")
    cloud.silence("h2")
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "error")
    assert state(cloud, server)[:2] == ("shelved_offloaded", None)
    assert (cloud.get(server).host, room(cloud, server)) == (None, [])


def lost_in_the_middle(cloud, images, monkeypatch):
    """An unshelve on h2, which is taken for dead while it spawns; what lets it go on."""
    server, _ = offloaded(cloud, images)
    held, go_on = cloud.hold(monkeypatch, "spawn")
    action_id = wake(cloud, begin(cloud, server, "unshelve", destination="h2"))
    cloud.wait_for(held.is_set)
    cloud.silence("h2")
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "error")
    return go_on


def test_an_unshelve_whose_host_was_only_cut_off_leaves_no_guest_there(cloud, images, monkeypatch):
    lost_in_the_middle(cloud, images, monkeypatch).set()
    cloud.wait_for(lambda: not cloud.hosts["h2"].leases.in_flight())
    assert cloud.guests("h2") == {}


def test_who_lost_an_unshelve_and_fails_leaves_the_volumes_alone(cloud, images, monkeypatch):
    go_on = lost_in_the_middle(cloud, images, monkeypatch)
    released = []
    monkeypatch.setattr(shelve_on_host, "_release_volumes", lambda *_: released.append(True))
    cloud.fail("spawn@h2")
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts["h2"].leases.in_flight())
    assert (released, cloud.guests("h2")) == ([], {})


def _killed_after_discard(cloud, server, monkeypatch):
    """An unshelve at h2 whose daemon is killed just after the image has gone; its action."""
    real, killed = snapshot.discard, []

    def dies(work, image_id):
        real(work, image_id)
        if not killed:
            killed.append(image_id)
            raise exception.LeaseLost(action_id=work.action.id, owner="killed")     # as after SIGKILL nothing more is told
    monkeypatch.setattr(snapshot, "discard", dies)
    action_id = wake(cloud, begin(cloud, server, "unshelve", destination="h2"))
    cloud.wait_for(lambda: killed and not cloud.hosts["h2"].leases.in_flight())
    cloud.expire(action_id)
    return action_id


def test_an_unshelve_that_is_killed_once_its_image_is_gone_keeps_the_guest(cloud, images, monkeypatch):
    server, _ = offloaded(cloud, images)
    action_id = _killed_after_discard(cloud, server, monkeypatch)
    cloud.sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("active", None, 1)
    assert (cloud.guests("h2"), cloud.get(server).host, len(room(cloud, server))) == ({server: 1}, "h2", 1)
    assert (cloud.get(server).system_metadata, images.list(OWNER)) == ({"other": "x"}, [])
    # and on the next shelf it has another image
    cloud.wait_action(shelve(cloud, images, server)[0], "done")
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")
    assert state(cloud, server) == ("active", None, 1)


def test_so_does_a_host_that_dies_then(cloud, images, monkeypatch):
    """The image is gone: back on its shelf the server would be built of nothing."""
    server, _ = offloaded(cloud, images)
    action_id = _killed_after_discard(cloud, server, monkeypatch)
    cloud.silence("h2")
    cloud.sweep()
    cloud.wait_action(action_id, "error")
    assert (state(cloud, server), cloud.get(server).host) == (("active", None, 1), "h2")
    cloud.report("h2")
    cloud.sync("h2")
    assert (cloud.guests("h2"), len(room(cloud, server))) == ({server: 1}, 1)


def test_an_image_that_somebody_deletes_meanwhile_takes_no_guest(cloud, images, monkeypatch):
    server, image_id = offloaded(cloud, images)
    real, killed = volumes_on_host.complete_all, []

    def dies(work):
        if not killed:
            killed.append(work)
            raise exception.LeaseLost(action_id=work.action.id, owner="killed")
        real(work)
    monkeypatch.setattr(volumes_on_host, "complete_all", dies)
    action_id = wake(cloud, begin(cloud, server, "unshelve", destination="h2"))
    cloud.wait_for(lambda: killed and not cloud.hosts["h2"].leases.in_flight())
    images.delete(OWNER, image_id)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "done")
    assert (state(cloud, server), cloud.guests("h2")) == (("active", None, 1), {server: 1})


def test_a_delete_of_what_is_on_the_shelf(cloud, images):
    server, _ = offloaded(cloud, images)
    cloud.wait_action(cloud.operate(server, "delete"), "done")
    assert cloud.get(server).deleted


def test_a_delete_during_unshelve_leaves_nothing(cloud, images):
    server, _ = offloaded(cloud, images)
    cloud.delay(0.3)
    unshelve = wake(cloud, begin(cloud, server, "unshelve"))
    cloud.wait_for(lambda: cloud.get(server).host is not None)
    delete = cloud.operate(server, "delete")
    cloud.wait_action(delete, "done")
    cloud.wait_for(lambda: cloud.action(unshelve).state in ("done", "error"))
    assert (cloud.guests("h1"), cloud.guests("h2"), room(cloud, server)) == ({}, {}, [])


# volumes ------------------------------------------------------------------------------------------------------------------
def test_volumes_stay_reserved_and_come_along(cloud, images):
    volumes = volume_base.load(cloud.conf)
    made = [volumes.create(OWNER, 1).id for _ in range(2)]
    devices = [{"id": f"d{n}", "source_type": "volume", "destination_type": "volume", "source_id": one, "volume_id": one,
                "boot_index": None if n else 0} for n, one in enumerate(made)]
    server, image_id = offloaded(cloud, images, block_devices=devices)
    assert image_id is None         # it boots from a volume: nothing is copied
    assert {volumes.get(OWNER, one).status for one in made} == {"reserved"}
    assert all(d.connection_info is None and not d.attached for d in cloud.get(server).volumes)
    assert {d.attachment_id for d in cloud.get(server).volumes} == {a.id for a in volumes.attachments(OWNER, server)}
    cloud.fail("spawn")
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "error")
    assert {volumes.get(OWNER, one).status for one in made} == {"reserved"}
    cloud.fail()
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")
    assert {volumes.get(OWNER, one).status for one in made} == {"in-use"}
    assert all(d.connection_info and d.attached for d in cloud.get(server).volumes)
    assert len(volumes.attachments(OWNER, server)) == 2
