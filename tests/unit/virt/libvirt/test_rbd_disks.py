"""Whose the images in a pool are, through builds, moves and evacuations, and what killed processes leave of them.

The pool is a dictionary here, all else is real; tests/ceph does it with a cluster and guests.
"""
import dataclasses
import shutil
import subprocess
import types

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.objects import states
from nova_lite.virt.libvirt.disk_store import DiskStore
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import EPHEMERALS, GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.moves import Moves
from nova_lite.virt.libvirt.ownership import Standing
from nova_lite.virt.libvirt.rbd import Pool
from nova_lite.virt.libvirt.rbd_disks import RbdDisks, disks_of, split_address
from tests.support.clock import FastClock

from .builders import IMAGE, UUID, blanks, instance

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
MOVE, OTHER = "30000000-0000-4000-8000-000000000003", "40000000-0000-4000-8000-000000000004"
GIB, MIB = 1 << 30, 1 << 20


class Killed(BaseException):
    """The process ends here."""


class MemoryPool:
    """The calls of Pool on a dictionary that all hosts share; ``die_at`` counts the changes until the process is killed."""

    name = "vms"

    def __init__(self, images):
        self.all, self.die_at, self.busy = images, None, set()

    def _change(self):
        if self.die_at is not None:
            self.die_at -= 1
            if self.die_at < 0:
                raise Killed

    def monitors(self):
        return "fsid", ["10.0.0.1:6789"]

    def space(self):
        return 100 * GIB, 40 * GIB

    def images(self, prefix):
        return sorted(name for name in self.all if name.startswith(prefix))

    def size(self, image):
        return self.all[image]["size"]

    def create(self, image, size):
        self._change()
        assert image not in self.all
        self.all[image] = {"size": size, "content": "", "notes": {}, "snapshots": {}}

    def write(self, image, source, disk_format, is_empty):
        self._change()
        assert self.all[image]["size"] >= (source.stat().st_size if disk_format == "raw" else 0)
        self.all[image]["content"] = f"{source.name} {source.stat().st_size}" if disk_format == "raw" else source.name

    def resize(self, image, size):
        self._change()
        self.all[image]["size"] = size

    def rename(self, old, new):
        self._change()
        assert new not in self.all
        self.all[new] = self.all.pop(old)

    def remove(self, image):
        self._change()
        if image in self.busy:
            raise exception.VirtDriverError(what="rbd rm", reason="busy")
        del self.all[image]

    def wait_until_closed(self, image):
        if image in self.busy:
            raise exception.VirtDriverError(what="Taking over an image", reason="it is still in use by 10.0.0.9")

    def snapshots(self, image):
        return list(self.all[image]["snapshots"])

    def make_snapshot(self, image, name):
        self._change()
        self.all[image]["snapshots"][name] = (self.all[image]["size"], self.all[image]["content"])

    def remove_snapshot(self, image, name):
        self._change()
        self.all[image]["snapshots"].pop(name, None)

    def read(self, image, snapshot, target, disk_format, check):
        check()
        target.write_text(f"{self.all[image]['snapshots'][snapshot]} as {disk_format}")

    def roll_back(self, image, name):
        self._change()
        self.all[image]["size"], self.all[image]["content"] = self.all[image]["snapshots"][name]

    def notes(self, image):
        return dict(self.all[image]["notes"])

    def write_note(self, image, key, value):
        self._change()
        self.all[image]["notes"].pop(key, None)
        if value:
            self.all[image]["notes"][key] = value


def test_the_pool_of_these_tests_is_like_the_real_one():
    ours = {name for name in vars(MemoryPool) if not name.startswith("_")} - {"name"}
    assert ours <= set(vars(Pool))
    hooks = {name for name in vars(DiskStore) if not name.startswith("_")}
    assert hooks - set(vars(RbdDisks)) == set()


class Host:
    def __init__(self, path, images):
        self.name = path.name
        conf = nova_lite.conf.load([], config_files=[], state_path=str(path), my_ip="127.0.0.1", libvirt__images_type="rbd",
                                   libvirt__images_rbd_pool="vms")
        self.disks = disks_of(conf, self.name)
        assert isinstance(self.disks, RbdDisks)
        self.pool = self.disks._pool = MemoryPool(images)
        self.moves = Moves(conf, self.name, self.disks)
        self.files = GuestDirectory(instances_root(conf), UUID)
        self.files.path.parent.mkdir(parents=True)


@pytest.fixture
def images():
    return {}


@pytest.fixture
def hosts(tmp_path, images):
    made = {}

    def get(name):
        if name not in made:
            made[name] = Host(tmp_path / name, images)
        return made[name]
    yield get
    for host in made.values():
        host.moves.withdraw(SERVER)
        host.moves.drop_aside(UUID)


@pytest.fixture
def fetch(tmp_path):
    image = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "16M"], check=True)
    return lambda _image_id, path: shutil.copyfile(image, path)


SERVER = instance(ephemeral_gb=1, swap=16, launched_at="2026-01-01T00:00:00", host="a")
LARGER = dataclasses.replace(SERVER, flavor=dataclasses.replace(SERVER.flavor, root_gb=3, ephemeral_gb=2, swap=8))


def _image(name):
    return f"{UUID}_{name}"


def _record(image):
    return Record.from_json(image["notes"]["nova_lite.guest"], UUID)


def _owners(images):
    """By the records: the host, or -; and whether an evacuation has found it."""
    found = {name.removeprefix(f"{UUID}_"): _record(image) for name, image in images.items()}
    return {name: (record.host or "-") + (" adopted" if record.host and record.state is State.ADOPTED else "")
            for name, record in found.items()}


def _has_no_way_back(images):
    return all(not image["snapshots"] and (_record(image).move, _record(image).source) == ("", "")
               for image in images.values())


def _all(owner):
    return dict.fromkeys(("disk", "disk.eph0", "disk.swap"), owner)


def build(host, fetch, server=SERVER):
    host.moves.spawns(server)
    host.disks.make(server, host.files, fetch)
    host.moves.spawned(server)
    for name in ("disk", "disk.eph0"):
        host.pool.all[_image(name)]["content"] = "of the guest"


def destroy(host):
    """As the driver does it."""
    host.disks.remove(UUID)
    if host.files.is_of(host.name):
        host.files.remove()
    host.moves.drop_aside(UUID)


def go(old, new, fetch):
    """A move up to the settled guest, every step twice."""
    for _ in range(2):
        old.moves.set_aside(SERVER, MOVE)
    for _ in range(2):
        new.moves.receive(SERVER, None if old is new else old.moves.offer(SERVER), fetch, MOVE)
    if old is not new:
        old.moves.withdraw(SERVER)
    for _ in range(2):
        new.moves.fit(LARGER, fetch)
        new.moves.settled(LARGER)


def go_back_over_kills(old, new, after):
    """Undo a move. Each host is killed after so many changes of the pool, and does its step again."""
    for host, step in ((new, lambda: new.moves.drop_received(SERVER, MOVE)), (old, lambda: old.moves.bring_back(SERVER, MOVE))):
        host.pool.die_at = after
        try:
            step()
        except Killed:
            host.pool.die_at = None
            step()
        host.pool.die_at = None


def test_the_choice_of_the_option():
    conf = nova_lite.conf.load([], config_files=[])
    assert type(disks_of(conf, "a")) is DiskMaker
    assert DiskMaker(conf).identity == ""
    assert DiskMaker(conf).place() is None


@pytest.mark.parametrize(("said", "found"), [("10.0.0.1:6789", ("10.0.0.1", "6789")), ("[fd00::1]:3300", ("fd00::1", "3300")),
                                             ("10.0.0.1:6789/0", ("10.0.0.1", "6789"))])
def test_addresses_of_monitors(said, found):
    assert split_address(said) == found


def test_a_build_and_its_end(hosts, images, fetch):
    a = hosts("a")
    build(a, fetch)
    assert {name: image["size"] for name, image in images.items()} == {
        _image("disk"): GIB, _image("disk.eph0"): GIB, _image("disk.swap"): 16 * MIB}
    assert _owners(images) == _all("a")
    assert sorted(path.name for path in a.files.path.iterdir()) == ["guest.json"]
    a.disks.make(SERVER, a.files, fetch)
    assert images[_image("disk")]["content"] == "of the guest"
    a.disks.remove(UUID, keep=["disk.eph0"])
    assert list(images) == [_image("disk.eph0")]
    for _ in range(2):
        a.disks.remove(UUID)
    assert images == {}


@pytest.mark.parametrize("after", range(13))
def test_a_killed_build_is_completed_and_leaves_nothing(hosts, images, fetch, after):
    a = hosts("a")
    a.moves.spawns(SERVER)
    a.pool.die_at = after
    try:
        a.disks.make(SERVER, a.files, fetch)
    except Killed:
        assert after < 12
    else:
        assert after == 12
    a.pool.die_at = None
    for name, image in images.items():
        assert name.endswith(".part") or image["content"], "a disk that is there is whole"
    if after % 2:
        a.disks.make(SERVER, a.files, fetch)
        assert _owners(images) == _all("a")
        a.disks.remove(UUID)
    else:
        assert a.moves.left_behind() == {UUID}
        a.moves.drop_left_behind(UUID)
        assert not a.files.path.exists()
    assert images == {}


def test_a_build_that_another_host_did_not_finish(hosts, images, fetch):
    never_ran = dataclasses.replace(SERVER, launched_at=None)
    build(hosts("a"), fetch, never_ran)
    b = hosts("b")
    b.moves.spawns(SERVER)
    with pytest.raises(exception.VirtDriverError, match="of host a"):
        b.disks.make(SERVER, b.files, fetch)      # a server that ran: it may run there
    assert _owners(images) == _all("a")
    b.disks.make(never_ran, b.files, fetch)
    assert _owners(images) == _all("b")
    assert images[_image("disk")]["content"] == IMAGE
    destroy(hosts("a"))
    assert _owners(images) == _all("b")


def test_a_move_copies_nothing_and_confirm_leaves_the_disks(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    assert _owners(images) == _all("b")
    assert [images[_image(n)]["size"] for n in ("disk", "disk.eph0", "disk.swap")] == [3 * GIB, 2 * GIB, 8 * MIB]
    assert images[_image("disk")]["content"] == "of the guest"
    for _ in range(2):
        a.moves.drop_aside(UUID)
    destroy(a)      # late
    assert (a.moves.left_behind(), b.moves.left_behind()) == (set(), set())
    assert _owners(images) == _all("b")
    assert _has_no_way_back(images)
    destroy(b)
    assert images == {}


@pytest.mark.parametrize("same", [False, True])
def test_the_way_back(hosts, images, fetch, same):
    a, b = hosts("a"), hosts("a" if same else "b")
    build(a, fetch)
    go(a, b, fetch)
    images[_image("disk")]["content"] = "written after the resize"
    for _ in range(2):
        b.moves.drop_received(SERVER, MOVE)
    assert _owners(images) == _all("a")
    destroy(b) if not same else None
    for _ in range(2):
        a.moves.bring_back(SERVER, MOVE)
    assert {n: (i["size"], i["content"]) for n, i in images.items() if "swap" not in n} == {
        _image("disk"): (GIB, "of the guest"), _image("disk.eph0"): (GIB, "of the guest")}
    assert images[_image("disk.swap")]["size"] == 16 * MIB
    assert _has_no_way_back(images)
    assert (a.moves.left_behind(), b.moves.left_behind()) == (set(), set())
    assert sorted(path.name for path in a.files.path.iterdir()) == ["guest.json"]


def test_several_ephemeral_disks(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    server = dataclasses.replace(SERVER, flavor=dataclasses.replace(SERVER.flavor, ephemeral_gb=3), block_devices=blanks(2, 1))
    build(a, fetch, server)
    own = ["disk", "disk.eph0", "disk.eph1", "disk.swap"]
    assert [images[_image(name)]["size"] for name in own] == [GIB, 2 * GIB, GIB, 16 * MIB]
    assert a.disks.names(UUID) == own
    go(a, b, fetch)
    assert _owners(images) == dict.fromkeys(own, "b")
    b.moves.drop_received(server, MOVE)
    a.moves.bring_back(server, MOVE)
    assert _owners(images) == dict.fromkeys(own, "a")
    a.disks.remove(UUID, keep=EPHEMERALS)
    assert list(_owners(images)) == ["disk.eph0", "disk.eph1"]
    destroy(a)
    assert images == {}


def test_a_resize_where_it_is(hosts, images, fetch):
    a = hosts("a")
    build(a, fetch)
    go(a, a, fetch)
    a.moves.drop_aside(UUID)
    assert _owners(images) == _all("a")
    assert images[_image("disk")]["size"] == 3 * GIB
    assert images[_image("disk")]["snapshots"] == {}
    destroy(a)
    assert images == {}


@pytest.mark.parametrize("same", [False, True])
def test_what_a_resize_has_added_goes_with_it(hosts, images, fetch, same):
    a, b = hosts("a"), hosts("a" if same else "b")
    plain = dataclasses.replace(SERVER, flavor=dataclasses.replace(SERVER.flavor, ephemeral_gb=0, swap=0))
    a.moves.spawns(plain)
    a.disks.make(plain, a.files, fetch)
    a.moves.spawned(plain)
    go(a, b, fetch)
    assert _owners(images) == _all(b.name)
    b.moves.drop_received(plain, MOVE)
    a.moves.bring_back(plain, MOVE)
    assert _owners(images) == {"disk": "a"}


@pytest.mark.parametrize("after", range(0, 24, 2))
def test_a_way_back_that_is_cut_off_is_gone_again(hosts, images, fetch, after):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    images[_image("disk")]["content"] = "written after the resize"
    go_back_over_kills(a, b, after)
    assert images[_image("disk")]["content"] == "of the guest"
    assert _owners(images) == _all("a")
    assert all(not image["snapshots"] for image in images.values())


@pytest.mark.parametrize("after", range(0, 8))
def test_a_confirmation_that_is_cut_off_is_no_way_back_any_more(hosts, images, fetch, after):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    images[_image("disk")]["content"] = "written after the resize"
    a.pool.die_at = after
    try:
        a.moves.drop_aside(UUID)
    except Killed:
        assert not a.moves.has_aside(SERVER, MOVE)
        a.pool.die_at = None
        assert a.moves.left_behind() == {UUID}
        with pytest.raises(exception.VirtDriverError, match="of host b"):
            a.moves.return_if_alone(SERVER)
        a.moves.drop_left_behind(UUID)
    a.pool.die_at = None
    assert a.moves.left_behind() == set()
    assert _owners(images) == _all("b")
    assert images[_image("disk")]["content"] == "written after the resize"
    assert all(not image["snapshots"] for image in images.values())


def test_a_new_host_that_dies_before_it_settles_has_nothing_to_remove(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    a.moves.set_aside(SERVER, MOVE)
    b.moves.receive(SERVER, a.moves.offer(SERVER), fetch, MOVE)
    b.moves.fit(LARGER, fetch)
    a.moves.bring_back(SERVER, MOVE)        # b is dead
    assert images[_image("disk")]["size"] == GIB
    assert b.moves.left_behind() == {UUID}
    b.moves.drop_left_behind(UUID)
    destroy(b)
    assert _owners(images) == _all("a")


def test_a_new_host_that_dies_between_its_records_gives_the_disks_back(hosts, images, fetch):
    """Its name is on the images, its directory still says that the move has not ended."""
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    a.moves.set_aside(SERVER, MOVE)
    b.moves.receive(SERVER, a.moves.offer(SERVER), fetch, MOVE)
    b.disks.own(UUID)
    b.moves.drop_left_behind(UUID)
    assert _owners(images) == _all("a")
    a.moves.bring_back(SERVER, MOVE)
    assert images[_image("disk")]["content"] == "of the guest"


def test_a_way_back_whose_source_nobody_knows_any_more_stays(hosts, images, fetch):
    """The source of an older move forgot that move while the next one wrote its own down, and took that away."""
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    a.moves.set_aside(SERVER, MOVE)
    b.moves.receive(SERVER, a.moves.offer(SERVER), fetch, MOVE)
    b.disks.own(UUID)
    for name in ("disk", "disk.eph0", "disk.swap"):
        b.disks._write(_image(name), b.disks._record(_image(name)), state=State.HERE, move="", source="")
    b.moves.drop_left_behind(UUID)
    assert _owners(images) == _all("-")
    a.moves.bring_back(SERVER, MOVE)
    assert images[_image("disk")]["content"] == "of the guest"


def test_a_server_that_is_deleted_while_it_moves(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    a.moves.set_aside(SERVER, MOVE)
    b.moves.receive(SERVER, a.moves.offer(SERVER), fetch, MOVE)
    destroy(b)
    assert _owners(images) == _all("a")
    a.moves.drop_left_behind(UUID)
    assert images == {}


@pytest.mark.parametrize("after", range(4))
def test_a_removal_that_is_cut_off_is_found(hosts, images, fetch, after):
    a = hosts("a")
    build(a, fetch)
    assert a.moves.left_behind() == set()
    a.moves.removes(SERVER)
    a.pool.die_at = after
    try:
        destroy(a)
    except Killed:
        a.pool.die_at = None
        assert a.moves.left_behind() == {UUID}
        a.moves.drop_left_behind(UUID)
    else:
        assert after == 3
    assert (images, a.files.path.exists(), a.moves.left_behind()) == ({}, False, set())


def test_a_host_does_not_start_a_guest_that_is_another_hosts(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    for step in (lambda: a.disks.claim(UUID), lambda: a.moves.return_if_alone(SERVER), lambda: a.disks.set_aside(UUID, OTHER),
                 lambda: a.moves.set_aside(SERVER, OTHER)):
        with pytest.raises(exception.VirtDriverError, match=f"image {UUID}_disk of rbd:fsid/vms is of host b"):
            step()
    assert _owners(images) == _all("b")
    assert images[_image("disk")]["size"] == 3 * GIB


def test_an_older_moves_snapshots_are_gone_when_the_next_one_begins(hosts, images, fetch):
    """A confirmation failed, and the guest has come back by other ways."""
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    a.files.make()
    a.disks.own(UUID)
    images[_image("disk")]["content"] = "of now"
    a.moves.set_aside(SERVER, OTHER)
    assert [list(i["snapshots"]) for i in images.values()] == [[f"nova_lite_{OTHER}"]] * 3
    a.moves.bring_back(SERVER, OTHER)
    assert images[_image("disk")]["content"] == "of now"


def test_a_move_that_takes_over_what_an_older_one_had_set_aside(hosts, images, fetch):
    a = hosts("a")
    build(a, fetch)
    a.moves.set_aside(SERVER, OTHER)
    images[_image("disk")]["size"] = 5 * GIB        # the new host got as far as that
    a.moves.set_aside(SERVER, MOVE)
    assert [list(i["snapshots"]) for i in images.values()] == [[f"nova_lite_{MOVE}"]] * 3
    a.moves.bring_back(SERVER, MOVE)
    assert images[_image("disk")]["size"] == GIB


def test_a_live_migration(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    assert [(d["name"], d["size"], d["format"]) for d in a.disks.facts(SERVER, a.files)] == [
        (f"{UUID}/disk", GIB, "rbd"), (f"{UUID}/disk.eph0", GIB, "rbd"), (f"{UUID}/disk.swap", 16 * MIB, "rbd")]
    a.disks.release_ownership(UUID)
    destroy(b)
    a.disks.remove(UUID)
    assert _owners(images) == _all("-")
    a.disks.own(UUID)       # it failed
    assert _owners(images) == _all("a")
    a.disks.release_ownership(UUID)
    a.disks.give(UUID, "b")
    destroy(a)
    assert _owners(images) == _all("b")
    b.disks.own(UUID)
    destroy(b)
    assert images == {}


def test_an_evacuation_that_fails_leaves_the_disks(hosts, images, fetch):
    a, c = hosts("a"), hosts("c")
    build(a, fetch)
    for _ in range(2):
        c.disks.adopt(UUID)
        c.moves.spawns(SERVER)
        c.disks.make(SERVER, c.files, fetch)
        destroy(a)
        c.disks.adopt(UUID)
        destroy(c)
        assert _owners(images) == _all("-")
    c.disks.adopt(UUID)
    c.disks.adopted(UUID)
    assert _owners(images) == _all("c adopted")
    c.disks.remove(UUID, server=Standing(is_ours=False))       # it died then, and another host has the server when it is back
    assert _owners(images) == _all("c adopted")
    c.disks.adopt(UUID)     # its end was not heard of, and it fails after all
    destroy(c)
    assert images[_image("disk")]["content"] == "of the guest"
    a.disks.claim(UUID)
    assert _owners(images) == _all("a")


@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_a_failed_evacuation_has_left_goes_with_its_server_and_with_a_rebuild(hosts, images, fetch, is_deleted):
    a, c = hosts("a"), hosts("c")
    build(a, fetch)
    c.disks.adopt(UUID)
    assert _owners(images) == _all("-")
    server = dataclasses.replace(SERVER, task_state="deleting" if is_deleted else "rebuild_block_device_mapping")
    assert a.moves.may_remove(server, False)
    a.moves.removes(server)
    if not is_deleted:
        a.disks.remove(UUID)
        assert _owners(images) == _all("-")
        a.moves.take(UUID)
    a.disks.remove(UUID)
    assert images == {}


def test_an_evacuation_does_not_take_what_the_old_guest_still_writes_to(hosts, images, fetch):
    c = hosts("c")
    build(hosts("a"), fetch)
    c.pool.busy.add(_image("disk"))
    c.disks.adopt(UUID)
    c.moves.spawns(SERVER)
    with pytest.raises(exception.VirtDriverError, match="still in use by"):
        c.disks.make(SERVER, c.files, fetch)
    assert images[_image("disk")]["content"] == "of the guest"


def test_what_an_evacuation_has_made_itself_goes_with_it(hosts, images, fetch):
    c = hosts("c")
    c.disks.adopt(UUID)
    c.moves.spawns(SERVER)
    c.disks.make(SERVER, c.files, fetch)
    c.disks.adopt(UUID)
    destroy(c)
    assert images == {}


@pytest.mark.parametrize("way", ["to files", "to the pool"])
def test_disks_do_not_move_between_files_and_a_pool(hosts, images, fetch, tmp_path, way):
    a = hosts("a")
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "files"), my_ip="127.0.0.1")
    maker = DiskMaker(conf)
    of_files, files = Moves(conf, "files", maker), GuestDirectory(instances_root(conf), UUID)
    # no root disk of its own, so that not the format of that one is the reason
    server = dataclasses.replace(SERVER, flavor=dataclasses.replace(SERVER.flavor, swap=0))
    if way == "to files":
        build(a, fetch)
        del images[_image("disk")]
        a.moves.set_aside(server, MOVE)
        old, new = a.moves, of_files
    else:
        of_files.spawns(server)
        maker.make(server, files, fetch)
        files.disk.unlink()
        of_files.set_aside(server, MOVE)
        old, new = of_files, a.moves
    offer = old.offer(server)
    with pytest.raises(exception.ResizeError, match=r"its disks are .*rbd.*images_type"):
        new.receive(server, offer, fetch, MOVE)
    old.withdraw(server)
    assert new.left_behind() == set()


def test_a_disk_of_before_the_option_was_changed_is_not_forgotten(hosts, images, fetch):
    a = hosts("a")
    a.moves.spawns(SERVER)
    a.files.disk.touch()
    for step in (lambda: a.disks.claim(UUID), lambda: a.moves.set_aside(SERVER, MOVE)):
        with pytest.raises(exception.VirtDriverError, match="images_type of this host is rbd"):
            step()
    assert a.files.disk.exists()


def test_a_root_disk_that_is_gone_is_not_made_of_the_image_again(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    a.moves.set_aside(SERVER, MOVE)
    b.moves.receive(SERVER, a.moves.offer(SERVER), fetch, MOVE)
    del images[_image("disk")]
    with pytest.raises(exception.VirtDriverError, match=f"{UUID}_disk is not in rbd:fsid/vms"):
        b.moves.fit(LARGER, fetch)


def test_a_cluster_that_is_away_keeps_the_room_that_it_had(hosts, monkeypatch):
    def away():
        raise exception.VirtDriverError(what="ceph df", reason="no answer")
    a = hosts("a")
    assert a.disks.space() == (100 * GIB, 40 * GIB, 40 * GIB)
    monkeypatch.setattr(a.pool, "space", away)
    assert a.disks.space() == (100 * GIB, 40 * GIB, 40 * GIB)
    a.disks._last_space = None
    with pytest.raises(exception.VirtDriverError):
        a.disks.space()


# copies --------------------------------------------------------------------------------------------------------------------
def test_a_copy_is_of_a_quiet_moment_and_ends_when_it_is_not_wanted(hosts, images, fetch):
    host, frozen, seen = hosts("a"), [], []
    asked = dataclasses.replace(SERVER, image=dataclasses.replace(SERVER.image, properties={"hw_qemu_guest_agent": "yes"}))
    build(host, fetch, asked)
    domain = types.SimpleNamespace(isActive=lambda: True, agentSetResponseTimeout=lambda *_: None, fsThaw=frozen.clear,
                                   fsFreeze=lambda: frozen.append(True))
    guest = types.SimpleNamespace(uuid=UUID, clock=FastClock(), power_state=lambda: states.RUNNING,
                                  do=lambda function, **_named: function(domain))
    snapshots = images[_image("disk")]["snapshots"]
    snapshots["nova_lite_copy"] = "of a run that was killed"
    host.files.snapshot.write_text("half of it")
    host.files.frozen.touch()
    frozen.append(True)
    make = host.pool.make_snapshot
    host.pool.make_snapshot = lambda *named: (seen.append((bool(frozen), dict(snapshots))), make(*named))
    with host.disks.copied(asked, guest, host.files, lambda: seen.append(bool(frozen))) as copy:
        assert "as qcow2" in host.files.snapshot.read_text()
        assert copy.path == str(host.files.snapshot)
    assert seen == [(True, {}), False]

    def not_wanted():
        raise exception.UnexpectedTaskState(instance_id=UUID, actual="deleting", expected="image_uploading")
    with pytest.raises(exception.UnexpectedTaskState), host.disks.copied(asked, guest, host.files, not_wanted):
        pass
    assert (snapshots, host.files.snapshot.exists(), host.files.frozen.exists()) == ({}, False, False)


# images of an older version -------------------------------------------------------------------------------------------------
def _with_older_notes(images, owner, aside=""):
    for image in images.values():
        image["notes"] = {"nova_lite.owner": owner, **({"nova_lite.aside": aside} if aside else {})}


def test_an_image_of_an_older_version_gets_its_record_when_that_changes(hosts, images, fetch):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    _with_older_notes(images, "a")
    with pytest.raises(exception.VirtDriverError, match="of host a"):
        b.disks.claim(UUID)
    b.disks.remove(UUID)
    assert [image["notes"] for image in images.values()] == [{"nova_lite.owner": "a"}] * 3      # it was only looked at
    go(a, b, fetch)
    assert [list(image["notes"]) for image in images.values()] == [["nova_lite.guest"]] * 3
    assert _owners(images) == _all("b")


@pytest.mark.parametrize("after", range(0, 24, 3))
def test_a_way_back_that_an_older_version_has_prepared_is_cut_off_and_gone_again(hosts, images, fetch, after):
    a, b = hosts("a"), hosts("b")
    build(a, fetch)
    go(a, b, fetch)
    _with_older_notes(images, "b", f"a {MOVE}")
    images[_image("disk")]["content"] = "written after the resize"
    go_back_over_kills(a, b, after)
    assert images[_image("disk")]["content"] == "of the guest"
    assert (_owners(images), _has_no_way_back(images)) == (_all("a"), True)


def test_an_image_whose_record_cannot_be_read_is_nobodys_to_take_or_remove(hosts, images, fetch):
    a = hosts("a")
    build(a, fetch)
    images[_image("disk")]["notes"]["nova_lite.guest"] = '{"version": 2}'
    for step in (lambda: a.disks.claim(UUID), lambda: a.disks.take(UUID), lambda: a.disks.remove(UUID)):
        with pytest.raises(exception.VirtDriverError, match=f"whose image {UUID}_disk is"):
            step()
    assert len(images) == 3
