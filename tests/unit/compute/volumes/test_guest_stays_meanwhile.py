"""While a server gets or loses a device its guest stays where it is: what would take it away is refused, or waits a little."""
from __future__ import annotations

import threading

import pytest

from nova_lite import exception, operations
from nova_lite.db import actions
from nova_lite.objects import states
from tests.support.clock import FastClock

CHANGES = [verb for verb, operation in operations.VERBS.items() if operation.keeps_state and not operation.follows_guest]
LIVE = {"os-migrateLive": {"host": None, "block_migration": "auto"}}


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", "h2")


def while_asked(cloud, method, then, before=False):
    """As soon as the API has asked the Volume service for ``method``, or (``before``) is about to, ``then`` is done."""
    real = cloud.api_volumes._real

    def ask(_self, *arguments, **named):
        if before:
            then()
            return getattr(real, method)(*arguments, **named)
        answer = getattr(real, method)(*arguments, **named)
        then()
        return answer
    cloud.api_volumes._real = type("Asked", (), {"__getattr__": lambda _self, name: getattr(real, name), method: ask})()


@pytest.mark.parametrize("body", [LIVE, {"migrate": None}, {"shelve": None}, {"suspend": None}])
@pytest.mark.parametrize("method", ["reserve", "begin_detaching"])
def test_a_request_that_waits_for_the_volume_service_finds_the_guest_where_it_was(cloud, body, method):
    cloud.services.compute.clock = FastClock(skips=3600.0)
    server, volume, refused = cloud.running(), cloud.volume(), []
    host = cloud.get(server).host
    if method == "begin_detaching":
        cloud.attach(server, volume)
        cloud.actions_end(server)
    while_asked(cloud, method, lambda: refused.append(cloud.admin.fault("POST", f"/servers/{server}/action", 409, body)))
    if method == "reserve":
        cloud.attach(server, volume)
    else:
        cloud.detach(server, volume)
    cloud.actions_end(server)
    verb = "attach_volume" if method == "reserve" else "detach_volume"
    assert [message.split(" while ")[1] for message in refused] == [f"it is in the middle of {verb}"]
    assert (cloud.get(server).host, cloud.guests(host)) == (host, {server: states.RUNNING})
    assert [a["status"] for a in cloud.attachments()] == (["attached"] if method == "reserve" else [])


def test_whatever_takes_a_guest_away_is_refused_whatever_is_changed(cloud):
    server = cloud.running()
    for change in CHANGES:
        [action_id] = cloud.db.write(actions.create, cloud.user, change, [server], 60)
        for verb in (name for name, row in operations.VERBS.items() if row.takes_guest_away):
            cloud.set(server, vm_state=operations.VERBS[verb].vm_states[0])
            with pytest.raises(exception.InstanceIsBusy):
                cloud.begin(server, verb)
            assert cloud.get(server).task_state is None
        cloud.db.write(actions.finish, [action_id])


def test_a_change_that_ends_soon_is_waited_for(cloud):
    server = cloud.running()
    [action_id] = cloud.db.write(actions.create, cloud.user, "detach_volume", [server], 60)
    ends = threading.Timer(0.3, cloud.db.write, (actions.finish, [action_id]))
    ends.start()
    cloud.admin.post(f"/servers/{server}/action", {"migrate": None}, 202)
    ends.join()
    assert cloud.action(action_id).state == "done"
    cloud.wait(server, states.RESIZED)


# what makes the guest anew where it is --------------------------------------------------------------------------------------
@pytest.mark.parametrize("before", [True, False])
def test_a_guest_that_is_made_anew_while_an_attach_waits_gets_its_volume_once(cloud, before):
    """A rebuild does not take the volume before its attach, and both would reserve it: the record named one attachment, the
    guest had the other, and the next move gave that one back."""
    server, volume = cloud.running(), cloud.volume()

    def rebuild():
        cloud.member.post(f"/servers/{server}/action", {"rebuild": {"imageRef": cloud.image}}, 202)
        cloud.wait(server, states.ACTIVE, 30)
        assert (cloud.device(server, volume).attached, cloud.device(server, volume).connection_info) == (False, None)
    while_asked(cloud, "reserve", rebuild, before)
    cloud.attach(server, volume)
    cloud.actions_end(server)
    [attachment], device = cloud.attachments(), cloud.device(server, volume)
    assert (attachment["id"], attachment["status"]) == (device.attachment_id, "attached")
    cloud.admin.post(f"/servers/{server}/action", LIVE, 202)
    cloud.actions_end(server, 60)
    [attachment], device = cloud.attachments(), cloud.device(server, volume)
    assert (attachment["id"], attachment["status"]) == (device.attachment_id, "attached")


@pytest.mark.parametrize("before", [True, False])
def test_a_server_that_is_evacuated_while_an_attach_waits_gets_its_volume_once(cloud, before):
    """The evacuation ends the attach, and gives the guest what is in the list."""
    server, volume = cloud.running(), cloud.volume()
    old = cloud.get(server).host

    def evacuate():
        cloud.silence(old)
        cloud.admin.at("2.14").ask("POST", f"/servers/{server}/action", {"evacuate": {}}, 200)
        cloud.wait_for(lambda: cloud.get(server).host != old and cloud.get(server).task_state is None, 30)
    while_asked(cloud, "reserve", evacuate, before)
    body = {"volumeAttachment": {"volumeId": volume}}
    cloud.member.fault("POST", f"/servers/{server}/os-volume_attachments", 404, body)
    cloud.actions_end(server)
    [attachment], device = cloud.attachments(), cloud.device(server, volume)
    assert (attachment["id"], attachment["status"], device.attached) == (device.attachment_id, "attached", True)


def test_of_two_attachments_the_one_that_the_guest_uses_stays(cloud):
    """However it came to the second one: the record says afterwards which one counts."""
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    used = cloud.device(server, volume)
    second = cloud.volumes.reserve(cloud.user, volume, server, {"host": "h1"})
    cloud.set(server, block_devices=[{**used.to_primitive(), "attachment_id": second.id}])
    cloud.operate(server, "attach_volume", {"device_id": used.id, "volume_id": volume})
    cloud.actions_end(server)
    assert [a["id"] for a in cloud.attachments()] == [cloud.device(server, volume).attachment_id] == [used.attachment_id]
