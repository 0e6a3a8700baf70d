"""A volume exchanged for another in the middle of Cinder's migration of it, by REST, with a small Cinder on HTTP."""
from __future__ import annotations

import threading
import uuid

import pytest

from nova_lite import exception
from nova_lite.db import actions
from nova_lite.objects import states
from tests.support.fake_cinder import FakeCinder
from tests.support.fake_openstack import FakeOpenStack
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN

BROKEN = exception.DriverRefusal(what="Exchanging a volume", reason="the copy broke off")


@pytest.fixture
def cinder():
    made = FakeCinder()
    made.tokens = {"u:p": "p", "a:p": "p"}
    return made


@pytest.fixture
def cloud(make_volume_cloud, cinder):
    neighbour = FakeOpenStack("block-storage", cinder, versions={"v3.71": "/v3/"})
    credentials = "[service_user]\n" + "\n".join(f"{k} = {v}" for k, v in neighbour.options.items())
    yield make_volume_cloud("h1", config=credentials, volume__driver="cinder", service_user__retries=0)
    neighbour.close()


@pytest.fixture
def attached(cloud, cinder):
    """A server with a volume that Cinder is moving, and the volume that it is moved to."""
    server = cloud.running()
    old, new = cinder.add_volume("p"), cinder.add_volume("p", size=2)
    cloud.member.post(f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": old, "tag": "data"}})
    cloud.wait_for(lambda: cinder.volumes[old]["status"] == "in-use" and cloud.device(server, old).attached, 20)
    cloud.actions_end(server, 20)
    cinder.begin_migration(old, new)
    return server, old, new


def swap(cloud, server, old, new, status=202, client=None):
    body = {"volumeAttachment": {"volumeId": new}}
    return (client or cloud.admin).ask("PUT", f"/servers/{server}/os-volume_attachments/{old}", body, status)


def test_the_guest_has_the_new_volume_under_the_old_name(cloud, cinder, attached):
    server, old, new = attached
    before = cloud.device(server, old)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)
    cloud.actions_end(server, 20)
    [device] = cloud.get(server).block_devices
    assert (device.volume_id, device.id, device.device_name, device.tag) == (old, before.id, before.device_name, "data")
    assert device.attachment_id != before.attachment_id
    assert (device.size, device.attached) == (2, True)
    assert device.connection_info["data"]["attachment_id"] == device.attachment_id
    assert "auth_password" not in device.connection_info["data"]
    assert list(cinder.attachments) == [device.attachment_id]
    assert (cloud.last_action(server)["action"], cloud.last_action(server)["message"]) == ("swap_volume", None)
    assert [c for c in cloud.drivers["h1"].calls if c.endswith("volume")][-3:] == ["connect_volume", "swap_volume",
                                                                                  "disconnect_volume"]
    cloud.delete(server)
    assert cinder.attachments == {}


def test_a_copy_that_fails_leaves_the_old_volume(cloud, cinder, attached):
    server, old, new = attached
    before = cloud.device(server, old)
    cloud.drivers["h1"].fail("swap_volume", BROKEN)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cinder.completed == [(old, new, True)], 20)
    cloud.actions_end(server, 20)
    assert cloud.get(server).block_devices == [before]
    assert list(cinder.attachments) == [before.attachment_id]
    assert new not in cinder.volumes
    assert cloud.last_action(server)["message"] == "Exchanging a volume failed: the copy broke off"
    assert cloud.get(server).vm_state == states.ACTIVE


@pytest.mark.parametrize(("where", "method", "when"), [
    ("volumes", "connect", "after"), ("driver", "swap_volume", "after"), ("volumes", "complete", "before"),
    ("volumes", "release", "after"), ("volumes", "complete_migration", "after")])
def test_a_host_that_dies_on_the_way_goes_on_later(cloud, cinder, attached, where, method, when):
    server, old, new = attached
    meddled = cloud.drivers["h1"] if where == "driver" else cloud.host_volumes["h1"]
    meddled.fail(method, DIED, when)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: not meddled.rules[method][2] and cloud.hosts["h1"].leases.in_flight() == [], 20)
    cloud.take_over()
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)
    cloud.actions_end(server, 20)
    [device] = cloud.get(server).block_devices
    assert (device.volume_id, list(cinder.attachments)) == (old, [device.attachment_id])


def killed_at(cloud, server, old, new, meddled, method, when):
    """The host dies there; the server's record then."""
    meddled.fail(method, DIED, when)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: not meddled.rules[method][2] and cloud.hosts["h1"].leases.in_flight() == [], 20)
    [device] = cloud.get(server).block_devices
    return device


def test_what_is_started_after_the_guest_changed_over_has_the_new_volume(cloud, cinder, attached):
    """Whoever starts the guest before the exchange goes on (its user, or a host that comes back) reads the record."""
    server, old, new = attached
    before = cloud.device(server, old)
    device = killed_at(cloud, server, old, new, cloud.drivers["h1"], "swap_volume", "after")
    assert (device.volume_id, device.size) == (new, 2)
    assert device.connection_info["data"]["attachment_id"] == device.attachment_id != before.attachment_id
    assert device.connection_info["serial"] == old      # the guest sees the same disk


@pytest.mark.parametrize(("neighbour", "method", "error"), [
    ("volumes", "connect", DOWN), ("driver", "swap_volume", BROKEN), ("volumes", "complete", DOWN),
    ("volumes", "release", DOWN), ("volumes", "complete_migration", DOWN),
    ("driver", "swap_volume", exception.GuestLacksDisk(disk="of a guest that is off"))])
def test_a_guest_that_changed_over_keeps_the_new_volume_whatever_fails_then(cloud, cinder, attached, monkeypatch, neighbour,
                                                                          method, error):
    server, old, new = attached
    killed_at(cloud, server, old, new, cloud.drivers["h1"], "swap_volume", "after")
    {"volumes": cloud.host_volumes["h1"], "driver": cloud.drivers["h1"]}[neighbour].fail(method, error, times=2)
    cloud.take_over()
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)
    cloud.actions_end(server, 20)
    [device] = cloud.get(server).block_devices
    assert (device.volume_id, device.size, list(cinder.attachments)) == (old, 2, [device.attachment_id])


def test_a_guest_that_does_not_change_over_has_the_old_volume(cloud, cinder, attached, monkeypatch):
    server, old, new = attached
    before, noted = cloud.device(server, old), []

    def refuse(_instance, was, wanted, note):
        for device in (wanted, was):
            note(device)
            noted.append(cloud.get(server).block_devices[0].volume_id)
        raise BROKEN
    monkeypatch.setattr(cloud.drivers["h1"]._real, "swap_volume", refuse)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cinder.completed == [(old, new, True)], 20)
    cloud.actions_end(server, 20)
    assert noted == [new, old]
    assert cloud.get(server).block_devices == [before]
    assert list(cinder.attachments) == [before.attachment_id]


@pytest.mark.parametrize("soft", [False, True])
def test_a_server_whose_guest_never_changes_over_can_be_deleted(cloud, cinder, attached, monkeypatch, soft):
    """Of both volumes the new one is whole: the Volume service keeps that, and does not wait for an answer any longer."""
    server, old, new = attached
    cloud.drivers["h1"].fail("swap_volume", BROKEN, "after", times=10 ** 6)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cloud.drivers["h1"].rules["swap_volume"][2] < 10 ** 6 - 2, 20)
    assert cinder.completed == []
    cloud.operate(server, "soft_delete" if soft else "delete")
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)
    cloud.actions_end(server, 20)
    if soft:
        assert (cloud.get(server).vm_state, cloud.device(server, old).size) == (states.SOFT_DELETED, 2)
        assert cloud.guests("h1") == {server: states.SHUTDOWN}
    else:
        assert (cloud.get(server).deleted, cinder.attachments, cloud.guests("h1")) == (True, {}, {})


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(("error", "when"), [(Killed(), "before"), (Killed(), "after"), (DOWN, "before"), (DOWN, "after")])
def test_a_request_that_ends_in_the_middle_leaves_no_attachment(cloud, cinder, attached, error, when):
    """Who sent it knows nothing but that it failed: the guest keeps what it has."""
    server, old, new = attached
    before = cloud.device(server, old)
    cloud.api_volumes.fail("reserve", error, when)
    if error is DOWN:
        swap(cloud, server, old, new, 503)
    else:
        with pytest.raises(Killed):
            swap(cloud, server, old, new)
    assert cloud.last_action(server)["action"] == "swap_volume"
    cloud.take_over()
    cloud.actions_end(server, 20)
    assert "the API that took the request stopped in between" in cloud.last_action(server)["message"]
    assert list(cinder.attachments) == [before.attachment_id]
    assert cloud.get(server).block_devices == [before]
    assert "swap_volume" not in cloud.drivers["h1"].calls


def test_a_reservation_that_is_refused_ends_it(cloud, cinder, attached):
    server, old, new = attached
    cloud.api_volumes.fail("reserve", exception.InvalidVolume(reason="somebody was faster"))
    assert "somebody was faster" in str(swap(cloud, server, old, new, 400))
    cloud.actions_end(server)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)


def test_what_is_refused(cloud, cinder, attached):
    server, old, new = attached
    swap(cloud, server, old, new, 403, cloud.member)
    assert "could not be found" in str(swap(cloud, server, old, str(uuid.uuid4()), 400))
    swap(cloud, server, str(uuid.uuid4()), new, 404)
    other = cinder.add_volume("p", **{"os-vol-mig-status-attr:migstat": "migrating"})
    assert "is not attached to volume" in str(swap(cloud, server, other, new, 404))
    cinder.volumes[new]["size"] = 0
    assert "must be the same size or larger" in str(swap(cloud, server, old, new, 400))
    cinder.volumes[new] |= {"size": 1, "status": "error"}
    assert "must be detached" in str(swap(cloud, server, old, new, 400))
    cinder.volumes[new]["status"] = "available"
    cloud.set(server, vm_state=states.STOPPED)
    swap(cloud, server, old, new, 409)
    cloud.set(server, vm_state=states.ACTIVE)
    cinder.volumes[old]["os-vol-mig-status-attr:migstat"] = None
    assert "is not migrating" in str(swap(cloud, server, old, new, 409))
    assert len(cinder.attachments) == 1


def test_one_at_a_time(cloud, cinder, attached):
    server, old, new = attached
    cloud.delay(0.3)
    swap(cloud, server, old, new)
    assert "in the middle of 'swap_volume'" in str(swap(cloud, server, old, cinder.add_volume("p"), 400))
    path = f"/servers/{server}/os-volume_attachments/{old}"
    assert "in the middle of 'swap_volume'" in cloud.member.fault("DELETE", path, 400)
    cloud.wait_for(lambda: cinder.completed == [(old, new, False)], 20)
    cloud.actions_end(server, 20)
    assert len(cinder.attachments) == 1


# what Cinder waits to hear --------------------------------------------------------------------------------------------------
def deleted_meanwhile(cloud, server, how):
    """The host died over the exchange; its user deletes the server."""
    if how == "by a conductor":
        cloud.silence("h1")
        cloud.end_host("h1")
    cloud.expire()
    delete = cloud.begin(server, "delete")
    if how == "by a conductor":
        cloud.expire(delete)
        cloud.sweep()
    else:
        cloud.report("h1")
    cloud.wait_for(lambda: cloud.get(server).deleted, 20)
    cloud.actions_end(server)


@pytest.mark.parametrize("goes_along", [False, True])
@pytest.mark.parametrize("how", ["by a conductor", "by the host that is back"])
@pytest.mark.parametrize(("when", "failed"), [("before", True), ("after", False)])
def test_cinder_hears_how_it_ended_of_a_server_that_is_deleted(cloud, cinder, attached, how, when, failed, goes_along):
    """Its volume is its user's again, or goes with the server; what Cinder does not hear of is migrating for ever."""
    server, old, new = attached
    device = cloud.get(server).block_devices[0]
    cloud.set(server, block_devices=[{**device.to_primitive(), "delete_on_termination": goes_along}])
    killed_at(cloud, server, old, new, cloud.drivers["h1"], "swap_volume", when)
    deleted_meanwhile(cloud, server, how)
    assert cinder.completed == []
    cloud.conductor_volumes.fail("complete_migration", DOWN)
    cloud.run_deferred_cleanup()
    assert cinder.completed == []
    for _ in range(2):
        cloud.run_deferred_cleanup()
    assert cinder.completed == [(old, new, failed)]
    assert cinder.attachments == {}
    assert old not in cinder.volumes if goes_along else cinder.volumes[old]["status"] == "available"


@pytest.mark.parametrize("lost", ["complete_migration", "make_available", "delete"])
def test_a_conductor_that_is_killed_over_it_goes_on(cloud, cinder, attached, lost):
    server, old, new = attached
    device = cloud.get(server).block_devices[0]
    cloud.set(server, block_devices=[{**device.to_primitive(), "delete_on_termination": True}])
    killed_at(cloud, server, old, new, cloud.drivers["h1"], "swap_volume", "after")
    deleted_meanwhile(cloud, server, "by a conductor")
    cloud.conductor_volumes.fail(lost, Killed(), "after" if lost == "complete_migration" else "before")
    with pytest.raises(Killed):
        cloud.run_deferred_cleanup()
    assert cinder.volumes[old]["status"] in ("in-use", "available")
    cloud.run_deferred_cleanup()
    assert cinder.completed == [(old, new, False)]
    assert old not in cinder.volumes


def test_what_cinder_could_not_be_told_by_the_host_the_conductor_tells(cloud, cinder, attached):
    server, old, new = attached
    before = cloud.device(server, old)
    cloud.drivers["h1"].fail("swap_volume", BROKEN)
    for method in ("release", "complete_migration"):
        cloud.host_volumes["h1"].fail(method, DOWN)
    swap(cloud, server, old, new)
    cloud.actions_end(server, 20)
    assert (cinder.completed, len(cinder.attachments)) == ([], 2)
    cloud.conductor.deferred_cleanup.run()         # not at once
    assert cinder.completed == []
    for _ in range(2):
        cloud.run_deferred_cleanup()
    assert cinder.completed == [(old, new, True)]
    assert list(cinder.attachments) == [before.attachment_id]
    assert cinder.volumes[old]["status"] == "in-use"


def test_what_cinder_was_told_it_is_not_told_again(cloud, cinder, attached):
    server, old, new = attached
    cloud.drivers["h1"].fail("swap_volume", BROKEN)
    swap(cloud, server, old, new)
    cloud.wait_for(lambda: cinder.completed == [(old, new, True)], 20)
    cloud.actions_end(server, 20)
    first, other = cloud.last_action(server)["row"].id, cinder.add_volume("p", size=2)
    cinder.begin_migration(old, other)
    cinder.volumes[new] = {**cinder.volumes[other], "id": new, "status": "error_deleting"}
    cloud.run_deferred_cleanup()
    cinder.volumes[new]["status"] = "available"
    cloud.db.write(actions.schedule_cleanup, [first])
    held, go_on = threading.Event(), threading.Event()
    cloud.drivers["h1"]._real.swap_volume = lambda *_arguments: (held.set(), go_on.wait(20))
    swap(cloud, server, old, other)
    assert held.wait(20)
    cloud.later(actions.LOOK_SECONDS + 1)
    cloud.conductor.deferred_cleanup.run()
    assert cloud.action(first).lease_until is None
    assert cinder.completed == [(old, new, True)]
    go_on.set()
    cloud.wait_for(lambda: len(cinder.completed) == 2, 20)
    cloud.actions_end(server, 20)


@pytest.mark.parametrize(("when", "told"), [("before", True), ("after", False)])
def test_an_exchange_that_is_given_up(cloud, cinder, attached, when, told, caplog):
    """In its last steps it is let alone: the guest may have either volume, and one would be deleted."""
    server, old, new = attached
    killed_at(cloud, server, old, new, cloud.drivers["h1"], "swap_volume", when)
    cloud.hosts["h1"]._stopping.set()       # it hears nothing any more
    action_id = cloud.last_action(server)["row"].id
    for attempt in range(cloud.conf.conductor.max_attempts):
        cloud.expire(action_id)
        cloud.sweep()
        cloud.claim(action_id, "h1", f"worker {attempt}, which dies")
    cloud.wait_action(action_id, "error")
    attachments = len(cinder.attachments)
    cloud.run_deferred_cleanup()
    assert cinder.completed == [(old, new, True)] * told
    assert len(cinder.attachments) == (1 if told else attachments)
    assert ("was given up in its last steps" in caplog.text) != told
