"""The files of a guest that moves, with the real qemu-img and storage daemon; no libvirt."""
import os
import shutil
import struct
import subprocess

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.moves import Moves

from .builders import IMAGE, instance

pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-storage-daemon is not installed")
MIB = 1 << 20
SECRET = b"root:secret of the host\n" * 1000


class Host:
    """One host with its own directory; the guest is :func:`builders.instance`."""

    def __init__(self, path, images_type="qcow2"):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(path), my_ip="127.0.0.1",
                                   libvirt__images_type=images_type)
        self.disks = DiskMaker(conf)
        self.moves = Moves(conf, path.name, self.disks)
        self.root = path / "instances"
        self.guest = self.root / instance().uuid


@pytest.fixture
def make_host(tmp_path):
    made = []

    def make(name, **values):
        made.append(Host(tmp_path / name, **values))
        return made[-1]
    yield make
    for host in made:
        host.moves.drop_aside(instance().uuid)


@pytest.fixture
def fetch(tmp_path):
    image = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "1M"], check=True)
    return lambda _image_id, path: shutil.copyfile(image, path)


def header(backing):
    """Of a qcow2 file that stands on another."""
    name = os.fsencode(backing)
    made = b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", 2, 512, len(name), 16, MIB, 0, 0, 0, 0, 0, 0, 0)
    return made.ljust(512, b"\0") + name


def leave(host, disk):
    """The guest has this disk, and leaves."""
    host.guest.mkdir(parents=True)
    (host.guest / "disk").write_bytes(disk)
    host.moves.set_aside(instance())


def test_a_raw_disk_that_calls_itself_an_overlay_shows_no_file_of_the_host(make_host, fetch, tmp_path):
    old, new = make_host("old", images_type="raw"), make_host("new", images_type="raw")
    (tmp_path / "shadow").write_bytes(SECRET)
    disk = header(tmp_path / "shadow").ljust(MIB, b"\0")
    leave(old, disk)
    offer = old.moves.offer(instance())
    assert (offer.base, offer.disk_format, offer.disks) == ("", "raw", ["disk"])
    with open(f"/proc/{(old.root / (instance().uuid + '_resize') / 'offer.pid').read_text().strip()}/cmdline") as stream:
        assert "shadow" not in stream.read()
    new.moves.receive(instance(), offer, fetch)
    assert (new.guest / "disk").read_bytes() == disk
    assert sorted(p.name for p in new.root.iterdir()) == [instance().uuid]


def test_a_disk_on_what_is_no_base_image_is_not_shown(make_host, tmp_path):
    old = make_host("old")
    (tmp_path / "shadow").write_bytes(SECRET)
    leave(old, header(tmp_path / "shadow").ljust(MIB, b"\0"))
    with pytest.raises(OSError, match="shadow, which is no base image of this host"):
        old.moves.offer(instance())
    (old.root / "_base").mkdir()
    (old.root / "_base" / IMAGE).symlink_to(tmp_path / "shadow")
    (old.root / (instance().uuid + "_resize") / "disk").write_bytes(header(old.root / "_base" / IMAGE).ljust(MIB, b"\0"))
    with pytest.raises(OSError, match="no base image of this host"):
        old.moves.offer(instance())


@pytest.mark.parametrize("common", [False, True])
def test_hosts_with_disks_of_different_formats_refuse_each_other_before_anything_is_copied(make_host, fetch, common):
    """Also where both have the same directory: there a guest's bytes would become a header by the name of the format alone."""
    old = make_host("old", images_type="raw")
    new = make_host("old" if common else "new")
    leave(old, header("/etc/shadow").ljust(MIB, b"\0"))
    with pytest.raises(exception.ResizeError, match="its disk is raw, but .* images_type of .* is qcow2"):
        new.moves.receive(instance(), old.moves.offer(instance()), fetch)
    assert not new.guest.exists()


def test_an_overlay_that_is_said_to_have_no_base_is_not_kept(make_host, fetch):
    old, new = make_host("old"), make_host("new")
    old.guest.mkdir(parents=True)
    old.moves.fit(instance(), fetch)
    old.moves.set_aside(instance())
    offer = old.moves.offer(instance())
    assert offer.base == IMAGE
    offer.base = ""
    with pytest.raises(exception.VirtDriverError, match="not what the other host says"):
        new.moves.receive(instance(), offer, fetch)
    assert not (new.guest / "disk").exists()


def test_directories_with_commas_in_their_names(make_host, fetch):
    """To QEMU a comma begins another option."""
    old, new = make_host("old,locking=on"), make_host("new,x=y")
    old.guest.mkdir(parents=True)
    made = instance(swap=1)
    old.moves.fit(made, fetch)
    old.moves.set_aside(made)
    new.moves.receive(made, old.moves.offer(made), fetch)
    assert sorted(p.name for p in new.guest.iterdir()) == ["disk", "disk.swap", "moved-to"]
    assert (new.guest / "disk.swap").read_bytes() == (old.root / f"{made.uuid}_resize" / "disk.swap").read_bytes()
