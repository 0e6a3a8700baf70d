"""A server with a volume is built anew on another host: which attachments are made and given back, whoever dies on the way."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.support.clock import FastClock
from tests.unit.compute.volumes.volume_cloud import DIED


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", "h2", "h3")


@pytest.fixture
def server(cloud):
    """A server with a volume, whose host has died."""
    made, volume = cloud.running(), cloud.volume()
    cloud.attach(made, volume)
    cloud.actions_end(made)
    old = cloud.get(made).host
    cloud.end_host(old)
    cloud.silence(old)
    return made


def _evacuate(cloud, server, host=None):
    return cloud.operate(server, "evacuate", {"host": host, "force": False, "stopped": False})


def _others(cloud, server):
    return sorted({"h1", "h2", "h3"} - {cloud.get(server).host})


def _settled(cloud, server, host):
    found = cloud.wait(server, states.ACTIVE)
    assert found.host == host
    [device], [attachment] = found.volumes, cloud.attachments()
    assert (device.attachment_id, device.attached, attachment["status"]) == (attachment["id"], True, "attached")
    assert "reserve" in cloud.host_volumes[host].calls      # with this host's connector: no other host's will do


def test_what_the_volume_service_refuses_to_take_back_ends_nothing(cloud, server):
    new = _others(cloud, server)[0]
    cloud.host_volumes[new].fail("release", exception.InvalidVolume(reason="it is being detached"), times=9)
    _evacuate(cloud, server, new)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(new)) == (new, {server: states.RUNNING})
    [device] = found.volumes
    assert device.attachment_id in {a["id"] for a in cloud.attachments()}


def test_a_host_whose_connecting_broke_off_lets_go_of_the_volume(cloud, server):
    """It may have kept the password of its storage by then."""
    new = _others(cloud, server)[0]
    cloud.drivers[new].fail("connect_volume", exception.InvalidVolume(reason="its storage does not answer"), "after", times=9)
    _evacuate(cloud, server, new)
    cloud.wait_for(lambda: cloud.get(server).vm_state == states.ERROR)
    cloud.wait_for(lambda: "disconnect_volume" in cloud.drivers[new].calls)
    assert cloud.guests(new) == {}


@pytest.mark.parametrize(("part", "method", "when"), [
    ("host_volumes", "reserve", "after"), ("drivers", "connect_volume", "after"), ("drivers", "spawn", "before"),
    ("drivers", "spawn", "after"), ("host_volumes", "complete", "after")])
@pytest.mark.parametrize("returns", [True, False])
def test_no_other_hosts_attachment_is_used(cloud, server, part, method, when, returns):
    """The first new host dies in the middle: it goes on when it is back, or another one begins with a connection of its own."""
    first, second = _others(cloud, server)
    getattr(cloud, part)[first].fail(method, DIED, when)
    action = _evacuate(cloud, server, first)
    cloud.wait_for(lambda: method in getattr(cloud, part)[first].calls and not cloud.hosts[first].leases.in_flight())
    made = [a["id"] for a in cloud.attachments()]
    assert len(made) == 2
    if not returns:
        cloud.silence(first)
        arguments = {**cloud.action(action).arguments, "host": None}
        cloud.db.write(actions.set_arguments, action, arguments)
        if method == "complete" or (method, when) == ("spawn", "after"):    # its guest may run there
            cloud.take_over()
            assert (cloud.action(action).host, cloud.action(action).state) == (first, objects.PENDING)
            cloud.force_down(first)
    cloud.take_over()
    _settled(cloud, server, first if returns else second)
    kept = cloud.get(server).volumes[0].attachment_id in made
    assert kept == (returns and method in ("spawn", "complete"))     # a guest may run with it


@pytest.mark.parametrize("deleted", [False, True])
def test_a_new_host_whose_guest_may_run_is_waited_for(cloud, server, deleted):
    """Some seconds of silence are no death: two guests would write to the volume. A delete is done meanwhile."""
    first = _others(cloud, server)[0]
    cloud.drivers[first].fail("spawn", DIED, "after")
    action = _evacuate(cloud, server, first)
    cloud.wait_for(lambda: "spawn" in cloud.drivers[first].calls and not cloud.hosts[first].leases.in_flight())
    made = sorted(a["id"] for a in cloud.attachments())
    cloud.silence(first)
    cloud.take_over()
    assert (cloud.action(action).host, cloud.guests(first)) == (first, {server: states.RUNNING})
    assert sorted(a["id"] for a in cloud.attachments()) == made
    with cloud.db.read() as conn:
        assert f"Compute host {first} stopped reporting" in str([e["details"] for e in actions.events_of(conn, action)])
    cloud.services.compute.clock = FastClock(skips=3600.0)
    refused = cloud.admin.fault("POST", f"/servers/{server}/action", 409, {"evacuate": {}})     # it could go elsewhere
    assert f"in the middle of its evacuation to {first}" in refused
    if deleted:
        cloud.member.delete(f"/servers/{server}")
        cloud.take_over()
        cloud.wait_for(lambda: cloud.get(server).deleted)
        cloud.report(first)
        cloud.sync(first)
        cloud.wait_for(lambda: cloud.guests(first) == {})
    else:
        cloud.report(first)
        _settled(cloud, server, first)


def _with_a_guest_there(cloud, server):
    """An evacuation whose new host was killed when its guest ran, and whose server was declared idle: (action, new host)."""
    first = _others(cloud, server)[0]
    cloud.drivers[first].fail("spawn", DIED, "after")
    action = _evacuate(cloud, server, first)
    cloud.wait_for(lambda: "spawn" in cloud.drivers[first].calls and not cloud.hosts[first].leases.in_flight())
    cloud.admin.post(f"/servers/{server}/action", {"os-resetState": {"state": "active"}}, 202)
    return action, first


def test_an_old_host_starts_no_guest_that_may_run_elsewhere(cloud, server):
    cloud.services.compute.clock = FastClock(skips=3600.0)
    old = cloud.get(server).host
    _, new = _with_a_guest_there(cloud, server)
    cloud.add_meddled_host(old)
    for body in ({"reboot": {"type": "HARD"}}, {"rebuild": {"imageRef": cloud.image}}, {"rescue": {}}):
        refused = cloud.member.fault("POST", f"/servers/{server}/action", 409, body)
        assert f"Cannot '{next(iter(body))}'" in refused
        assert f"in the middle of its evacuation to {new}" in refused
    assert (cloud.guests(old), cloud.guests(new)) == ({}, {server: states.RUNNING})


@pytest.mark.parametrize("waits", [True, False])
def test_one_whose_guest_may_run_goes_on_whatever_its_server_was_declared(cloud, server, waits):
    """Dropped, it would leave that guest to run beside the one that its old host starts."""
    action, new = _with_a_guest_there(cloud, server)
    if waits:
        cloud.silence(new)
        cloud.take_over()
        cloud.report(new)
    cloud.take_over()
    cloud.wait_action(action, objects.DONE)
    _settled(cloud, server, new)
    assert cloud.guests(new) == {server: states.RUNNING}
