"""A guest leaves a host in one order, whatever the verb."""
import pytest

from nova_lite import exception
from nova_lite.compute import guest_removal
from tests.unit.compute.interfaces.conftest import cloud
from tests.unit.compute.volumes.volume_cloud import VolumeCloud

__all__ = ["cloud"]
PARTS = ("destroy", "unplug", "disconnect_volume")
BROKEN = exception.VirtDriverError(what="libvirt", reason="it does not answer")


@pytest.fixture
def calls(cloud):  # noqa: F811
    """What the host was asked to remove, in order; its server has a nic and a volume."""
    VolumeCloud.attach(cloud, cloud.server, cloud.volume())
    cloud.actions_end(cloud.server)
    asked = cloud.host_network.calls = cloud.drivers["h1"].calls = []
    return lambda: [call for call in asked if call in PARTS]


def test_the_guest_then_its_nics_then_its_volumes_and_again(cloud, calls):  # noqa: F811
    host, instance = cloud.hosts["h1"].host, cloud.get(cloud.server)
    guest_removal.destroy(host, instance)
    assert calls() == [*PARTS]
    assert [device.connection_info for device in instance.volumes] == [None]
    guest_removal.destroy(host, instance)
    assert calls() == [*PARTS, "destroy", "unplug"]


def test_what_fails_keeps_the_rest_unless_the_caller_goes_on(cloud, calls):  # noqa: F811
    host, instance, failed = cloud.hosts["h1"].host, cloud.get(cloud.server), []

    def attempt(step):
        try:
            step()
        except exception.VirtDriverError as error:
            failed.append(error)
    cloud.drivers["h1"].fail("destroy", BROKEN, times=2)
    with pytest.raises(exception.VirtDriverError):
        guest_removal.destroy(host, instance)
    assert calls() == ["destroy"]
    guest_removal.remove(host, instance, lambda: host.driver.destroy(instance, instance.network_info), attempt=attempt)
    assert (calls(), failed) == (["destroy", *PARTS], [BROKEN])


@pytest.mark.parametrize(("options", "left_out"), [({"nics": False}, "unplug"), ({"disks": False}, "disconnect_volume")])
def test_what_stays_with_the_host_is_left_out(cloud, calls, options, left_out):  # noqa: F811
    host, instance = cloud.hosts["h1"].host, cloud.get(cloud.server)
    guest_removal.remove(host, instance, lambda: host.driver.destroy(instance, instance.network_info), **options)
    assert calls() == [part for part in PARTS if part != left_out]
