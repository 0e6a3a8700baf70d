"""The exchange of a volume of the libvirt driver, cut off at each point: which volume is the whole one then, and that nothing
is copied over it later.

The guest has an empty disk, so nothing boots and all is fast; see test_libvirt_volumes.py for one that writes.
"""
from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import swap
from tests.libvirt_host import LibvirtHost

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
MARK, LATER, SIZE = b"from-the-old-one", b"written-later-on", 8 * 1024 * 1024


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-swap") as host:
        yield host


@pytest.fixture
def driver(hypervisor, tmp_path):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), libvirt__connection_uri=hypervisor.uri)
    made = virt_driver.load(conf, "node-swap")
    made.init_host(lambda *_news: None)
    yield made
    made.stop_host()


@pytest.fixture
def exchange(driver, tmp_path):
    """A guest with a volume, that, and the connected one that is to take its place; the files of both."""
    image, empty = ImageMeta(str(uuid.uuid4())), tmp_path / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", empty, "1M"], check=True)
    old = BlockDevice(str(uuid.uuid4()), "volume", volume_id=str(uuid.uuid4()), size=1)
    new = dataclasses.replace(old, volume_id=str(uuid.uuid4()))
    made = Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="one",
                    flavor=Flavor("1", "tiny", 64, 1, 1), image_ref=image.id, image=image, block_devices=[old])
    files = tmp_path / "old", tmp_path / "new"
    for device, path, content in zip((old, new), files, (MARK, b""), strict=True):
        path.write_bytes(content.ljust(SIZE, b"\0"))
        info = {"driver_volume_type": "local", "data": {"device_path": str(path)}}
        device.connection_info = {**driver.connect_volume(made, device, info), "serial": old.volume_id}
    driver.spawn(made, [], GuestFiles(metadata={}), lambda _image_id, path: shutil.copyfile(empty, path))
    yield made, old, new, *files
    driver.destroy(made, [])


def _virsh(hypervisor, *arguments):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True,
                          check=False).stdout.strip()


def _source(hypervisor, guest):
    """The file that the guest's volume is now."""
    return dict(line.split() for line in _virsh(hypervisor, "domblklist", guest.uuid).splitlines())["vdb"]


def _begins_with(path):
    with path.open("rb") as stream:
        return stream.read(len(MARK))


class Killed(BaseException):
    """The daemon ends here."""


def test_a_daemon_that_dies_before_the_guest_changes_over_copies_nothing_again(driver, hypervisor, exchange):
    """From the note on the guest's writes are on both, and the next daemon finds the job that the last one began."""
    guest, old, new, old_file, new_file = exchange

    def die(device):
        if device is new:
            raise Killed
    with pytest.raises(Killed):
        driver.swap_volume(guest, old, new, die)
    assert _source(hypervisor, guest) == str(old_file)
    noted = []
    driver.swap_volume(guest, old, new, noted.append)
    assert noted == [new]
    assert _source(hypervisor, guest) == str(new_file)
    assert _begins_with(new_file) == MARK


@pytest.mark.parametrize("ends", ["before", "after"])
def test_no_second_run_copies_over_what_the_guest_has_written_since(driver, hypervisor, exchange, monkeypatch, ends):
    """The daemon dies with its machine, before or after the guest changes over; then the guest is started by the record."""
    guest, old, new, old_file, new_file = exchange
    change_over = swap._change_over

    def die(*arguments):
        if ends == "after":
            change_over(*arguments)
        raise Killed
    monkeypatch.setattr(swap, "_change_over", die)
    noted = []
    with pytest.raises(Killed):
        driver.swap_volume(guest, old, new, noted.append)
    monkeypatch.undo()
    assert noted == [old, new]
    driver.power_off(guest, 0)
    with pytest.raises(exception.GuestLacksDisk):
        driver.swap_volume(guest, old, new, noted.append)
    guest.block_devices = noted[-1:]
    driver.power_on(guest, [])
    assert _begins_with(new_file) == MARK
    with new_file.open("r+b") as stream:        # as the guest would
        stream.write(LATER)
    driver.swap_volume(guest, old, new, noted.append)
    assert noted == [old, new, new]
    assert _begins_with(new_file) == LATER
    assert _source(hypervisor, guest) == str(new_file)


def test_a_guest_that_does_not_change_over_keeps_the_old_volume(driver, hypervisor, exchange):
    """Its copy breaks off after the note: the old volume is what the guest writes to, and says so to whoever starts it."""
    guest, old, new, old_file, new_file = exchange
    noted = []

    def note(device):
        noted.append(device)
        if device is new:
            _virsh(hypervisor, "blockjob", guest.uuid, "vdb", "--abort")
    with pytest.raises(exception.VirtDriverError):
        driver.swap_volume(guest, old, new, note)
    assert noted == [old, new, old]
    assert _source(hypervisor, guest) == str(old_file)
    driver.swap_volume(guest, old, new, noted.append)
    assert noted[3:] == [old, new]
    assert _source(hypervisor, guest) == str(new_file)


def test_a_disk_that_the_configuration_lacks_comes_back_to_it(driver, hypervisor, exchange):
    """An older version took it from there before the guest was asked to let go of it, and the guest did not."""
    guest, old, new, _old_file, new_file = exchange
    _virsh(hypervisor, "detach-disk", guest.uuid, "vdb", "--config")
    for side in ((), ("--inactive",)):
        assert ("vdb" in _virsh(hypervisor, "domblklist", guest.uuid, *side)) == (not side)
    for _ in range(2):
        driver.swap_volume(guest, old, new, lambda _device: None)
        for side in ((), ("--inactive",)):
            assert str(new_file) in _virsh(hypervisor, "domblklist", guest.uuid, *side)


def test_an_exchanged_volume_is_known_by_the_name_that_the_guest_has_for_it(driver, hypervisor, exchange):
    """The record names the new one, as long as the Volume service has not given that the old one's id."""
    guest, old, new, *_files = exchange
    driver.swap_volume(guest, old, new, lambda _device: None)
    driver.power_off(guest, 0)
    driver.detach_volume(guest, new)
    assert "vdb" not in _virsh(hypervisor, "domblklist", guest.uuid)
