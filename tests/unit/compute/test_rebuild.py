"""Rebuilds on a host: the guest is another one, all else is as it was, however often the worker dies."""
import pytest

from nova_lite import exception
from nova_lite.compute import rebuild
from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions
from nova_lite.image import base as image_base
from nova_lite.objects import states
from nova_lite.volume import base as volume_base

OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)
FILES = [{"path": "/root/key", "contents": "czNjcmV0"}]


def beginning(volumes, volume):
    """The first bytes of a volume, which is a file of a GiB."""
    with volumes._data(volume).path.open("rb") as data:
        return data.read(16)


@pytest.fixture
def images(cloud):
    return image_base.load(cloud.conf)


def add_image(images, content=b"new"):
    made = images.create(OWNER, {"name": "new", "visibility": "private"})
    return images.upload(OWNER, made.id, [content])


def begin(cloud, server, image, wake=True, updates=None, **arguments):
    """What the API does; returns the action's id."""
    def prepare(_conn, _server):
        return api.Prepared({"image": image, "image_ref": image.id, **(updates or {})}, arguments)
    action_id, host = cloud.db.write(api._begin, OWNER, server, "rebuild", {}, cloud.conf.conductor.lease_seconds, prepare)
    if wake:
        cloud.conductor.compute.wake(admin_context(), host, [action_id])
    return action_id


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state


@pytest.mark.parametrize(("before", "after", "power"), [("active", "active", 1), ("stopped", "stopped", 4),
                                                        ("error", "active", 1)])
def test_it_ends_as_it_was(cloud, images, before, after, power):
    server = cloud.active()
    if before == "stopped":
        cloud.operate(server, "stop")
        cloud.wait(server, "stopped")
    cloud.set(server, vm_state=before, fault={"message": "old"} if before == "error" else None)
    image = add_image(images)
    launched = cloud.get(server).launched_at
    action_id = begin(cloud, server, image, updates={"personality": [{"path": "/a", "contents": ""}]})
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == (after, None, power)
    found = cloud.get(server)
    assert cloud.guests(found.host) == {server: power}
    assert (found.image_ref, found.fault, found.personality) == (image.id, None, None)
    assert found.launched_at > launched


def test_its_steps(cloud, images, monkeypatch):
    server = cloud.active()
    seen, host = [], cloud.hosts[cloud.get(server).host].host
    for name in ("check_spawn", "power_off", "clear", "spawn"):
        def note(*arguments, _name=name, _real=getattr(host.driver, name), **named):
            seen.append((_name, cloud.get(server).task_state))
            return _real(*arguments, **named)
        monkeypatch.setattr(host.driver, name, note)
    cloud.wait_action(begin(cloud, server, add_image(images)), "done")
    assert seen == [("check_spawn", "rebuilding"), ("power_off", "rebuilding"),
                    ("clear", "rebuild_block_device_mapping"), ("spawn", "rebuild_spawning")]


@pytest.mark.parametrize("step", ["power_off", "clear", "spawn"])
def test_a_failure_says_why_and_the_next_rebuild_heals_it(cloud, images, step):
    server = cloud.active(image=add_image(images, b"old"))
    old, image = cloud.get(server), add_image(images)
    before = {"image_ref": old.image_ref, "image": old.image.to_primitive()}
    cloud.fail(step)
    cloud.wait_action(begin(cloud, server, image, before=before), "error")
    found = cloud.get(server)
    assert state(cloud, server)[:2] == ("error", None)
    assert f"[fake] fail = {step}" in found.fault["message"]
    # that of the disk, which a guest that does not end keeps
    assert found.image.id == (old.image.id if step == "power_off" else image.id)
    cloud.fail()
    cloud.wait_action(begin(cloud, server, image), "done")
    assert state(cloud, server) == ("active", None, 1)
    assert list(cloud.guests(found.host)) == [server]


@pytest.mark.parametrize("hypervisor_is_gone", [False, True])
def test_a_disk_that_is_full_costs_no_disk(make_cloud, tmp_path, monkeypatch, hypervisor_is_gone):
    cloud = make_cloud("h1", fake__fetch_images=True)
    images, driver = image_base.load(cloud.conf), cloud.hosts["h1"].host.driver
    server = cloud.active(image=add_image(images, b"old"))
    old, image = cloud.get(server), add_image(images)
    full = tmp_path / "full"
    full.symlink_to("/dev/full")

    def cache_image(wanted, fetch):
        if hypervisor_is_gone:
            monkeypatch.setattr(driver, "power_state", unanswered)
        fetch(wanted.id, str(full))

    def unanswered(_instance):
        raise exception.VirtDriverError(what="libvirt", reason="nobody listens")
    monkeypatch.setattr(driver, "cache_image", cache_image)
    before = {"image_ref": old.image_ref, "image": old.image.to_primitive()}
    cloud.wait_action(begin(cloud, server, image, before=before), "error")
    assert state(cloud, server) == ("error", None, 1)
    found = cloud.get(server)
    assert (found.image_ref, found.image) == (old.image_ref, old.image)     # that of the disk
    assert cloud.guests("h1") == {server: 1}


def test_an_image_that_is_gone_costs_no_disk(make_cloud):
    cloud = make_cloud("h1", fake__fetch_images=True)
    images = image_base.load(cloud.conf)
    server = cloud.active(image=add_image(images, b"old"))
    old, image = cloud.get(server), add_image(images)
    images.delete(OWNER, image.id)
    before = {"image_ref": old.image_ref, "image": old.image.to_primitive(), "config_drive": False}
    cloud.wait_action(begin(cloud, server, image, updates={"config_drive": True}, before=before), "error")
    assert state(cloud, server) == ("error", None, 1)
    found = cloud.get(server)
    assert "is not there any more" in found.fault["message"]
    assert (found.image_ref, found.image, found.config_drive) == (old.image_ref, old.image, False)     # those of the disk
    assert cloud.guests("h1") == {server: 1}


@pytest.mark.parametrize(("before", "power"), [("active", 1), ("stopped", 4)])
def test_a_guest_that_the_host_cannot_make_costs_no_disk(cloud, images, before, power):
    server = cloud.active(image=add_image(images, b"old"))
    if before == "stopped":
        cloud.operate(server, "stop")
        cloud.wait(server, "stopped")
    old = cloud.get(server)
    cloud.fail("check_spawn")
    image = {"image_ref": old.image_ref, "image": old.image.to_primitive()}
    cloud.wait_action(begin(cloud, server, add_image(images), before=image), "error")
    assert state(cloud, server) == (before, None, power)
    found = cloud.get(server)
    assert (found.image_ref, found.image) == (old.image_ref, old.image)
    assert "[fake] fail = check_spawn" in found.fault["message"]
    assert cloud.guests(found.host) == {server: power}


@pytest.mark.parametrize("task_state", ["rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"])
@pytest.mark.parametrize("guest_is_there", [True, False])
def test_a_worker_that_died_anywhere_is_followed_by_one_that_ends_it(cloud, images, task_state, guest_is_there):
    server = cloud.active()
    host = cloud.get(server).host
    action_id = begin(cloud, server, add_image(images), wake=False)
    assert cloud.claim(action_id, host, "dead-worker")
    cloud.set(server, task_state=task_state)
    if not guest_is_there:
        cloud.hosts[host].host.driver._set(server, None)
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("active", None, 1)
    assert cloud.guests(host) == {server: 1}


def test_who_lost_it_while_the_image_came_starts_no_guest(cloud, images, monkeypatch):
    """The server is evacuated, perhaps."""
    server, _, _ = on_volumes(cloud, images)
    held, go_on = cloud.hold(monkeypatch, "spawn")
    action_id = begin(cloud, server, add_image(images))
    assert held.wait(30)
    cloud.db.write(actions.finish, [action_id], "it failed")
    go_on.set()
    host = cloud.get(server).host
    cloud.wait_for(lambda: not cloud.hosts[host].leases.in_flight())
    assert cloud.guests(host) == {}


def test_a_delete_ends_it(cloud, images):
    server = cloud.active()
    cloud.delay(0.2)
    action_id = begin(cloud, server, add_image(images))
    delete = cloud.operate(server, "delete")
    cloud.wait_action(delete, "done")
    cloud.wait_action(action_id, "error")
    host = cloud.get(server).host
    cloud.wait_for(lambda: not cloud.guests(host))
    assert cloud.get(server).deleted


# volumes ----------------------------------------------------------------------------------------------------------------
def on_volumes(cloud, images):
    """A server that boots from one volume and has another; the volumes' ids."""
    volumes = volume_base.load(cloud.conf)
    made = [volumes.create(OWNER, 1).id for _ in range(2)]
    devices = [{"id": f"d{n}", "source_type": "volume", "destination_type": "volume", "source_id": one, "volume_id": one,
                "boot_index": None if n else 0} for n, one in enumerate(made)]
    server = cloud.active(block_devices=devices, image=add_image(images, b"old"))
    return server, volumes, made


def test_volumes_stay(cloud, images):
    server, volumes, made = on_volumes(cloud, images)
    before = {a.id for a in volumes.attachments(OWNER, server)}
    cloud.wait_action(begin(cloud, server, add_image(images), updates={"image_ref": ""}), "done")
    assert {a.id for a in volumes.attachments(OWNER, server)} == before
    assert {volumes.get(OWNER, one).status for one in made} == {"in-use"}
    assert all(d.attached and d.connection_info for d in cloud.get(server).volumes)


@pytest.mark.parametrize("dies_at", [None, "before", "after"])
def test_the_root_volume_is_written_anew(cloud, images, monkeypatch, dies_at):
    server, volumes, made = on_volumes(cloud, images)
    image = images.upload(OWNER, images.create(OWNER, {"name": "r", "visibility": "private", "disk_format": "raw"}).id,
                          [b"reimaged" * 64])
    host = cloud.hosts[cloud.get(server).host].host
    real, calls = host.volume.reimage, []

    def reimage(*arguments):
        calls.append(arguments)
        if dies_at == "after":
            real(*arguments)
        if dies_at and len(calls) == 1:
            raise exception.ConductorAway(reason="no answer")      # as a process that is killed: nobody is told
        real(*arguments)
    monkeypatch.setattr(host.volume, "reimage", reimage)
    action_id = begin(cloud, server, image, updates={"image_ref": ""}, reimage=image.id)
    if dies_at:
        cloud.wait_for(lambda: calls)
        cloud.wait_for(lambda: not cloud.hosts[host.name].leases.in_flight())
        cloud.expire(action_id)
        cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("active", None, 1)
    volume = volumes.get(OWNER, made[0])
    assert (volume.status, volume.image_metadata["image_id"]) == ("in-use", image.id)
    assert beginning(volumes, made[0]).startswith(b"reimaged")
    assert len(volumes.attachments(OWNER, server)) == 2
    assert all(d.attached for d in cloud.get(server).volumes)


def write_slowly(volume, monkeypatch):
    """The Volume service writes images after its answer: each is there when the host has looked three times. Answers the list
    of the images that it was asked for."""
    asked, looks = [], []
    real_get, real_reimage = volume.get, volume.reimage

    def reimage(_context, _volume_id, image_id):
        assert not looks, "409: it is downloading"
        asked.append(image_id)
        looks.extend("123")

    def get(context, volume_id):
        found = real_get(context, volume_id)
        if looks:
            found.status = rebuild.DOWNLOADING
            looks.pop()
            if not looks:
                real_reimage(context, volume_id, asked[-1])
        return found
    monkeypatch.setattr(volume, "reimage", reimage)
    monkeypatch.setattr(volume, "get", get)
    return asked


def raw_image(images, content):
    made = images.create(OWNER, {"name": "raw", "visibility": "private", "disk_format": "raw"})
    return images.upload(OWNER, made.id, [content * 64])


def test_the_image_of_an_earlier_rebuild_that_is_still_being_written_is_not_its_own(cloud, images, monkeypatch):
    server, volumes, made = on_volumes(cloud, images)
    asked = write_slowly(cloud.hosts[cloud.get(server).host].host.volume, monkeypatch)
    first, second = raw_image(images, b"first"), raw_image(images, b"second")
    cloud.clock.skips = 3600.0
    cloud.wait_action(begin(cloud, server, first, updates={"image_ref": ""}, reimage=first.id), "error")
    cloud.clock.skips = 0.0
    assert "downloading" in cloud.get(server).fault["message"]
    cloud.wait_action(begin(cloud, server, second, updates={"image_ref": ""}, reimage=second.id), "done")
    assert asked == [first.id, second.id]
    assert beginning(volumes, made[0]).startswith(b"second")
    assert state(cloud, server) == ("active", None, 1)


def test_an_image_that_a_killed_run_has_asked_for_is_waited_for(cloud, images, monkeypatch):
    server, volumes, made = on_volumes(cloud, images)
    host = cloud.hosts[cloud.get(server).host].host
    asked, image = write_slowly(host.volume, monkeypatch), raw_image(images, b"image")
    ask = host.volume.reimage

    def killed(*arguments):
        ask(*arguments)
        raise exception.ConductorAway(reason="no answer")
    monkeypatch.setattr(host.volume, "reimage", killed)
    action_id = begin(cloud, server, image, updates={"image_ref": ""}, reimage=image.id)
    cloud.wait_for(lambda: asked)
    cloud.wait_for(lambda: not cloud.hosts[host.name].leases.in_flight())
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert asked == [image.id]
    assert beginning(volumes, made[0]).startswith(b"image")


def test_a_volume_that_cannot_be_written_ends_in_error_and_heals(cloud, images):
    server, volumes, made = on_volumes(cloud, images)
    big = images.create(OWNER, {"name": "big", "visibility": "private", "disk_format": "raw"})
    big = images.upload(OWNER, big.id, [b"x"])
    images.delete(OWNER, big.id)
    cloud.wait_action(begin(cloud, server, big, updates={"image_ref": ""}, reimage=big.id), "error")
    assert big.id in cloud.get(server).fault["message"]
    assert volumes.get(OWNER, made[0]).status == "reserved"
    cloud.wait_action(begin(cloud, server, add_image(images), updates={"image_ref": ""}), "done")
    assert {volumes.get(OWNER, one).status for one in made} == {"in-use"}
    assert states.status(*state(cloud, server)[:2]) == "ACTIVE"


def test_the_files_of_a_rebuild_that_fails_are_forgotten(cloud, images):
    server, image = cloud.active(), add_image(images)
    cloud.fail("spawn")
    cloud.wait_action(begin(cloud, server, image, updates={"personality": FILES}), "error")
    assert cloud.get(server).personality is None


def test_the_files_of_a_server_that_is_deleted_while_it_is_built_are_forgotten(cloud, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    [server] = cloud.build(personality=FILES)
    assert held.wait(20)
    assert cloud.get(server).personality == FILES
    cloud.operate(server, "delete")
    go_on.set()
    cloud.wait_for(lambda: cloud.get(server).deleted, 30)
    assert cloud.get(server).personality is None
