"""Image cache and disks, with the real qemu-img."""
import fcntl
import json
import os
import queue
import shutil
import struct
import subprocess
import threading
import time

import pytest

import nova_lite.conf
from nova_lite import exception, units
from nova_lite.objects.image import ImageMeta
from nova_lite.virt.libvirt import encrypted_images, images
from nova_lite.virt.libvirt.disks import DiskMaker, takes_direct_io
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root

from .builders import IMAGE, blanks, instance

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
MIB = 1 << 20


def qemu_img(*arguments):
    return subprocess.run(["qemu-img", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def info(path):
    return json.loads(qemu_img("info", "--output=json", "-U", path))


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", path, "64M")
    return path


class Fetch:
    """Fetches by copying; counts."""

    def __init__(self, source, delay=0.0):
        self.source, self.delay, self.calls = source, delay, []

    def __call__(self, image_id, path):
        self.calls.append(image_id)
        with open(path, "wb") as stream:
            stream.write(self.source.read_bytes()[:100])
            stream.flush()
            time.sleep(self.delay)
        shutil.copyfile(self.source, path)


@pytest.fixture
def conf(tmp_path):
    return nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "state"))


@pytest.fixture
def files(conf):
    directory = GuestDirectory(instances_root(conf), instance().uuid)
    directory.make()
    return directory


def test_a_disk_is_an_overlay_of_flavor_size_on_the_cached_image(conf, files, image):
    fetch = Fetch(image)
    DiskMaker(conf).make(instance(root_gb=2), files, fetch)
    disk = info(files.disk)
    assert (disk["format"], disk["virtual-size"]) == ("qcow2", 2048 * MIB)
    assert disk["backing-filename"] == str(instances_root(conf) / "_base" / IMAGE)
    assert disk["backing-filename-format"] == "qcow2"
    assert sorted(os.listdir(files.path)) == ["disk", "guest.json"]


def test_without_a_flavor_disk_the_image_says_the_size(conf, files, image):
    DiskMaker(conf).make(instance(root_gb=0), files, Fetch(image))
    assert info(files.disk)["virtual-size"] == 64 * MIB


def test_an_image_is_fetched_once_however_many_build(conf, image):
    fetch = Fetch(image, delay=0.3)
    makers = [DiskMaker(conf), DiskMaker(conf)]      # the second stands for another process: it shares only files
    directories = [GuestDirectory(instances_root(conf), f"guest-{n}") for n in range(6)]

    def build(n):
        directories[n].make()
        makers[n % 2].make(instance(), directories[n], fetch)

    threads = [threading.Thread(target=build, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetch.calls == [IMAGE]
    assert all(info(d.disk)["virtual-size"] == 1024 * MIB for d in directories)


def test_half_files_of_a_killed_process_are_replaced(conf, files, image):
    base = instances_root(conf) / "_base"
    base.mkdir()
    (base / f"{IMAGE}.part").write_bytes(b"half")
    (files.path / "disk.part").write_bytes(b"half")
    DiskMaker(conf).make(instance(), files, Fetch(image))
    assert info(files.disk)["virtual-size"] == 1024 * MIB
    assert sorted(os.listdir(files.path)) == ["disk", "guest.json"]
    assert sorted(os.listdir(base)) == [f".{IMAGE}.lock", IMAGE]


def test_a_disk_that_is_there_is_kept(conf, files, image):
    DiskMaker(conf).make(instance(), files, Fetch(image))
    subprocess.run(["qemu-io", "-c", "write -P 7 0 4096", str(files.disk)], check=True, capture_output=True)
    DiskMaker(conf).make(instance(), files, Fetch(image))
    read = subprocess.run(["qemu-io", "-c", "read -v -P 7 0 16", str(files.disk)], check=True, capture_output=True, text=True)
    assert "07 07" in read.stdout


def test_a_failed_fetch_leaves_nothing_and_can_be_tried_again(conf, files, image):
    def broken(_image_id, path):
        with open(path, "wb") as stream:
            stream.write(b"half")
        raise exception.ImageUnacceptable(image_id=IMAGE, reason="its data does not fit its checksum")

    maker = DiskMaker(conf)
    with pytest.raises(exception.ImageUnacceptable):
        maker.make(instance(), files, broken)
    assert os.listdir(instances_root(conf) / "_base") == [f".{IMAGE}.lock"]
    assert os.listdir(files.path) == ["guest.json"]
    maker.make(instance(), files, Fetch(image))
    assert files.disk.exists()


def _age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_base_images_that_nobody_uses_are_removed_after_a_day(conf, files, image):
    maker, base = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE
    maker.make(instance(), files, Fetch(image))
    _age(base, 90000)
    maker.tidy()
    assert base.exists()                    # a guest's disk is an overlay of it
    assert info(files.disk)["backing-filename"] == str(base)
    files.remove()
    _age(base, 80000)
    maker.tidy()
    assert base.exists()                    # it may be wanted again
    _age(base, 90000)
    files.make()
    maker.make(instance(), files, Fetch(image))
    files.remove()
    maker.tidy()
    assert base.exists()                    # it was used a moment ago
    _age(base, 90000)
    maker.tidy()
    assert not base.exists()
    files.make()
    maker.make(instance(), files, Fetch(image))
    assert files.disk.exists()


def _reloaded(path):
    """(disks, files of the guest, its base image) of a daemon that starts with another state_path."""
    conf = nova_lite.conf.load([], config_files=[], state_path=str(path))
    root = instances_root(conf)
    _age(root / "_base" / IMAGE, 90000)
    return DiskMaker(conf), GuestDirectory(root, instance().uuid), root / "_base" / IMAGE


def test_a_base_image_that_is_used_by_another_name_of_its_directory_stays(conf, files, image, tmp_path):
    DiskMaker(conf).make(instance(), files, Fetch(image))
    (tmp_path / "state").rename(tmp_path / "larger")
    (tmp_path / "state").symlink_to(tmp_path / "larger")
    maker, files, base = _reloaded(tmp_path / "larger")
    maker.check(instance(), files)                  # the guest may start
    maker.tidy()
    assert base.exists()
    (tmp_path / "state").unlink()       # it cannot start, and the link can be made again
    maker.tidy()
    assert base.exists()
    files.remove()
    maker.tidy()
    assert not base.exists()


def test_a_base_image_that_is_used_by_a_link_stays(conf, files, image, tmp_path):
    maker, base = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE
    maker.make(instance(), files, Fetch(image))
    (tmp_path / "link").symlink_to(base)
    qemu_img("rebase", "-u", "-F", "qcow2", "-b", tmp_path / "link", files.disk)
    _age(base, 90000)
    maker.check(instance(), files)
    maker.tidy()
    assert base.exists()


def test_a_guest_that_names_a_file_which_cannot_be_keeps_no_image(conf, files, image):
    maker, base = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE
    maker.make(instance(), files, Fetch(image))
    files.disk.write_bytes(struct.pack(">4sIQI", b"QFI\xfb", 2, 20, 4) + b"a\0b/")
    _age(base, 90000)
    maker.tidy()
    assert not base.exists()


def test_nothing_is_left_of_a_base_image_that_was_removed(conf, files, image):
    maker, base = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE
    for _again in range(2):
        files.make()
        maker.make(instance(), files, Fetch(image))
        files.remove()
        _age(base, 90000)
        maker.tidy()
        assert list(base.parent.iterdir()) == []


def test_who_waited_for_an_image_that_was_removed_meanwhile_fetches_it_not_beside_another(conf, files, image, monkeypatch):
    maker, base, steps, go_on = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE, queue.Queue(), threading.Event()
    maker.make(instance(), files, Fetch(image))
    lock, flock = base.parent / f".{IMAGE}.lock", fcntl.flock

    def wait_for_lock(file, how):
        if getattr(file, "name", "") == str(lock):      # not that of a record
            steps.put("lock")
        flock(file, how)

    def fetch(_image_id, path):
        steps.put("fetch")
        assert go_on.wait(30)
        shutil.copyfile(image, path)

    def build(name):        # in a process of its own
        directory = GuestDirectory(instances_root(conf), name)
        directory.make()
        thread = threading.Thread(target=DiskMaker(conf).make, args=(instance(), directory, fetch))
        thread.start()
        return thread

    with open(lock, "w") as held:
        flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", wait_for_lock)
        threads = [build("one")]
        assert steps.get(timeout=30) == "lock"
        base.unlink()       # as tidy does it, which has the lock
        lock.unlink()
        threads.append(build("two"))
        assert [steps.get(timeout=30) for _ in range(2)] == ["lock", "fetch"]
    assert steps.get(timeout=30) == "lock"      # the first one has got its lock, which is nobody's any more
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert base.exists()
    assert steps.empty()


def test_keep_unused_images_for_ever(conf, files, image):
    conf.set_override("keep_unused_images", 0, group="libvirt")
    maker, base = DiskMaker(conf), instances_root(conf) / "_base" / IMAGE
    maker.make(instance(), files, Fetch(image))
    files.remove()
    _age(base, 10 ** 7)
    maker.tidy()
    assert base.exists()


def test_what_a_killed_fetch_left_is_removed_too(conf):
    half = instances_root(conf) / "_base" / f"{IMAGE}.part"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    DiskMaker(conf).tidy()
    assert half.exists()                    # somebody may be fetching it
    _age(half, 90000)
    DiskMaker(conf).tidy()
    assert not half.exists()


def test_a_disk_smaller_than_its_image_is_refused(conf, files, tmp_path):
    big = tmp_path / "big.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", big, "2G")
    with pytest.raises(exception.FlavorDiskSmallerThanImage, match="Flavor disk is 1073741824 bytes, image is 2147483648"):
        DiskMaker(conf).make(instance(root_gb=1), files, Fetch(big))
    assert not files.disk.exists()


def test_raw_images_and_raw_disks(conf, files, tmp_path):
    raw = tmp_path / "image.raw"
    raw.write_bytes(b"boot" * 256 * 1024)
    DiskMaker(conf).make(instance(disk_format="raw"), files, Fetch(raw))
    assert info(files.disk)["backing-filename-format"] == "raw"
    for name in ("raw", "flat"):
        conf.set_override("images_type", name, group="libvirt")
        files.remove()
        files.make()
        DiskMaker(conf).make(instance(disk_format="raw"), files, Fetch(raw))
        assert info(files.disk)["format"] == "raw"
    assert files.disk.stat().st_size == 1024 * MIB
    assert files.disk.read_bytes()[:8] == b"bootboot"


def test_ephemeral_and_swap_disks_are_formatted(conf, files, image):
    DiskMaker(conf).make(instance(ephemeral_gb=1, swap=16), files, Fetch(image))
    assert files.ephemerals[0].stat().st_size == 1024 * MIB
    with open(files.ephemerals[0], "rb") as stream:
        stream.seek(1024 + 56)
        assert stream.read(2) == b"\x53\xef"       # ext4's magic number
    with open(files.swap, "rb") as stream:
        assert stream.read(4096)[-10:] == b"SWAPSPACE2"


@pytest.mark.parametrize(("asked", "journal", "extents"), [("ext2", False, False), ("ext3", True, False), ("ext4", True, True)])
def test_an_ephemeral_disk_has_the_file_system_that_was_asked_for(conf, files, image, asked, journal, extents):
    [device] = blanks(1)
    device.guest_format = asked
    DiskMaker(conf).make(instance(ephemeral_gb=1, block_devices=[device]), files, Fetch(image))
    with open(files.ephemerals[0], "rb") as stream:
        superblock = stream.read(4096)[1024:]
    compatible, incompatible = (int.from_bytes(superblock[at:at + 4], "little") for at in (92, 96))
    assert (bool(compatible & 0x4), bool(incompatible & 0x40)) == (journal, extents)
    assert _label(files.ephemerals[0]) == "ephemeral0"


def _label(path):
    """Of the ext4 file system on a raw disk."""
    with open(path, "rb") as stream:
        stream.seek(1024 + 120)
        return stream.read(16).rstrip(b"\0").decode()


def test_several_ephemeral_disks(conf, files, image, tmp_path):
    """Made, grown to what a resize says, told to another host, made like these there, and each kept that is there."""
    maker, server = DiskMaker(conf), instance(root_gb=1, ephemeral_gb=3, swap=16, block_devices=blanks(2, 1))
    maker.make(server, files, Fetch(image))
    assert sorted(os.listdir(files.path)) == ["disk", "disk.eph0", "disk.eph1", "disk.swap", "guest.json"]
    assert [path.stat().st_size // (1024 * MIB) for path in files.ephemerals[:2]] == [2, 1]
    assert [_label(path) for path in files.ephemerals[:2]] == ["ephemeral0", "ephemeral1"]
    os.truncate(files.ephemerals[1], 512 * MIB)
    maker.fit(server, files, Fetch(image))
    facts = maker.facts(server, files)
    assert [(fact["name"].rpartition("/")[2], fact["size"] // MIB) for fact in facts] == [
        ("disk", 1024), ("disk.eph0", 2048), ("disk.eph1", 1024), ("disk.swap", 16)]
    there = GuestDirectory(tmp_path / "there", server.uuid)
    there.make()
    maker.make_like(server, there, facts, Fetch(image))
    assert [path.stat().st_size for path in there.ephemerals[:2]] == [path.stat().st_size for path in files.ephemerals[:2]]
    assert {path.name for path in files.path.iterdir()} <= {"guest.json", *(path.name for path in files.movable)}
    files.remove(files.ephemerals)
    assert sorted(os.listdir(files.path)) == ["disk.eph0", "disk.eph1", "guest.json"]
    files.ephemerals[0].write_bytes(b"what the user has on it")
    maker.make(server, files, Fetch(image))
    assert files.ephemerals[0].read_bytes() == b"what the user has on it"


def _refused(path, claimed):
    with pytest.raises(exception.ImageUnacceptable) as caught:
        images.inspect(path, IMAGE, claimed)
    return caught.value.message


def test_an_image_that_names_other_files_is_refused(tmp_path, image):
    evil = tmp_path / "evil.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", "-b", image, "-F", "qcow2", evil)
    assert "backing file" in _refused(evil, "qcow2")
    qemu_img("create", "-q", "-f", "qcow2", "-o", f"data_file={tmp_path / 'data'},data_file_raw=on", evil, "1M")
    assert "another file" in _refused(evil, "qcow2")


def test_an_image_is_what_its_record_says(tmp_path, image):
    assert "its data is qcow2" in _refused(image, "raw")
    for other in ("vmdk", "vdi", "vhdx"):
        path = tmp_path / other
        qemu_img("convert", "-f", "qcow2", "-O", other, image, path)
        assert f"its data is {other}" in _refused(path, "raw")
        assert "its data is not" in _refused(path, "qcow2")
        assert "not supported" in _refused(path, other)
    broken = tmp_path / "broken"
    broken.write_bytes(b"QFI\xfb" + struct.pack(">I", 9) + bytes(200))
    assert "its data is not" in _refused(broken, "qcow2")
    broken.write_bytes(b"QFI\xfb")
    assert "its data is not" in _refused(broken, "qcow2")
    broken.write_bytes(image.read_bytes()[:80])
    assert "its data is raw" in _refused(broken, "qcow2")
    broken.write_bytes(image.read_bytes()[:100] + b"\xff" * 4 + image.read_bytes()[104:])
    with pytest.raises(exception.ImageUnacceptable) as caught:
        images.inspect(broken, IMAGE, "qcow2")
    assert "qemu-img" in caught.value.message
    assert str(tmp_path) not in exception.public_of(caught.value)


@pytest.mark.parametrize(("data", "name"), [
    (b"\n# Disk DescriptorFile\n", "vmdk"), (b" \r\n#\n#x\nVersion = 1\n", "vmdk"), (b"WithouFreSpacExt", "parallels"),
    (b"WithoutFreeSpace", "parallels"), (bytes(64) + b"\x7f\x10\xda\xbe", "vdi"), (b"Bochs Virtual HD Image", "bochs")])
def test_a_raw_image_is_no_other_format(tmp_path, data, name):
    path = tmp_path / "image"
    path.write_bytes(data.ljust(MIB, b"\0"))
    assert f"its data is {name}" in _refused(path, "raw")


def test_an_encrypted_image_is_refused(tmp_path, image):
    with open(image, "r+b") as stream:
        stream.seek(32)
        stream.write(struct.pack(">I", 2))
    assert "it is encrypted" in _refused(image, "qcow2")


def _qcow2(path, backing="", size=1 << 20):
    """A qcow2 header, with the name of a backing file that nobody has looked at."""
    name = backing.encode()
    header = b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", 2, 512 if name else 0, len(name), 16, size, 0, 0, 0, 0, 0, 0, 0)
    path.write_bytes(header.ljust(512, b"\0") + name + bytes(4096))


def _vmdk(path, extent):
    """A descriptor whose extent is a file of the host."""
    path.write_text(f"""# Disk DescriptorFile
version=1
CID=12345678
parentCID=ffffffff
createType="monolithicFlat"

RW 2048 FLAT "{extent}" 0
""")


HOSTILE = {
    "qcow2 on a file of the host": (lambda p, canary: _qcow2(p, canary), "qcow2", "it has a backing file"),
    "qcow2 on a file, by the name of a protocol": (lambda p, canary: _qcow2(p, f"file:{canary}"), "qcow2", "backing file"),
    "qcow2 on JSON": (lambda p, canary: _qcow2(p, f'json:{{"file.filename":"{canary}"}}'), "qcow2", "it has a backing file"),
    "qcow2 that calls itself raw": (lambda p, canary: _qcow2(p, canary), "raw", "it claims to be raw, but its data is qcow2"),
    "vmdk with an extent of the host": (_vmdk, "vmdk", "disk format vmdk is not supported"),
    "such a vmdk that calls itself raw": (_vmdk, "raw", "it claims to be raw, but its data is vmdk"),
    "such a vmdk that calls itself qcow2": (_vmdk, "qcow2", "it claims to be qcow2, but its data is not"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_image_is_refused_and_its_file_not_touched(conf, files, tmp_path, kind):
    """By the whole way of a build, and nothing of it stays."""
    make, claimed, reason = HOSTILE[kind]
    canary, control, evil = tmp_path / "canary", tmp_path / "control", tmp_path / "evil"
    for path in (canary, control):
        path.write_text("secret\n" * 1000)
        os.utime(path, (1000, 1000))
    make(evil, str(canary))
    with pytest.raises(exception.ImageUnacceptable, match=reason):
        DiskMaker(conf).make(instance(disk_format=claimed), files, Fetch(evil))
    control.read_bytes()
    assert control.stat().st_atime != 1000 or os.statvfs(control).f_flag & os.ST_NOATIME
    assert canary.stat().st_atime == 1000
    assert os.listdir(files.path) == ["guest.json"]
    assert [p.name for p in (instances_root(conf) / "_base").iterdir() if not p.name.startswith(".")] == []


def test_an_image_that_claims_to_be_huge(conf, files, tmp_path):
    """Against the flavor, and where there is none (a disk of 0 GiB, a rescue) against the host."""
    bomb = tmp_path / "bomb.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", "-o", "cluster_size=2M", bomb, "60T")
    assert bomb.stat().st_size < 64 * MIB
    with pytest.raises(exception.FlavorDiskSmallerThanImage):
        DiskMaker(conf).make(instance(root_gb=20), files, Fetch(bomb))
    rescue = ImageMeta(IMAGE, disk_format="qcow2")
    for make in (lambda maker: maker.make(instance(root_gb=0), files, Fetch(bomb)),
                 lambda maker: maker.make_rescue(instance(), rescue, files, Fetch(bomb))):
        with pytest.raises(exception.ImageUnacceptable, match="claims to be a disk of 61440 GiB, and this host has"):
            make(DiskMaker(conf))
    assert os.listdir(files.path) == ["guest.json"]
    # a few bytes of header alone: qemu-img itself would say more than there is
    _qcow2(bomb, size=(1 << 63) - 512)
    with pytest.raises(exception.ImageUnacceptable):
        DiskMaker(conf).make(instance(root_gb=0, image=ImageMeta("b0000000-0000-4000-8000-00000000000b", disk_format="qcow2")),
                             files, Fetch(bomb))


def test_a_rescue_disk_is_made_anew_of_another_image(conf, files, image):
    path = files.path / "disk.rescue"
    first, second = (ImageMeta(f"{n}0000000-0000-4000-8000-00000000000b", disk_format="qcow2") for n in "ab")
    for one in (first, second, second):
        DiskMaker(conf).make_rescue(instance(), one, files, Fetch(image))
        assert info(path)["backing-filename"].endswith(one.id)
    written = path.stat().st_ino
    DiskMaker(conf).make_rescue(instance(), second, files, Fetch(image))      # the second run of one action
    assert path.stat().st_ino == written


def test_a_rescue_disk_that_says_it_stands_on_a_file_of_the_host(conf, files, image, tmp_path):
    """Its guest has taken over QEMU while it was rescued."""
    path, secret, made_of = files.path / "disk.rescue", tmp_path / "secret", ImageMeta(IMAGE, disk_format="qcow2")
    DiskMaker(conf).make_rescue(instance(), made_of, files, Fetch(image))
    secret.write_bytes(b"x" * 512)
    qemu_img("create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, path)
    with pytest.raises(OSError, match="not a base image of this host"):
        DiskMaker(conf).make_rescue(instance(), made_of, files, Fetch(image))


def test_how_far_disks_may_still_grow(conf, files, image):
    assert images.overcommitted(instances_root(conf), "qcow2") == 0
    DiskMaker(conf).make(instance(root_gb=3), files, Fetch(image))
    assert 3071 * MIB < images.overcommitted(instances_root(conf), "qcow2") <= 3072 * MIB


@pytest.mark.parametrize(("name", "images_type"), [("disk.swap", "qcow2"), ("disk.eph0", "qcow2"), ("disk", "raw"),
                                                   ("disk.rescue", "raw"), ("disk.config", "qcow2")])
def test_what_a_guest_writes_into_its_raw_disk_is_no_header(conf, files, name, images_type):
    path = files.path / name
    _qcow2(path, size=(1 << 64) - 1)
    os.truncate(path, 16 * MIB)
    found = images.disk(path, images_type)
    assert (found.format, found.size) == ("raw", 16 * MIB)
    assert 0 < images.overcommitted(instances_root(conf), images_type) <= 16 * MIB


def test_a_directory_beside_the_disks_is_none(conf, files):
    """A config drive is gathered in one."""
    (files.path / "disk.config.tree").mkdir()
    (instances_root(conf) / "disk").write_text("no directory of a guest")
    assert images.overcommitted(instances_root(conf), "qcow2") == 0
    assert images.backing_files(instances_root(conf)) == set()


def test_guests_that_come_and_go_while_their_disks_are_looked_at(conf, files, image):
    DiskMaker(conf).make(instance(), files, Fetch(image))
    root, base = instances_root(conf), instances_root(conf) / "_base" / IMAGE
    aside = files.path.with_name(files.path.name + "_resize")

    def restless():
        other = GuestDirectory(root, "other")
        for _ in range(50):
            os.rename(files.path, aside)
            other.make()
            other.swap.write_bytes(b"")
            time.sleep(0.02)
            other.remove()
            os.rename(aside, files.path)
            time.sleep(0.02)

    mover = threading.Thread(target=restless)
    mover.start()
    while mover.is_alive():
        assert images.backing_files(root) == {base}
        assert images.overcommitted(root, "qcow2") >= 0
    mover.join()


def test_the_look_for_direct_io_leaves_nothing(tmp_path):
    assert takes_direct_io(tmp_path) in (True, False)
    assert not takes_direct_io(tmp_path / "absent")
    assert os.listdir(tmp_path) == []


def test_a_cached_image_is_not_fetched_again(tmp_path, image):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "state"))
    maker, calls = DiskMaker(conf), []

    def copy(image_id, path):
        calls.append(image_id)
        shutil.copy(image, path)
    for _ in range(2):
        maker.cache(ImageMeta(IMAGE), copy)
    assert calls == [IMAGE]
    assert (instances_root(conf) / "_base" / IMAGE).stat().st_size == image.stat().st_size


def test_a_cached_image_is_looked_at_once_and_again_when_it_is_another_file(conf, files, image, monkeypatch):
    maker, looks = DiskMaker(conf), []
    monkeypatch.setattr(images, "info", lambda *asked, info=images.info: looks.append(asked) or info(*asked))
    maker.make(instance(), files, Fetch(image))
    first = len(looks)
    files.disk.unlink()
    maker.make(instance(), files, Fetch(image))
    assert len(looks) == first
    base = instances_root(conf) / "_base" / IMAGE
    base.unlink()
    qemu_img("create", "-q", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", base, "64M")
    files.disk.unlink()
    with pytest.raises(exception.ImageUnacceptable, match="backing file"):
        maker.make(instance(), files, Fetch(image))
# encrypted disks --------------------------------------------------------------------------------------------------------
LOCKED = {"specs": {"hw:ephemeral_encryption": "true"},
          "system_metadata": {"disks_encryption_key_id": "00000000-0000-0000-0000-000000000000"}}
KEY = "5ec2e7" * 10


def _encrypting(state):
    return DiskMaker(nova_lite.conf.load([], config_files=[], state_path=str(state), key_manager__backend="x.ConfKeyManager",
                                         key_manager__fixed_key=KEY))


@pytest.fixture
def locked(tmp_path):
    return _encrypting(tmp_path / "state")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A host with all disks of one server. QEMU takes seconds for each."""
    state = tmp_path_factory.mktemp("encrypted")
    image = state / "image.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", image, "64M")
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 1M", image], check=True, capture_output=True)
    maker = _encrypting(state)
    files = GuestDirectory(instances_root(maker._keys._conf), instance().uuid)
    files.make()
    maker.make(instance(root_gb=1, ephemeral_gb=1, swap=16, **LOCKED), files, Fetch(image))
    shutil.copytree(files.path, state / "as made", copy_function=_copy)
    return maker, files, image


def _copy(source, target):
    subprocess.run(["cp", "--archive", "--sparse=always", source, target], check=True)


@pytest.fixture
def made(made_once):
    """(maker, files, image) as :func:`made_once` has left them."""
    maker, files, image = made_once
    shutil.rmtree(files.path)
    shutil.copytree(files.path.parents[1] / "as made", files.path, copy_function=_copy)
    return maker, files, image


def _clear(tmp_path, path):
    """What the guest sees of the beginning of a disk."""
    secret, target = tmp_path / "secret", tmp_path / "clear"
    secret.write_text(KEY)
    qemu_img("convert", "--object", f"secret,id=s,file={secret}", "--image-opts", "-O", "raw",
             f"driver=qcow2,encrypt.key-secret=s,file.driver=file,file.filename={path}", target)
    with target.open("rb") as stream:
        return stream.read(4 * MIB)


def test_encrypted_disks_are_all_of_them(made, tmp_path):
    maker, files, image = made
    assert sorted(os.listdir(files.path)) == ["disk", "disk.eph0", "disk.swap", "guest.json"]
    for path, size in ((files.disk, 1024 * MIB), (files.ephemerals[0], 1024 * MIB), (files.swap, 16 * MIB)):
        found = info(path)
        assert (found["encrypted"], found["virtual-size"]) == (True, size)
        assert path.stat().st_mode & 0o777 == 0o600
        assert images.qcow2_header(path).luks
        assert KEY.encode() not in path.read_bytes()
    assert info(files.disk)["backing-filename"] == str(instances_root(maker._keys._conf) / "_base" / IMAGE)
    assert not images.qcow2_header(image).luks
    assert _clear(tmp_path, files.disk)[MIB:2 * MIB] == b"\x07" * MIB
    assert b"ephemeral0" in _clear(tmp_path, files.ephemerals[0])
    assert b"ephemeral0" not in files.ephemerals[0].read_bytes()
    assert b"SWAPSPACE2" in _clear(tmp_path, files.swap)


def test_all_ephemeral_disks_are_encrypted(locked, files, image, tmp_path):
    server = instance(root_gb=1, ephemeral_gb=2, block_devices=blanks(1, 1), **LOCKED)
    locked.make(server, files, Fetch(image))
    for path in files.ephemerals[:2]:
        assert images.qcow2_header(path).luks
    assert b"ephemeral1" in _clear(tmp_path, files.ephemerals[1])
    assert 2.9 * 1024 * MIB < images.overcommitted(files.path.parent, "qcow2") < 3.1 * 1024 * MIB
    files.ephemerals[1].write_bytes(b"x" * 512)
    with pytest.raises(OSError, match="is not"):
        locked.check(server, files)


def test_encrypted_disks_grow_and_swap_is_made_anew(made, tmp_path):
    locked, files, image = made
    before = files.swap.stat().st_ino
    locked.fit(instance(root_gb=1, ephemeral_gb=1, swap=16, **LOCKED), files, Fetch(image))
    assert files.swap.stat().st_ino == before
    locked.fit(instance(root_gb=2, ephemeral_gb=2, swap=32, **LOCKED), files, Fetch(image))
    assert [info(path)["virtual-size"] // MIB for path in (files.disk, files.ephemerals[0], files.swap)] == [2048, 2048, 32]
    assert b"SWAPSPACE2" in _clear(tmp_path, files.swap)
    locked.fit(instance(root_gb=2, ephemeral_gb=2, swap=0, **LOCKED), files, Fetch(image))
    assert not files.swap.exists()


def test_what_a_killed_run_left_of_an_encrypted_disk_is_made_anew(locked, files, image):
    (files.path / "disk.eph0.plain").write_bytes(b"half a file system")
    (files.path / "disk.eph0.part").write_bytes(b"half a disk")
    locked.make(instance(root_gb=1, ephemeral_gb=1, **LOCKED), files, Fetch(image))
    assert sorted(os.listdir(files.path)) == ["disk", "disk.eph0", "guest.json"]


def test_what_encrypted_disks_may_grow_by_is_counted(made):
    locked, files, _ = made
    growth = images.overcommitted(files.path.parent, "qcow2")
    assert 1.9 * 1024 * MIB < growth < 2.1 * 1024 * MIB
    assert [(f["format"], f["size"]) for f in locked.facts(instance(root_gb=1, ephemeral_gb=1, swap=16, **LOCKED), files)] == [
        ("qcow2", 1024 * MIB), ("qcow2", 1024 * MIB), ("qcow2", 16 * MIB)]


def test_the_word_of_a_raw_disk_for_its_format_counts_for_nothing(conf, files, image, tmp_path):
    """A guest that writes the header of an encrypted disk of an exabyte into its raw ephemeral disk."""
    DiskMaker(conf).make(instance(root_gb=1, ephemeral_gb=1), files, Fetch(image))
    before = images.overcommitted(files.path.parent, "qcow2")
    huge = tmp_path / "huge.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", huge, "1P")
    header = bytearray(huge.read_bytes()[:512])
    header[35] = 2
    with open(files.ephemerals[0], "r+b") as stream:
        stream.write(header)
    assert images.overcommitted(files.path.parent, "qcow2") <= before


def test_a_host_with_other_disks_makes_none(tmp_path, files, image):
    maker = DiskMaker(nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "state"), libvirt__images_type="raw",
                                          key_manager__backend="x.ConfKeyManager", key_manager__fixed_key=KEY))
    assert not maker.encrypts
    with pytest.raises(exception.BuildFailed, match="images_type"):
        maker.make(instance(**LOCKED), files, Fetch(image))
    assert os.listdir(files.path) == ["guest.json"]


def test_qemu_img_may_fail_to_measure_the_machine(locked, files, image, tmp_path, monkeypatch):
    real, wrapper = shutil.which("qemu-img"), tmp_path / "bin" / "qemu-img"
    wrapper.parent.mkdir()
    wrapper.write_text(f"""#!/bin/bash
if [ "$1" = create ] && [ ! -e {tmp_path}/measured ]; then
  touch {tmp_path}/measured; echo "qemu-img: x: Unable to get accurate CPU usage" >&2; exit 1
fi
exec {real} "$@"
""")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    locked.make(instance(root_gb=1, **LOCKED), files, Fetch(image))
    assert info(files.disk)["encrypted"]


@pytest.mark.parametrize("lie", ["backing file", "no format", "not encrypted"])
def test_an_encrypted_disk_that_says_something_else_is_not_opened(made, tmp_path, lie):
    """It may have come from another host, or its guest has taken QEMU over."""
    locked, files, image = made
    server = instance(root_gb=1, ephemeral_gb=1, swap=16, **LOCKED)
    locked.check(server, files)
    if lie == "backing file":
        (other := tmp_path / "other").write_bytes(bytes(MIB))
        encrypted_images.create(files.ephemerals[0], units.GiB, KEY, other, "raw")
    elif lie == "no format":
        files.ephemerals[0].write_bytes(b"x" * 512)
    else:
        qemu_img("create", "-q", "-f", "qcow2", files.swap, "16M")
    for ask in (lambda: locked.check(server, files), lambda: locked.fit(server, files, Fetch(image))):
        with pytest.raises(OSError, match="another file|is not"):
            ask()
