"""The format of a guest's disk is the one in which it was made, whatever the guest writes on it and the operator sets later."""
import os
import shutil

import pytest
from lxml import etree

from nova_lite import exception

from .image_hosts import MIB, NO_FILES, SECRET, bases, fetching, hosts, image, overlay, server

pytest.importorskip("libvirt")
pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-utils are not installed")
MOVE = "30000000-0000-4000-8000-000000000003"


@pytest.fixture
def made(tmp_path, monkeypatch):
    with hosts(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def raw_image(tmp_path):
    path = tmp_path / "raw.img"
    path.write_bytes(b"boot" * (MIB // 4))
    return path


@pytest.fixture
def rewritten(made, raw_image, tmp_path):
    """(a guest of a host with raw disks, what it wrote to its disk): the header of an overlay on another tenant's image, which
    is in the host's cache."""
    driver, guest, others = made.start(libvirt__images_type="raw"), server(image()), image()
    (tmp_path / "secret").write_bytes(SECRET)
    driver.cache_image(others, fetching(tmp_path / "secret"))
    driver.spawn(guest, [], NO_FILES, fetching(raw_image))
    driver.power_off(guest, 0)
    header = overlay(bases(driver) / others.id)
    with open(made.files("one", guest).disk, "r+b") as disk:
        disk.write(header)
    yield guest, header
    driver.destroy(guest, [])


def _formats(driver, guest):
    """By the file, what libvirt is told of the guest's disks."""
    disks = etree.fromstring(driver._guest(guest).xml()).findall("devices/disk")
    return {os.path.basename(d.find("source").get("file")): d.find("driver").get("type") for d in disks}


def test_a_raw_disk_stays_raw_on_a_host_that_makes_qcow2_by_now(made, rewritten, raw_image):
    """Start, rescue and resize; by the header that the guest wrote each would show it the other tenant's image. A snapshot is
    refused: no host would take that image."""
    guest, header = rewritten
    driver, fetch = made.start(libvirt__images_type="qcow2"), fetching(raw_image)
    driver.power_on(guest, [])
    assert _formats(driver, guest) == {"disk": "raw"}
    driver.power_off(guest, 0)
    with pytest.raises(exception.ImageUnacceptable, match="claims to be raw, but its data is qcow2"), driver.snapshot(guest):
        pass
    assert driver.live.facts(guest).disks[0]["format"] == "raw"
    driver.rescue(guest, [], image(), NO_FILES, fetch)
    assert _formats(driver, guest) == {"disk.rescue": "raw", "disk": "raw"}
    driver.unrescue(guest, [])
    driver.set_aside(guest, [], 0, MOVE)
    driver.receive_guest(guest, None, fetch, MOVE)
    guest.flavor.root_gb = 2
    driver.finish_move(guest, [], fetch, True)
    assert _formats(driver, guest) == {"disk": "raw"}
    disk = made.files("one", guest).disk
    with open(disk, "rb") as stream:
        assert (disk.stat().st_size, stream.read(len(header))) == (2 << 30, header)
    driver.drop_aside(guest)


def test_a_raw_disk_stays_raw_on_its_way_to_another_host(made, rewritten, raw_image):
    """Resized, and then prepared for a live migration to a third one."""
    guest, header = rewritten
    old, new = made.start(libvirt__images_type="qcow2"), made.start("two")
    old.set_aside(guest, [], 0, MOVE)
    offer = old.offer_disks(guest)
    assert (offer.disk_format, offer.base) == ("raw", "")
    new.receive_guest(guest, offer, fetching(raw_image), MOVE)
    new.finish_move(guest, [], fetching(raw_image), True)
    assert _formats(new, guest) == {"disk": "raw"}
    with open(made.files("two", guest).disk, "rb") as disk:
        assert disk.read(len(header)) == header
    facts = new.live.facts(guest)
    assert (facts.disks[0]["format"], facts.disks[0]["size"]) == ("raw", 1 << 30)
    old.drop_aside(guest)


def test_a_qcow2_disk_stays_qcow2_on_a_host_that_makes_raw_ones_by_now(made, raw_image):
    driver, guest = made.start(), server(image())
    driver.spawn(guest, [], NO_FILES, fetching(raw_image))
    driver = made.start(libvirt__images_type="raw")
    driver.reboot(guest, [], hard=True, timeout=0)
    assert _formats(driver, guest) == {"disk": "qcow2"}
    other = server(image())
    driver.spawn(other, [], NO_FILES, fetching(raw_image))
    assert _formats(driver, other) == {"disk": "raw"}
    for one in (guest, other):
        driver.destroy(one, [])


@pytest.mark.parametrize("is_defined", [True, False])
def test_guests_of_older_versions_are_noted_when_the_daemon_starts(made, rewritten, is_defined):
    """As libvirt has them, else as the host makes disks at that time; and not anew when that is changed."""
    guest, _header = rewritten
    files = made.files("one", guest)
    files.note(disk_format="", base=None)
    driver = made.start(libvirt__images_type="qcow2" if is_defined else "raw")
    if not is_defined:
        driver._guest(guest).undefine()
        files.note(disk_format="", base=None)
        driver = made.start(libvirt__images_type="raw")
    assert files.disk_format == "raw"
    assert files.is_of("one")
    driver = made.start(libvirt__images_type="qcow2")
    driver.power_on(guest, [])
    assert _formats(driver, guest) == {"disk": "raw"}
