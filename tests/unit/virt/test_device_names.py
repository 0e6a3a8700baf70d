"""Names of disks: pure."""
import pytest

from nova_lite.objects.block_device import BlockDevice
from nova_lite.virt import device_names
from tests.unit.virt.libvirt.builders import blanks, instance, volume


def _names(made):
    return list(device_names.assign(made).values())


def _next(made, bus=None):
    """As a volume without a name gets it."""
    return "/dev/" + device_names.next_free(bus or device_names.disk_bus(made), device_names.assign(made).values())


def test_the_hosts_own_disks_come_first_then_the_volumes():
    made = instance(ephemeral_gb=1, swap=64, block_devices=[volume(1), volume(2)])
    assert device_names.assign(made) == {"root": "vda", "ephemeral0": "vdb", "swap": "vdc", volume(1).id: "vdd",
                                         volume(2).id: "vde"}
    assert _next(made) == "/dev/vdf"


def test_each_ephemeral_disk_has_a_name():
    made = instance(ephemeral_gb=4, swap=64, block_devices=[volume(1), *blanks(2, 1)])
    assert device_names.assign(made) == {"root": "vda", "ephemeral0": "vdb", "ephemeral1": "vdc", "swap": "vdd",
                                         volume(1).id: "vde"}
    assert _names(instance(ephemeral_gb=4, block_devices=blanks(0))) == ["vda"]


def test_a_root_volume_is_the_first():
    made = instance(block_devices=[volume(1), volume(2, boot_index=0)])
    assert device_names.assign(made) == {volume(1).id: "vdb", volume(2).id: "vda"}


def test_a_volume_keeps_its_name_when_another_goes():
    made = instance(block_devices=[volume(2, device_name="/dev/vdc")])
    assert _next(made) == "/dev/vdb"
    made.block_devices.append(volume(3, device_name="/dev/vdb"))
    assert _names(made) == ["vda", "vdc", "vdb"]
    assert _next(made) == "/dev/vdd"


@pytest.mark.parametrize("asked", ["/dev/vda", "/dev/sdb", "vdb; rm", "/dev/vdaaa", "xvdb", ""])
def test_a_name_that_does_not_fit_is_replaced(asked):
    assert _names(instance(block_devices=[volume(1, device_name=asked)])) == ["vda", "vdb"]


def test_of_two_that_ask_for_the_same_name_the_first_gets_it():
    made = instance(block_devices=[volume(1, device_name="/dev/vdc"), volume(2, device_name="vdc"), volume(3)])
    assert device_names.assign(made) == {"root": "vda", volume(1).id: "vdc", volume(2).id: "vdb", volume(3).id: "vdd"}


@pytest.mark.parametrize(("properties", "bus", "name"), [
    ({}, None, "/dev/vdb"), ({}, "scsi", "/dev/sda"), ({"hw_disk_bus": "scsi"}, None, "/dev/sdb"),
    ({"hw_disk_bus": "ide"}, "virtio", "/dev/vda")])
def test_each_kind_of_bus_has_its_own_letters(properties, bus, name):
    assert _next(instance(properties=properties), bus) == name


@pytest.mark.parametrize(("properties", "bus", "name"), [
    ({}, None, "/dev/vdb"), ({}, "scsi", "/dev/sdb"), ({"hw_disk_bus": "scsi"}, None, "/dev/sdc"),
    ({"hw_cdrom_bus": "ide"}, "scsi", "/dev/sda"), ({"hw_disk_bus": "ide", "hw_cdrom_bus": "ide"}, None, "/dev/hdc")])
def test_no_volume_takes_the_letter_of_the_config_drive(properties, bus, name):
    assert _next(instance(properties=properties, config_drive=True), bus) == name


def test_after_z_comes_aa():
    made = instance(block_devices=[volume(n) for n in range(1, 27)])
    assert _names(made)[-2:] == ["vdz", "vdaa"]
    assert _next(made) == "/dev/vdab"


def _local(bus, number, **values):
    return BlockDevice(f"d{number}", values.pop("source_type", "blank"), "local", disk_bus=bus, **values)


def test_the_hosts_own_disks_have_the_buses_that_were_asked_for():
    devices = [_local("sata", 1, source_type="image", source_id="i", boot_index=0), _local("scsi", 2, size=1),
               _local(None, 3, size=1), _local("usb", 4, guest_format="swap", size=64), volume(1)]
    made = instance(ephemeral_gb=2, swap=64, config_drive=True, properties={"hw_cdrom_bus": "sata"}, block_devices=devices)
    assert device_names.assign(made) == {
        "root": "sda", "ephemeral0": "sdb", "ephemeral1": "vda", "swap": "sdc", "config-drive sd": "sdd", volume(1).id: "vdb"}
    assert device_names.by_device(made) == {"d1": "sda", "d2": "sdb", "d3": "vda", "d4": "sdc", volume(1).id: "vdb"}


def test_an_empty_disk_of_no_size_is_none_of_the_disks():
    made = instance(ephemeral_gb=1, block_devices=[_local("scsi", 1, size=0), _local("sata", 2, size=1)])
    assert device_names.by_device(made) == {"d2": "sda"}
