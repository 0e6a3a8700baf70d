"""createImage of a server that boots from a volume: its snapshots, its action, and the quiet of its guest."""
from __future__ import annotations

import json
from functools import partial

import oslo_messaging as messaging
import pytest

from nova_lite import exception, operations
from nova_lite.compute.api import volume_images
from nova_lite.context import RequestContext
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.support.clock import FastClock
from tests.unit.compute.volumes.volume_cloud import existing, made_of

BODY = {"createImage": {"name": "both"}}
AGENT, REQUIRED = {"hw_qemu_guest_agent": "yes"}, {"os_require_quiesce": "yes"}


class Cinder:
    """A snapshot is being made for the first ``slow`` looks, and cannot be deleted so long; ``then`` is called at each."""

    def __init__(self, real, log):
        self.real, self.log, self.looks, self.made, self.then, self.slow = real, log, {}, 0, {}, 3

    def __getattr__(self, name):
        return getattr(self.real, name)

    def create_snapshot(self, *arguments, **named):
        self.made += 1
        self.then.get(self.made, lambda: None)()
        self.log.append("snapshot")
        return self.real.create_snapshot(*arguments, **named)

    def get_snapshot(self, context, snapshot_id):
        found = self.real.get_snapshot(context, snapshot_id)
        self.looks[snapshot_id] = self.looks.get(snapshot_id, 0) + 1
        if self.looks[snapshot_id] <= self.slow:
            found.status = "creating"
        else:
            self.log.append("made")
        return found

    def delete_snapshot(self, context, snapshot_id):
        if self.looks.get(snapshot_id, 0) <= self.slow:
            raise exception.InvalidVolume(reason="Invalid snapshot: Volume Snapshot status must be available or error")
        self.real.delete_snapshot(context, snapshot_id)

    def delete(self, context, volume_id):
        if any(s.volume_id == volume_id for s in self.real.list_snapshots(RequestContext())):
            raise exception.InvalidVolume(reason="Invalid volume: it must not have snapshots")
        self.real.delete(context, volume_id)


@pytest.fixture
def cloud(make_volume_cloud, monkeypatch):
    made = make_volume_cloud("h1")
    made.log = []
    made.cinder = Cinder(made.volumes, made.log)
    made.api_volumes._real = made.host_volumes["h1"]._real = made.conductor_volumes._real = made.cinder
    driver = made.drivers["h1"]._real
    for name in ("quiesce", "unquiesce"):
        def tell(instance, name=name, real=getattr(driver, name)):
            made.log.append(name)
            return real(instance)
        monkeypatch.setattr(driver, name, tell)
    return made


def _running(cloud, *properties):
    """With two volumes."""
    image = cloud.services.image.create(cloud.user, {
        "name": "i", "min_disk": 1, "disk_format": "raw", "properties": {k: v for one in properties for k, v in one.items()}})
    cloud.services.image.upload(cloud.user, image.id, [b"x"])
    server = cloud.running(made_of("image", image.id, 1), existing(cloud.volume()))
    cloud.actions_end(server)
    cloud.log.clear()
    return server


def _create(cloud, server, status=202):
    path = f"/servers/{server}/action"
    return cloud.member.post(path, BODY, 202)["image_id"] if status == 202 else cloud.member.fault("POST", path, status, BODY)


def _snapshots(cloud):
    return cloud.volumes.list_snapshots(cloud.user)


def _ended(cloud, server):
    """(action, its message, [(event, result)]) of the last one, which has ended."""
    cloud.actions_end(server)
    last = cloud.last_action(server)
    shown = cloud.admin.get(f"/servers/{server}/os-instance-actions/{last['request_id']}")["instanceAction"]
    return shown["action"], shown["message"], [(e["event"], e["result"]) for e in shown["events"]]


def test_the_action_is_shown(cloud):
    server = _running(cloud)
    _create(cloud, server)
    assert _ended(cloud, server) == ("createImage", None, [("api_snapshot_instance", "Success")])
    assert cloud.log == ["snapshot", "snapshot"]
    assert cloud.get(server).task_state is None


def test_a_quota_is_told_as_it_is_and_leaves_no_snapshot(cloud):
    """Cinder deletes none that is still being made."""
    server = _running(cloud)

    def refuse():
        raise exception.OverQuota("Cinder: quota of snapshots")
    cloud.cinder.then[2] = refuse
    assert _create(cloud, server, 403) == "Cinder: quota of snapshots"
    action, message, events = _ended(cloud, server)
    assert (action, message) == ("createImage", "Cinder: quota of snapshots")
    assert ("api_snapshot_instance", "Error") in events
    assert _snapshots(cloud) == []


def test_what_fails_before_there_is_a_snapshot_ends_at_once(cloud):
    server = _running(cloud)

    def refuse():
        raise exception.OverQuota("Cinder: quota of snapshots")
    cloud.cinder.then[1] = refuse
    _create(cloud, server, 403)
    assert _ended(cloud, server) == ("createImage", "Cinder: quota of snapshots", [("api_snapshot_instance", "Error")])


@pytest.mark.parametrize("image", [None, "queued", "active"])
def test_a_request_that_died_leaves_a_whole_image_or_nothing(cloud, image):
    server, made = _running(cloud, AGENT), None
    taken = [cloud.volumes.create_snapshot(cloud.user, d.volume_id, "", force=True).id for d in cloud.get(server).volumes]
    images = cloud.services.image
    if image is not None:
        made = images.create(cloud.user, {"name": "both", "disk_format": "raw", "container_format": "bare", "properties": {
            "instance_uuid": server, "block_device_mapping": json.dumps([{"snapshot_id": one} for one in taken])}}).id
        if image == "active":
            images.upload(cloud.user, made, [])
    cloud.db.write(actions.create, cloud.user, volume_images.VERB, [server], 60, objects.API, "h1", {"snapshots": taken})
    cloud.take_over()
    action, message, _ = _ended(cloud, server)
    assert (action, message) == ("createImage", "The request ended before the image was made" if made is None else None)
    assert sorted(s.id for s in _snapshots(cloud)) == (sorted(taken) if made else [])
    assert made is None or images.get(cloud.user, made).status == "active"
    assert "unquiesce" in cloud.log


@pytest.mark.parametrize(("properties", "vm_state", "quiet"), [
    ((AGENT,), "active", True), ((AGENT, REQUIRED), "active", True), ((AGENT, REQUIRED), "paused", False),
    ((), "active", False)])
def test_the_guest_stands_still_until_the_snapshots_are_made(cloud, properties, vm_state, quiet):
    server = _running(cloud, *properties)
    if vm_state == "paused":
        cloud.member.post(f"/servers/{server}/action", {"pause": None}, 202)
        cloud.wait(server, states.PAUSED)
    _create(cloud, server)
    taken = ["snapshot", "snapshot"]
    assert cloud.log == (["quiesce", *taken, "made", "made", "unquiesce"] if quiet else taken)


def test_what_the_image_requires_must_be_had(cloud):
    assert "agent is not enabled" in _create(cloud, _running(cloud, REQUIRED), 409)
    cloud.fail("quiesce")
    server = _running(cloud, AGENT, REQUIRED)
    assert "Failed to quiesce instance" in _create(cloud, server, 409)
    assert cloud.log == ["quiesce", "unquiesce"]
    assert "Failed to quiesce instance" in _ended(cloud, server)[1]
    server = _running(cloud, AGENT)
    _create(cloud, server)
    assert cloud.log == ["quiesce", "unquiesce", "snapshot", "snapshot"]


def test_snapshots_that_take_too_long(cloud):
    cloud.services.compute.clock = FastClock(skips=3600.0)
    assert "not made within" in _create(cloud, _running(cloud, AGENT, REQUIRED), 409)
    cloud.wait_for(lambda: not _snapshots(cloud))
    _create(cloud, _running(cloud, AGENT))
    assert cloud.log == ["quiesce", "snapshot", "snapshot", "unquiesce"]


def test_a_host_that_does_not_answer_thaws_when_it_hears_of_the_action(cloud, monkeypatch):
    server = _running(cloud, AGENT, REQUIRED)

    def lost(*_arguments, **_named):
        raise messaging.MessagingTimeout("no answer")
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "unquiesce", lost)
    image = _create(cloud, server)
    assert _ended(cloud, server)[:2] == ("createImage", None)
    assert cloud.log[-1] == "unquiesce"
    assert len(_snapshots(cloud)) == 2
    assert cloud.services.image.get(cloud.user, image).status == "active"


@pytest.mark.parametrize("required", [True, False])
def test_a_host_whose_answers_are_lost_thaws_when_it_hears_of_the_action(cloud, monkeypatch, required):
    """It has frozen the guest, and was never asked to thaw it."""
    server = _running(cloud, AGENT, *[REQUIRED] * required)
    rpc = cloud.services.compute.compute_rpc

    def lost(*arguments, real=None, **named):
        if real is not None:
            real(*arguments, **named)
        raise messaging.MessagingTimeout("no answer")
    monkeypatch.setattr(rpc, "quiesce", partial(lost, real=rpc.quiesce))
    monkeypatch.setattr(rpc, "unquiesce", lost)
    _create(cloud, server, 409 if required else 202)
    assert ("Failed to quiesce instance" in (_ended(cloud, server)[1] or "")) == required
    assert cloud.log == (["quiesce", "unquiesce"] if required else ["quiesce", "snapshot", "snapshot", "unquiesce"])
    assert len(_snapshots(cloud)) == (0 if required else 2)


def test_a_server_that_is_deleted_meanwhile_leaves_nothing(cloud):
    server = _running(cloud)
    cloud.cinder.delete_snapshot = cloud.volumes.delete_snapshot
    cloud.cinder.then[2] = lambda: cloud.delete(server)
    before = len(cloud.services.image.list(RequestContext(is_admin=True)))
    _create(cloud, server, 409)
    assert _snapshots(cloud) == []
    assert len(cloud.services.image.list(RequestContext(is_admin=True))) == before


@pytest.mark.parametrize("verb", ["pause", "suspend"])
def test_nobody_stops_a_guest_that_stands_still_for_its_image(cloud, verb):
    """Nobody could thaw it then, and when it goes on nobody would know that it is frozen."""
    server, refused = _running(cloud, AGENT), []

    def ask():
        cloud.clock.skips = 3600.0
        refused.append(cloud.member.fault("POST", f"/servers/{server}/action", 409, {verb: None}))
        cloud.clock.skips = 0.0
    cloud.cinder.then[1] = ask
    _create(cloud, server)
    assert "in the middle of createImage" in refused[0]
    assert cloud.log == ["quiesce", "snapshot", "snapshot", "made", "made", "unquiesce"]
    cloud.member.post(f"/servers/{server}/action", {verb: None}, 202)
    cloud.wait(server, operations.VERBS[verb].ends_in)


# of a server that is deleted ------------------------------------------------------------------------------------------------
def _left(cloud, image=None):
    """A server of which a request that died has left snapshots, and perhaps an image of that status; server and snapshots."""
    root = made_of("image", cloud.image, 1, delete_on_termination=True)
    server = cloud.running(root, existing(cloud.volume()))
    taken = [cloud.volumes.create_snapshot(cloud.user, d.volume_id, "", force=True).id for d in cloud.get(server).volumes]
    if image is not None:
        images = cloud.services.image
        made = images.create(cloud.user, {"name": "both", "disk_format": "raw", "container_format": "bare", "properties": {
            "instance_uuid": server, "block_device_mapping": json.dumps([{"snapshot_id": one} for one in taken])}}).id
        if image == "active":
            images.upload(cloud.user, made, [])
    cloud.db.write(actions.create, cloud.user, volume_images.VERB, [server], 60, objects.API, "h1", {"snapshots": taken})
    return server, taken


def _delete(cloud, server, how):
    """By a conductor, as its host is dead, or when the host is back."""
    delete = cloud.begin(server, "delete")
    if how == "without its host":
        cloud.end_host("h1")
        cloud.silence("h1")
        cloud.expire(delete)
        cloud.sweep()
    else:
        cloud.report("h1")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    cloud.actions_end(server)


@pytest.mark.parametrize("how", ["without its host", "by its host"])
def test_what_a_dead_request_has_left_of_a_deleted_server_goes(cloud, how):
    """And its volume, which could not be deleted with it."""
    server, _ = _left(cloud)
    root = cloud.get(server).block_devices[0].volume_id
    _delete(cloud, server, how)
    cloud.conductor.deferred_cleanup.run()
    assert (len(_snapshots(cloud)), cloud.status(root)) == (2, "available")
    cloud.conductor_volumes.fail("delete_snapshot")     # Cinder is away
    for _ in range(5):          # of which each snapshot needs three to be made
        assert len(_snapshots(cloud)) == 2
        cloud.run_deferred_cleanup()
    assert (_snapshots(cloud), cloud.status(root)) == ([], None)
    looks = dict(cloud.cinder.looks)
    cloud.run_deferred_cleanup()
    assert cloud.cinder.looks == looks      # and that was it


@pytest.mark.parametrize("image", ["queued", "active"])
def test_an_image_of_a_deleted_server_keeps_its_snapshots(cloud, image):
    server, taken = _left(cloud, image)
    _delete(cloud, server, "without its host")
    for _ in range(5):
        cloud.run_deferred_cleanup()
    assert {s.id for s in _snapshots(cloud)} == set(taken)
    [made] = [i for i in cloud.services.image.list(cloud.user) if i.name == "both"]
    assert made.status == "active"


@pytest.mark.parametrize("cleaned", [False, True])
def test_what_a_request_that_is_overtaken_makes_last_goes(cloud, cleaned):
    """Cinder deletes none that is still being made, and of the last one nothing was written down."""
    server = _running(cloud)

    def overtaken():
        _delete(cloud, server, "without its host")
        for _ in range(5 * cleaned):       # what is written down by now is looked for
            cloud.run_deferred_cleanup()
    cloud.cinder.then[2] = overtaken
    _create(cloud, server, 409)
    assert len(_snapshots(cloud)) == (1 if cleaned else 2)
    for _ in range(5):
        cloud.run_deferred_cleanup()
    assert _snapshots(cloud) == []


def test_snapshots_that_take_longer_than_a_host_waits_go_later(cloud):
    cloud.cinder.slow = 1000
    server, _ = _left(cloud)
    cloud.take_over()
    assert _ended(cloud, server)[:2] == ("createImage", "The request ended before the image was made")
    assert len(_snapshots(cloud)) == 2
    cloud.cinder.slow = 3
    for _ in range(5):
        cloud.run_deferred_cleanup()
    assert _snapshots(cloud) == []
    assert {d.volume_id for d in cloud.get(server).volumes} <= cloud.all_volumes()


def test_with_an_agent_one_at_a_time(cloud):
    server, refused = _running(cloud, AGENT), []
    cloud.cinder.then[1] = lambda: refused.append(_create(cloud, server, 409))
    _create(cloud, server)
    assert "in the middle of createImage" in refused[0]
    assert cloud.log == ["quiesce", "snapshot", "snapshot", "made", "made", "unquiesce"]
