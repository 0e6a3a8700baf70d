"""What a host shows of a guest that moves and another one takes, with the real qemu-img and storage daemon; no libvirt."""
import dataclasses
import os
import shutil
import signal
import struct
import subprocess

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.virt.libvirt import copying, images
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.moves import Moves

from .builders import IMAGE, blanks, instance

pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-storage-daemon is not installed")
MIB = 1 << 20
MOVE = "30000000-0000-4000-8000-000000000003"
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

    @property
    def base(self):
        """The noted one."""
        return GuestDirectory(self.root, self.guest.name).base


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
    host.moves.set_aside(instance(), MOVE)


def test_a_raw_disk_that_calls_itself_an_overlay_shows_no_file_of_the_host(make_host, fetch, tmp_path):
    old, new = make_host("old", images_type="raw"), make_host("new", images_type="raw")
    (tmp_path / "shadow").write_bytes(SECRET)
    disk = header(tmp_path / "shadow").ljust(MIB, b"\0")
    leave(old, disk)
    offer = old.moves.offer(instance())
    assert (offer.base, offer.disk_format, offer.disks) == ("", "raw", ["disk"])
    with open(f"/proc/{(old.root / (instance().uuid + '_resize') / 'offer.pid').read_text().strip()}/cmdline") as stream:
        assert "shadow" not in stream.read()
    new.moves.receive(instance(), offer, fetch, MOVE)
    assert (new.guest / "disk").read_bytes() == disk
    assert sorted(p.name for p in new.root.iterdir()) == [instance().uuid]


def test_a_disk_on_what_is_no_base_image_is_not_shown(make_host, tmp_path):
    old = make_host("old")
    (tmp_path / "shadow").write_bytes(SECRET)
    leave(old, header(tmp_path / "shadow").ljust(MIB, b"\0"))
    with pytest.raises(OSError, match="shadow, which is not a base image of this host"):
        old.moves.offer(instance())
    (old.root / "_base").mkdir()
    (old.root / "_base" / IMAGE).symlink_to(tmp_path / "shadow")
    (old.root / (instance().uuid + "_resize") / "disk").write_bytes(header(old.root / "_base" / IMAGE).ljust(MIB, b"\0"))
    with pytest.raises(OSError, match="not a base image of this host"):
        old.moves.offer(instance())


def test_a_disk_on_what_is_no_base_image_does_not_grow(make_host, fetch, tmp_path):
    host = make_host("one")
    host.guest.mkdir(parents=True)
    (tmp_path / "shadow").write_bytes(SECRET)
    disk = header(tmp_path / "shadow").ljust(MIB, b"\0")
    (host.guest / "disk").write_bytes(disk)
    with pytest.raises(OSError, match="shadow, which is not a base image of this host"):
        host.moves.fit(instance(), fetch)
    assert (host.guest / "disk").read_bytes() == disk


@pytest.mark.parametrize("common", [False, True])
def test_a_disk_keeps_its_format_on_a_host_that_makes_others(make_host, fetch, common):
    """Also where both have the same directory. The bytes of a raw disk never become a header."""
    old = make_host("old", images_type="raw")
    new = make_host("old" if common else "new")
    disk = header("/etc/shadow").ljust(MIB, b"\0")
    leave(old, disk)
    new.moves.receive(instance(), old.moves.offer(instance()), fetch, MOVE)
    files = GuestDirectory(new.root, instance().uuid)
    assert (files.disk_format, files.disk.read_bytes()) == ("raw", disk)
    new.moves.fit(instance(root_gb=2), fetch)
    with open(files.disk, "rb") as stream:
        assert (files.disk.stat().st_size, stream.read(MIB)) == (2 << 30, disk)
    new.moves.settled(instance())
    assert files.record == Record(instance().uuid, "old" if common else "new", State.HERE, disk_format="raw", base="")


def test_a_disk_of_a_format_that_nobody_knows_is_refused_before_anything_is_copied(make_host, fetch):
    old, new = make_host("old"), make_host("new")
    leave(old, bytes(MIB))
    offer = old.moves.offer(instance())
    for disk_format in ("vmdk", ""):
        offer.disk_format = disk_format
        with pytest.raises(exception.ResizeError, match=f"its disk is of the format '{disk_format}'"):
            new.moves.receive(instance(), offer, fetch, MOVE)
    assert not new.guest.exists()


def test_an_overlay_that_is_said_to_have_no_base_is_not_kept(make_host, fetch):
    old, new = make_host("old"), make_host("new")
    old.guest.mkdir(parents=True)
    old.moves.fit(instance(), fetch)
    old.moves.set_aside(instance(), MOVE)
    offer = old.moves.offer(instance())
    assert offer.base == IMAGE
    offer.base = ""
    with pytest.raises(exception.VirtDriverError, match="differs from its description"):
        new.moves.receive(instance(), offer, fetch, MOVE)
    assert not (new.guest / "disk").exists()


def test_the_other_host_names_no_image_but_the_servers_own(make_host, fetch):
    """That of another tenant is in the cache of the new host: the disk stands on what the old host has sent."""
    old, new, others = make_host("old"), make_host("new"), "20000000-0000-4000-8000-0000000000ff"
    old.guest.mkdir(parents=True)
    old.moves.fit(instance(), fetch)
    old.moves.set_aside(instance(), MOVE)
    (new.root / "_base").mkdir(parents=True)
    (new.root / "_base" / others).write_bytes(SECRET.ljust(MIB, b"\0"))
    offer = old.moves.offer(instance())
    offer.base = others
    fetched = []
    new.moves.receive(instance(), offer, lambda image_id, path: fetched.append(image_id), MOVE)
    base = images.base_of(new.guest / "disk", "qcow2", new.base)
    assert (base.name, new.base, fetched) == (f"moved-{MOVE}", f"moved-{MOVE}", [])
    assert subprocess.run(["qemu-img", "compare", "-q", base, old.root / "_base" / IMAGE], check=False).returncode == 0
    seen = new.root / "seen"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", new.guest / "disk", seen], check=True)
    with open(seen, "rb") as stream:
        assert stream.read(len(SECRET)) == bytes(len(SECRET))
    seen.unlink()
    offer = old.moves.offer(instance())
    offer.base, offer.base_format = IMAGE, "raw"        # whose record says qcow2
    (new.guest / "disk").unlink()
    new.moves.receive(instance(), offer, fetch, MOVE)
    assert images.info(new.guest / "disk", "qcow2")["backing-filename-format"] == "qcow2"
    assert (images.base_of(new.guest / "disk", "qcow2", new.base).name, new.base) == (IMAGE, IMAGE)


@pytest.mark.parametrize("checksum", ["", "no such digest"])
def test_what_the_other_host_sends_for_an_image_that_is_gone_is_no_other_servers_base(make_host, fetch, checksum):
    old, new = make_host("old"), make_host("new")
    old.guest.mkdir(parents=True)
    old.moves.fit(instance(), fetch)
    old.moves.set_aside(instance(), MOVE)
    known = instance()
    known.image = dataclasses.replace(known.image, checksum=checksum, hash_algo="sha256")

    def gone(image_id, _path):
        raise exception.ImageNotFound(image_id=image_id)
    if checksum:
        with pytest.raises(exception.ImageUnacceptable):
            new.moves.receive(known, old.moves.offer(known), gone, MOVE)
    else:
        new.moves.receive(known, old.moves.offer(known), gone, MOVE)
        assert images.base_of(new.guest / "disk", "qcow2", new.base).name == f"moved-{MOVE}"
    assert not (new.root / "_base" / IMAGE).exists()


def test_directories_with_commas_in_their_names(make_host, fetch):
    """To QEMU a comma begins another option."""
    old, new = make_host("old,locking=on"), make_host("new,x=y")
    old.guest.mkdir(parents=True)
    made = instance(swap=1, ephemeral_gb=2, block_devices=blanks(1, 1))
    old.moves.fit(made, fetch)
    old.moves.set_aside(made, MOVE)
    new.moves.receive(made, old.moves.offer(made), fetch, MOVE)
    assert sorted(p.name for p in new.guest.iterdir()) == ["disk", "disk.eph0", "disk.eph1", "disk.swap", "guest.json"]
    for name in ("disk.eph0", "disk.eph1", "disk.swap"):
        copy, source = new.guest / name, old.root / f"{made.uuid}_resize" / name
        assert copy.stat().st_size == source.stat().st_size
        assert subprocess.run(["qemu-img", "compare", "-f", "raw", "-F", "raw", copy, source], check=False).returncode == 0


# a copy that does not end ---------------------------------------------------------------------------------------------
@pytest.fixture
def vanished(make_host, monkeypatch):
    """A host that says nothing any more once it has offered a disk: (the other one, the offer)."""
    monkeypatch.setattr(copying, "CHECK_SECONDS", 0.2)
    old, new = make_host("old", images_type="raw"), make_host("new", images_type="raw")
    leave(old, bytes(MIB))
    offer = old.moves.offer(instance())
    server = int((old.root / f"{instance().uuid}_resize" / "offer.pid").read_text())
    os.kill(server, signal.SIGSTOP)
    yield new, offer
    os.kill(server, signal.SIGCONT)


def copiers(host):
    return subprocess.run(["pgrep", "-f", f"qemu-img convert.*{host.root}"], capture_output=True, text=True,
                          check=False).stdout.split()


def test_a_copy_from_a_host_that_vanished_ends(vanished, fetch, monkeypatch):
    monkeypatch.setattr(copying, "STALL_SECONDS", 1.0)
    new, offer = vanished
    with pytest.raises(exception.VirtDriverError, match="Copying disk from 127.0.0.1:.*nothing has moved for 1 s"):
        new.moves.receive(instance(), offer, fetch, MOVE)
    assert copiers(new) == []
    assert sorted(p.name for p in new.guest.iterdir()) == ["guest.json"]


def test_a_copy_ends_when_it_is_not_wanted_any_more(vanished, fetch):
    new, offer = vanished
    asked = []

    def check():
        asked.append(len(copiers(new)))
        if len(asked) == 3:
            raise exception.LeaseLost(action_id=1, owner="new")
    with pytest.raises(exception.LeaseLost):
        new.moves.receive(instance(), offer, fetch, MOVE, check)
    assert asked == [1, 1, 1]
    assert copiers(new) == []
    assert sorted(p.name for p in new.guest.iterdir()) == ["guest.json"]


def test_a_copy_that_moves_at_all_goes_on(monkeypatch):
    """Slowly, and with nothing to write: its threads are woken."""
    monkeypatch.setattr(copying, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(copying, "STALL_SECONDS", 3.0)
    copying.run(lambda: None, "bash", "-c", "for n in {1..16}; do sleep 0.25; done")
    with pytest.raises(OSError, match="bash ended with 3: no room"):
        copying.run(lambda: None, "bash", "-c", "echo no room >&2; exit 3")
