"""Which disks are the same volume, and what becomes of an exchange when the guest is off."""
import uuid

import pytest
from lxml import etree

from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.swap import is_same_source, swap

NBD = '<disk type="network"><source protocol="nbd" name="{name}">{hosts}</source><target dev="vdb"/></disk>'
FILE = '<disk type="file"><source file="{0}" index="3"/><target dev="vdb"/></disk>'


def nbd(*hosts, name="volume"):
    return NBD.format(name=name, hosts="".join(f'<host name="{h}"' + (f' port="{p}"' if p else "") + "/>" for h, p in hosts))


@pytest.mark.parametrize(("one", "other", "same"), [
    (nbd(("one", "1")), nbd(("one", "1")), True),
    (nbd(("one", "1")), nbd(("two", "1")), False),
    (nbd(("one", "1")), nbd(("one", "2")), False),
    (nbd(("one", "1")), nbd(("one", "1"), name="other"), False),
    (nbd(("one", "")), nbd(("one", "10809")), True),
    (nbd(("one", "1"), ("two", "1")), nbd(("two", "1"), ("one", "1")), True),
    (nbd(("[::1]", "1")), nbd(("::1", "1")), True),
    (FILE.format("/a"), FILE.format("/a"), True),
    (FILE.format("/a"), FILE.format("/b"), False),
    (FILE.format("/a"), nbd(("one", "1")), False)])
def test_a_volume_is_its_name_and_its_servers(one, other, same):
    assert is_same_source(etree.fromstring(one), etree.fromstring(other)) is same
    assert is_same_source(etree.fromstring(other), etree.fromstring(one)) is same


# a guest that is off --------------------------------------------------------------------------------------------------------
OLD, NEW = (BlockDevice("device", "volume", volume_id=name, size=1) for name in ("old-volume", "new-volume"))
DISK = ("<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{}'/><target dev='vdb' bus='virtio'/>"
        f"<serial>{OLD.volume_id}</serial></disk>")
DOMAIN = ("<domain type='test'><name>swapped</name><uuid>{}</uuid><memory unit='MiB'>64</memory><os><type>hvm</type></os>"
          "<devices>{}</devices></domain>")


@pytest.fixture
def guest():
    pytest.importorskip("libvirt")
    connection = Connection("test:///default")
    connection.open()
    made = Guest(connection, str(uuid.uuid4()))
    yield made
    made.unplug()
    made.undefine()
    connection.close()


@pytest.mark.parametrize("disks", [DISK.format("/old"), DISK.format("/new"), ""])
def test_nothing_is_noted_of_a_guest_that_does_not_run(guest, disks):
    """What was noted before holds: the guest is started with that."""
    guest.define(DOMAIN.format(guest.uuid, disks))
    noted = []
    with pytest.raises(exception.GuestLacksDisk, match="does not run"):
        swap(guest, OLD, NEW, DISK.format("/new"), noted.append)
    assert noted == []


def test_one_that_is_gone_has_none(guest):
    with pytest.raises(exception.GuestLacksDisk, match="does not run"):
        swap(guest, OLD, NEW, DISK.format("/new"), lambda _device: None)
