"""A server with a volume is built anew on another host: which attachments are made and given back, whoever dies on the way."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.objects import states


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
