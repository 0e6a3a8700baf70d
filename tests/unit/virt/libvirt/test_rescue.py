"""The disks of a rescued guest."""
import dataclasses
import pathlib

import pytest

from nova_lite import exception
from nova_lite.objects.image import ImageMeta
from nova_lite.virt.libvirt import guest_config, rescue
from nova_lite.virt.libvirt.config import DiskPool
from nova_lite.virt.libvirt.domain_xml import build
from nova_lite.virt.libvirt.files import GuestDirectory
from tests.unit.virt.libvirt import builders

FILES = GuestDirectory(pathlib.Path("/instances"), builders.UUID)


def disks(server, **properties):
    image = ImageMeta("b0000000-0000-4000-8000-00000000000b", properties=properties)
    config = guest_config.make(server, "one", [], FILES, builders.TCG)
    made = rescue.rescued(config, server, image, FILES, builders.TCG)
    assert rescue.is_rescued(build(made), FILES)
    assert not rescue.is_rescued(build(config), FILES)
    return [(pathlib.Path(d.path).name or d.network.name, d.target, d.bus, d.device, d.boot_order) for d in made.disks]


def test_the_own_disk_is_the_second_one():
    server = builders.instance(config_drive=True, ephemeral_gb=1, swap=8)
    found = disks(server)
    assert found == [("disk.rescue", "vda", "virtio", "disk", None), ("disk", "vdb", "virtio", "disk", None),
                     ("disk.config.rescue", "hda", "ide", "cdrom", None)]


def test_names_of_other_buses_and_of_the_config_drive_are_kept():
    server = builders.instance(config_drive=True, properties={"hw_disk_bus": "scsi", "hw_cdrom_bus": "scsi"})
    assert [d[:3] for d in disks(server)] == [("disk.rescue", "sda", "scsi"), ("disk", "sdc", "scsi"),
                                              ("disk.config.rescue", "sdb", "scsi")]


@pytest.mark.parametrize(("properties", "target", "bus", "device"), [
    ({"hw_rescue_bus": "virtio"}, "vdc", "virtio", "disk"), ({"hw_rescue_device": "cdrom"}, "sda", "sata", "cdrom"),
    ({"hw_rescue_bus": "usb", "hw_rescue_device": "disk"}, "sda", "usb", "disk"),
    ({"hw_rescue_bus": "ide", "hw_rescue_device": "cdrom"}, "hda", "ide", "cdrom")])
def test_a_stable_rescue_is_added(properties, target, bus, device):
    server = builders.instance(ephemeral_gb=1)
    assert disks(server, **properties) == [
        ("disk", "vda", "virtio", "disk", None), ("disk.eph0", "vdb", "virtio", "disk", None),
        ("disk.rescue", target, bus, device, 1)]


def test_a_server_on_a_volume_is_rescued_by_a_stable_image_only():
    root = builders.volume(boot_index=0, **builders.FILE)
    server = builders.instance(block_devices=[root])
    assert disks(server, hw_rescue_bus="virtio") == [("4.raw", "vda", "virtio", "disk", 2),
                                                     ("disk.rescue", "vdb", "virtio", "disk", 1)]
    with pytest.raises(exception.InstanceNotRescuable, match="boots from a volume"):
        disks(server)


@pytest.mark.parametrize("properties", [{"hw_rescue_bus": "xen"}, {"hw_rescue_device": "floppy"}])
def test_what_cannot_be_had_is_told(properties):
    with pytest.raises(exception.InstanceNotRescuable, match="this host offers"):
        disks(builders.instance(), **properties)


def test_in_a_pool_the_rescue_disk_is_an_image_beside_the_own_one():
    server = builders.instance(config_drive=True)
    host = dataclasses.replace(builders.TCG, disk_format="raw", pool=DiskPool("vms", (("mon", "6789"),)))
    config = guest_config.make(server, "one", [], FILES, host)
    in_place, added = ["disk.rescue", "disk", None], ["disk", None, "disk.rescue"]
    for properties, expected in (({}, in_place), ({"hw_rescue_bus": "virtio"}, added)):
        made = rescue.rescued(config, server, ImageMeta("b", properties=properties), FILES, host)
        assert [d.network and d.network.name for d in made.disks] == [
            name and f"vms/{builders.UUID}_{name}" for name in expected]
        assert {d.format for d in made.disks} == {"raw"}
        assert rescue.is_rescued(build(made), FILES)
    assert not rescue.is_rescued(build(config), FILES)


def test_no_domain_is_rescued():
    assert not rescue.is_rescued("", FILES)
