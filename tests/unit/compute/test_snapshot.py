"""Images of servers on a host: what the image, the action and the server look like after it."""
import contextlib
import datetime
import json
import pathlib
import threading
import time

import pytest

from nova_lite import exception
from nova_lite.compute import snapshot
from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.exception import ServiceUnavailable
from nova_lite.image import base as image_base

OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)


@pytest.fixture
def images(cloud):
    return image_base.load(cloud.conf)


@pytest.fixture
def server(cloud):
    return cloud.active()


def begin(cloud, images, server, verb="createImage", wake=True, **arguments):
    """What the API does; returns action and image."""
    properties = {"instance_uuid": server, "image_type": "snapshot"}
    if verb == "createBackup":
        properties |= {"image_type": "backup", "backup_type": arguments["backup_type"]}
    image = images.create(OWNER, {"name": "snap", "visibility": "private", "properties": properties})
    action_id, host = cloud.db.write(api._begin, OWNER, server, verb, {**arguments, "image_id": image.id},
                                     cloud.conf.conductor.lease_seconds)
    if wake:
        cloud.conductor.compute.wake(admin_context(), host, [action_id])
    return action_id, image.id


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state, found.fault


def wake(cloud, action_id):
    action = cloud.action(action_id)
    cloud.conductor.compute.wake(admin_context(), action.host, [action_id])


def test_the_image_has_the_guests_data_and_the_format_of_the_host(cloud, images, server):
    action_id, image_id = begin(cloud, images, server)
    cloud.wait_action(action_id, "done")
    image = images.get(OWNER, image_id)
    assert (image.status, image.disk_format, image.container_format) == ("active", "raw", "bare")
    assert b"".join(images.read(OWNER, image_id)) == f"disk of {server}\n".encode()
    assert image.properties == {"instance_uuid": server, "image_type": "snapshot"}


@pytest.mark.parametrize(("verb", "vm_state", "power_state"), [
    ("stop", "stopped", 4), ("pause", "paused", 3), ("suspend", "suspended", 4)])
def test_the_server_ends_where_it_was(cloud, images, server, verb, vm_state, power_state):
    cloud.operate(server, verb)
    cloud.wait(server, vm_state)
    for rules, end in (((), "done"), (("snapshot",), "error")):
        cloud.fail(*rules)
        action_id, _ = begin(cloud, images, server)
        cloud.wait_action(action_id, end)
        assert state(cloud, server) == (vm_state, None, power_state, None)


def test_the_way_of_the_task_state(cloud, images, server, monkeypatch):
    seen = []
    host = cloud.hosts[cloud.get(server).host].host
    update, upload = host.conductor.instance_update, host.image.upload

    def look(*arguments, **named):
        seen.append(cloud.get(server).task_state)
        return update(*arguments, **named)

    def look_again(*arguments):
        seen.append(cloud.get(server).task_state)
        return upload(*arguments)
    monkeypatch.setattr(host.conductor, "instance_update", look)
    monkeypatch.setattr(host.image, "upload", look_again)
    cloud.wait_action(begin(cloud, images, server)[0], "done")
    assert seen == ["image_snapshot_pending", "image_snapshot", "image_pending_upload", "image_uploading"]


def test_what_fails_leaves_no_image(cloud, images, server):
    cloud.fail("snapshot")
    action_id, _ = begin(cloud, images, server)
    cloud.wait_action(action_id, "error")
    assert images.list(OWNER) == []
    assert state(cloud, server) == ("active", None, 1, None)


def test_an_image_that_is_deleted_meanwhile_ends_it(cloud, images, server):
    action_id, image_id = begin(cloud, images, server, wake=False)
    images.delete(OWNER, image_id)
    wake(cloud, action_id)
    cloud.wait_action(action_id, "error")
    assert state(cloud, server) == ("active", None, 1, None)


def test_a_second_run_finds_what_the_first_has_done(cloud, images, server):
    action_id, image_id = begin(cloud, images, server, wake=False)
    cloud.set(server, task_state="image_uploading")
    images.upload(admin_context(), image_id, [b"all of it"])
    wake(cloud, action_id)
    cloud.wait_action(action_id, "done")
    assert b"".join(images.read(OWNER, image_id)) == b"all of it"
    assert state(cloud, server) == ("active", None, 1, None)


def test_a_second_run_begins_a_half_upload_anew(cloud, images, server):
    """The upload of a worker that died: Glance takes it for one under way until it sees that nobody sends any more."""
    cloud.clock.longest = 60.0      # it shall not be given up before this test has looked
    action_id, image_id = begin(cloud, images, server, wake=False)
    record = pathlib.Path(cloud.conf.image.local_path, f"{image_id}.json")
    queued = record.read_text()

    def put(text):      # at once, as the driver itself writes: nobody reads half a record
        part = record.with_suffix(".new")
        part.write_text(text)
        part.replace(record)
    put(json.dumps({**json.loads(queued), "status": "saving"}))
    wake(cloud, action_id)
    cloud.wait_for(lambda: cloud.get(server).task_state == "image_snapshot")
    assert cloud.action(action_id).state == "running"
    put(queued)
    cloud.wait_action(action_id, "done")
    assert images.get(OWNER, image_id).status == "active"


def test_a_delete_ends_the_upload_and_takes_the_image(cloud, images, server, monkeypatch):
    monkeypatch.setattr(snapshot, "LOOK_SECONDS", 0.0)
    driver = cloud.hosts[cloud.get(server).host].host.driver
    copying, go_on, real = threading.Event(), threading.Event(), driver.snapshot

    def slow(instance, check):
        copying.set()
        assert go_on.wait(60)
        return real(instance)
    monkeypatch.setattr(driver, "snapshot", slow)
    action_id, _ = begin(cloud, images, server)
    assert copying.wait(60)
    delete = cloud.operate(server, "delete")
    go_on.set()
    cloud.wait_action(delete, "done")
    assert cloud.action(action_id).state == "error"
    assert cloud.get(server).deleted
    assert images.list(OWNER) == []


@pytest.mark.parametrize(("verb", "arguments"), [
    ("createImage", {}), ("createBackup", {"backup_type": "daily", "rotation": 1}), ("shelve", {})])
def test_a_delete_does_not_wait_for_the_copy(cloud, images, server, monkeypatch, verb, arguments):
    """The copy of this hypervisor never ends by itself. An os-resetState ends it, too."""
    copying = threading.Event()

    @contextlib.contextmanager
    def endless(instance, check):
        copying.set()
        for _ in range(1200):
            check()
            time.sleep(0.05)
        raise AssertionError("nobody ended the copy")
        yield
    for manager in cloud.hosts.values():
        monkeypatch.setattr(manager.host.driver, "snapshot", endless)
    for end in ("reset", "delete"):
        copying.clear()
        action_id, _ = begin(cloud, images, server, verb, **arguments)
        assert copying.wait(60)
        if end == "reset":
            cloud.set(server, task_state=None, vm_state="active")
        else:
            cloud.wait_action(cloud.operate(server, "delete"), "done")
        cloud.wait_action(action_id, "error")
        assert images.list(OWNER) == []
    assert cloud.get(server).deleted


def test_a_conductor_that_does_not_answer_once_does_not_end_the_copy(cloud, images, server, monkeypatch):
    host = cloud.hosts[cloud.get(server).host].host
    real = host.driver.snapshot

    def asks(instance, check):
        with monkeypatch.context() as patch:
            patch.setattr(host.conductor, "instance_update", raises)
            check()
        check()
        return real(instance)

    def raises(*_arguments):
        raise exception.ConductorAway(reason="no answer")
    monkeypatch.setattr(host.driver, "snapshot", asks)
    action_id, image_id = begin(cloud, images, server)
    cloud.wait_action(action_id, "done")
    assert images.get(OWNER, image_id).status == "active"


def test_it_waits_for_a_host_that_is_away(cloud, images, server):
    action_id, image_id = begin(cloud, images, server, wake=False)
    host = cloud.get(server).host
    cloud.claim(action_id, host, "a worker that dies")
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.action(action_id).state == "pending"
    assert cloud.get(server).task_state == "image_snapshot_pending"
    cloud.report(host)
    cloud.wait_action(action_id, "done")
    assert images.get(OWNER, image_id).status == "active"
    assert state(cloud, server) == ("active", None, 1, None)


def given_up(cloud, images, server):
    """An image that nobody makes: as many workers died over it as are let; action and image."""
    action_id, image_id = begin(cloud, images, server, wake=False)
    host = cloud.get(server).host
    cloud.hosts[host]._stopping.set()       # it hears nothing any more
    for attempt in range(cloud.conf.conductor.max_attempts):
        cloud.claim(action_id, host, f"worker {attempt}, which dies")
        cloud.expire(action_id)
        cloud.sweep()
    assert cloud.action(action_id).state == "error"
    return action_id, image_id


@pytest.fixture
def short_tempered(make_cloud):
    return make_cloud("h1", conductor__max_attempts=2)


def test_an_image_whose_making_is_given_up_is_deleted(short_tempered):
    cloud, images = short_tempered, image_base.load(short_tempered.conf)
    action_id, image_id = given_up(cloud, images, cloud.active())
    cloud.conductor.deferred_cleanup.run()
    assert images.get(OWNER, image_id).status == "queued"       # a worker that is only late finds it
    cloud.expire(action_id)
    cloud.conductor.deferred_cleanup.run()
    assert images.list(OWNER) == []
    assert cloud.action(action_id).lease_until is None


def test_one_that_has_its_data_stays(short_tempered):
    """The last worker could not tell any more."""
    cloud, images = short_tempered, image_base.load(short_tempered.conf)
    action_id, image_id = given_up(cloud, images, cloud.active())
    images.upload(admin_context(), image_id, [b"all of it"])
    cloud.expire(action_id)
    cloud.conductor.deferred_cleanup.run()
    assert images.get(OWNER, image_id).status == "active"
    assert cloud.action(action_id).lease_until is None


def test_one_that_the_image_service_does_not_delete_now_is_deleted_later(cloud, images, server, monkeypatch):
    """Neither on the host that fails, nor by the conductor's first look."""
    def is_down(*_arguments):
        raise ServiceUnavailable(what="Glance", reason="it does not answer")
    cloud.fail("snapshot")
    monkeypatch.setattr(cloud.hosts[cloud.get(server).host].host.image, "delete", is_down)
    action_id, image_id = begin(cloud, images, server)
    cloud.wait_action(action_id, "error")
    cloud.expire(action_id)
    with monkeypatch.context() as patched:
        patched.setattr(type(images), "delete", is_down)
        cloud.conductor.deferred_cleanup.run()
    assert images.get(OWNER, image_id).status == "queued"
    cloud.expire(action_id)
    cloud.conductor.deferred_cleanup.run()
    assert images.list(OWNER) == []


def test_backups_rotate(cloud, images, server):
    other = begin(cloud, images, server, "createBackup", backup_type="weekly", rotation=1)
    cloud.wait_action(other[0], "done")
    made = []
    for number in range(3):
        action_id, image_id = begin(cloud, images, server, "createBackup", backup_type="daily", rotation=2)
        made.append(image_id)
        record = pathlib.Path(cloud.conf.image.local_path, f"{image_id}.json")
        created = datetime.datetime(2026, 1, 1 + number).isoformat()
        cloud.wait_action(action_id, "done")        # the host writes the record, too
        record.write_text(json.dumps({**json.loads(record.read_text()), "created_at": created}))
        assert state(cloud, server) == ("active", None, 1, None)
    assert {image.id for image in images.list(OWNER)} == {other[1], *made[1:]}
