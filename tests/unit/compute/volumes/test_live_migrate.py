"""The volumes of a guest that moves while it runs: connected to both hosts on the way, and to one of them in the end."""
from __future__ import annotations

import pytest

from nova_lite.objects import states

LIVE = {"os-migrateLive": {"host": None, "block_migration": "auto"}}


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", "h2")


@pytest.fixture
def moved(cloud):
    """(server, its volume, its host, the other one)."""
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    here = cloud.get(server).host
    return server, volume, here, next(name for name in cloud.hosts if name != here)


def calls(cloud, host):
    return [c for c in cloud.drivers[host].calls if c in ("connect_volume", "attach_volume", "disconnect_volume")]


def is_settled(cloud, server, volume, host):
    """The guest is there, and its volume is connected to that host alone."""
    found, device, [attachment] = cloud.get(server), cloud.device(server, volume), cloud.attachments()
    assert (found.host, found.vm_state, found.task_state) == (host, states.ACTIVE, None)
    assert cloud.guests(host) == {server: states.RUNNING}
    assert (attachment["id"], attachment["status"], cloud.status(volume)) == (device.attachment_id, "attached", "in-use")
    assert device.attached
    assert device.connection_info is not None


def test_they_come_along(cloud, moved):
    server, volume, old, new = moved
    before = cloud.device(server, volume)
    cloud.admin.post(f"/servers/{server}/action", LIVE, 202)
    cloud.wait_for(lambda: cloud.get(server).host == new, 30)
    cloud.actions_end(server, 30)
    is_settled(cloud, server, volume, new)
    after = cloud.device(server, volume)
    assert (after.id, after.device_name) == (before.id, before.device_name)
    assert after.attachment_id != before.attachment_id
    assert (calls(cloud, old), calls(cloud, new)) == (
        ["connect_volume", "attach_volume", "disconnect_volume"], ["connect_volume"])


@pytest.mark.parametrize("fails", ["pre_live_migration", "live_migration"])
def test_they_stay_with_a_guest_that_stays(cloud, moved, fails):
    server, volume, old, new = moved
    before = cloud.device(server, volume)
    cloud.fail(fails)
    cloud.admin.post(f"/servers/{server}/action", LIVE, 202)
    cloud.actions_end(server, 30)
    is_settled(cloud, server, volume, old)
    assert cloud.device(server, volume) == before
    assert (calls(cloud, old), calls(cloud, new)) == (
        ["connect_volume", "attach_volume"], ["connect_volume", "disconnect_volume"])


def test_a_volume_that_the_other_host_cannot_have_keeps_the_guest_here(cloud, moved):
    server, volume, old, new = moved
    cloud.host_volumes[new].fail("reserve")
    cloud.admin.post(f"/servers/{server}/action", LIVE, 202)
    cloud.actions_end(server, 30)
    is_settled(cloud, server, volume, old)
    assert cloud.guests(new) == {}
