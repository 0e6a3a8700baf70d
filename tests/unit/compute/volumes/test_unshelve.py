"""A shelved server that is on its host still comes back with its volumes, and one that does not come back is off."""
from __future__ import annotations

import pytest

from nova_lite.compute import snapshot
from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN

OFF = (states.SHELVED, None, states.SHUTDOWN)


def act(cloud, server, verb):
    cloud.admin.post(f"/servers/{server}/action", {verb: None}, 202)


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state


@pytest.fixture
def on_its_host(make_volume_cloud):
    """A server with two volumes that will be shelved without leaving its host."""
    cloud = make_volume_cloud(compute__shelved_offload_time=-1)
    server = cloud.running()
    for _ in range(2):
        cloud.attach(server, cloud.volume())
        cloud.actions_end(server)
    return cloud, server


def test_one_whose_start_fails_at_its_end_is_off_on_its_shelf(on_its_host):
    """What a guest writes there would be lost when it is offloaded."""
    cloud, server = on_its_host
    act(cloud, server, "shelve")
    cloud.wait(server, states.SHELVED)
    cloud.host_volumes["h1"].fail("complete")
    act(cloud, server, "unshelve")
    cloud.actions_end(server)
    assert "power_on" in cloud.drivers["h1"].calls
    assert (state(cloud, server), cloud.guests("h1")) == (OFF, {server: states.SHUTDOWN})
    act(cloud, server, "unshelve")
    cloud.wait(server, states.ACTIVE)
    assert cloud.guests("h1") == {server: states.RUNNING}


@pytest.mark.parametrize("comes_back", [True, False])
def test_who_is_killed_when_the_image_goes_leaves_its_volumes_attached(cloud, monkeypatch, comes_back):
    server = cloud.running()
    volume = cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    act(cloud, server, "shelve")
    cloud.wait(server, states.SHELVED_OFFLOADED)
    reached = []

    def die(_work, image_id):
        reached.append(image_id)
        raise DIED
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "discard", die)
        act(cloud, server, "unshelve")
        cloud.wait_for(lambda: reached and not cloud.hosts["h1"].leases.in_flight())
    if not comes_back:
        cloud.silence("h1")
    cloud.take_over()
    cloud.wait(server, states.ACTIVE)
    assert cloud.device(server, volume).attached
    assert (cloud.status(volume), [a["status"] for a in cloud.attachments()]) == ("in-use", ["attached"])


def break_off(cloud, method, number):
    """The Volume service fails when the host asks it for ``method`` for the n-th time, once."""
    real, asked = cloud.host_volumes["h1"]._real, []

    def ask(_self, *arguments, **named):
        asked.append(method)
        if len(asked) == number:
            raise DOWN
        return getattr(real, method)(*arguments, **named)
    cloud.host_volumes["h1"]._real = type("Broken", (), {"__getattr__": lambda _self, name: getattr(real, name), method: ask})()


def watch(cloud, server, monkeypatch):
    """The volumes that a guest was made with, each connected to its host at that time."""
    driver, at_spawn = cloud.drivers["h1"]._real, []
    here = {d.volume_id for d in cloud.get(server).volumes}
    connect, disconnect, spawn = driver.connect_volume, driver.disconnect_volume, driver.spawn

    def connecting(instance, device, info):
        here.add(device.volume_id)
        return connect(instance, device, info)

    def disconnecting(instance, device):
        here.discard(device.volume_id)
        disconnect(instance, device)

    def spawning(instance, *arguments):
        at_spawn.append({d.volume_id for d in instance.volumes if d.connection_info} & here)
        spawn(instance, *arguments)
    for name, function in (("connect_volume", connecting), ("disconnect_volume", disconnecting), ("spawn", spawning)):
        monkeypatch.setattr(driver, name, function)
    return at_spawn


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("method", ["attachments", "reserve", "release"])
def test_after_an_offload_that_broke_off_it_has_all_of_them(on_its_host, monkeypatch, method, number):
    cloud, server = on_its_host
    act(cloud, server, "shelve")
    cloud.wait(server, states.SHELVED)
    at_spawn = watch(cloud, server, monkeypatch)
    break_off(cloud, method, number)
    act(cloud, server, "shelveOffload")
    cloud.actions_end(server)
    assert (state(cloud, server), cloud.guests("h1")) == (OFF, {})
    act(cloud, server, "unshelve")
    cloud.wait(server, states.ACTIVE)
    devices = cloud.get(server).volumes
    assert at_spawn == [{d.volume_id for d in devices}]
    assert all(d.attached and d.connection_info for d in devices)
    assert {(a["id"], a["status"]) for a in cloud.attachments()} == {(d.attachment_id, "attached") for d in devices}
