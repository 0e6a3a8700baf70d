"""An overlay is opened only on the base image that it was made on: its guest may have taken over QEMU, and have written the
name of another tenant's image into its header."""
import shutil

import pytest

from nova_lite import exception
from nova_lite.objects.guest_moves import Plan

from .image_hosts import MIB, NO_FILES, SECRET, bases, fetching, hosts, image, overlay, server

pytest.importorskip("libvirt")
pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-utils are not installed")
MOVE = "30000000-0000-4000-8000-000000000003"
REFUSED = "Opening a disk failed: it names another base image than the one it was made on"


@pytest.fixture
def made(tmp_path, monkeypatch):
    with hosts(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def fetch(tmp_path):
    """Gives every image, all but one the same."""
    path = tmp_path / "raw.img"
    path.write_bytes(b"boot" * (MIB // 4))
    return fetching(path)


@pytest.fixture
def others(made, tmp_path):
    """The image of another tenant, in the cache of the host."""
    found = image()
    (tmp_path / "secret").write_bytes(SECRET)
    made.start().cache_image(found, fetching(tmp_path / "secret"))
    return found


def _rewrite(driver, files, base):
    files.disk.unlink()         # libvirt may have given it to somebody
    files.disk.write_bytes(overlay(bases(driver) / base, 1 << 30))


@pytest.fixture
def guest(made, fetch):
    """One that runs on a host with qcow2 disks."""
    driver, found = made.start(), server(image())
    driver.spawn(found, [], NO_FILES, fetch)
    assert made.files("one", found).base == found.image.id
    return found


def _reboot(driver, guest, fetch):
    driver.reboot(guest, [], hard=True, timeout=0)


def _start(driver, guest, fetch):
    driver.power_off(guest, 0)
    driver.power_on(guest, [])


def _resume(driver, guest, fetch):
    driver.resume(guest, [])


def _shelve(driver, guest, fetch):
    driver.power_off(guest, 0)
    with driver.snapshot(guest):
        pass


def _rescue(driver, guest, fetch):
    driver.rescue(guest, [], image(), NO_FILES, fetch)


def _resize(driver, guest, fetch):
    driver.set_aside(guest, [], 0, MOVE)
    driver.receive_guest(guest, None, fetch, MOVE)
    guest.flavor.root_gb = 2
    driver.finish_move(guest, [], fetch, True)


def _move(driver, guest, fetch):
    driver.set_aside(guest, [], 0, MOVE)
    driver.offer_disks(guest)


def _come_back(driver, guest, fetch):
    driver.set_aside(guest, [], 0, MOVE)
    driver.bring_back(guest, [], True, MOVE)


def _live(driver, guest, fetch):
    driver.live.facts(guest)


@pytest.mark.parametrize("way", [_reboot, _start, _resume, _shelve, _rescue, _resize, _move, _come_back, _live])
def test_a_disk_that_names_another_cached_image_is_not_opened(made, guest, fetch, others, way):
    driver, files = made.start(), made.files("one", guest)
    if way is _resume:
        driver.suspend(guest)
    _rewrite(driver, files, others.id)
    with pytest.raises(exception.NovaLiteError) as caught:
        way(driver, guest, fetch)
    assert caught.value.public == ("Migration pre-check error: its host does not open its disks any more" if way is _live
                                   else REFUSED)
    if way not in (_rescue, _live):         # those leave the guest as it is, which runs with the disk of before
        assert driver.power_state(guest) in (None, 4)


def test_a_disk_that_names_its_own_image_again_or_none_is_opened(made, guest):
    driver, files = made.start(), made.files("one", guest)
    _rewrite(driver, files, guest.image.id)
    driver.reboot(guest, [], hard=True, timeout=0)
    _rewrite(driver, files, guest.image.id)
    with open(files.disk, "r+b") as disk:
        disk.seek(8)
        disk.write(bytes(12))
    driver.reboot(guest, [], hard=True, timeout=0)
    assert driver.power_state(guest) == 1


def test_a_rescue_disk_that_names_another_cached_image_is_not_opened(made, guest, fetch, others):
    driver, files, wanted = made.start(), made.files("one", guest), image()
    driver.rescue(guest, [], wanted, NO_FILES, fetch)
    files.rescue_disk.unlink()
    files.rescue_disk.write_bytes(overlay(bases(driver) / others.id))
    with pytest.raises(exception.VirtDriverError, match=REFUSED):
        driver.rescue(guest, [], wanted, NO_FILES, fetch)
    driver.unrescue(guest, [])
    assert not files.rescue_disk.exists()


# where the note comes from, and where it goes -------------------------------------------------------------------------
def _is_held(driver, guest, files, others):
    """Whether the guest can start, but not with another image."""
    driver.reboot(guest, [], hard=True, timeout=0)
    disk = files.disk.read_bytes()
    _rewrite(driver, files, others.id)
    with pytest.raises(exception.VirtDriverError, match=REFUSED):
        driver.reboot(guest, [], hard=True, timeout=0)
    files.disk.write_bytes(disk)
    return True


def test_a_rebuild_and_an_unshelve_stand_on_the_image_of_then(made, guest, fetch, others):
    driver, files = made.start(), made.files("one", guest)
    for keep in (False, True):
        driver.clear(guest, [], keep_ephemeral=keep)
        guest.image = image()
        driver.spawn(guest, [], NO_FILES, fetch)
        assert files.base == guest.image.id
    assert _is_held(driver, guest, files, others)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_cold_move_takes_the_note_along(made, guest, fetch, others, is_gone):
    """Also of an image that the Image service has no more: the copy that the other host sends has a name of its own. Then the
    guest is resized on its new host, and comes home."""
    old, new = made.start(), made.start("two")
    there = made.files("two", guest)

    def get(image_id, path):
        if is_gone and image_id == guest.image.id:
            raise exception.ImageNotFound(image_id=image_id)
        fetch(image_id, path)
    new.cache_image(others, fetch)
    old.set_aside(guest, [], 0, MOVE)
    new.receive_guest(guest, old.offer_disks(guest), get, MOVE)
    new.finish_move(guest, [], get, True)
    base = f"moved-{MOVE}" if is_gone else guest.image.id
    assert there.base == base
    assert _is_held(new, guest, there, others)
    new.set_aside(guest, [], 0, MOVE[::-1])
    new.receive_guest(guest, None, get, MOVE[::-1])
    new.finish_move(guest, [], get, True)
    assert there.base == base
    assert _is_held(new, guest, there, others)
    new.drop_aside(guest)
    new.drop_received(guest, [], False, MOVE)
    there.remove()
    old.bring_back(guest, [], True, MOVE)
    assert made.files("one", guest).base == guest.image.id
    assert _is_held(old, guest, made.files("one", guest), others)


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_destination_of_a_live_migration_notes_what_it_makes(made, guest, fetch, others, is_whole):
    """A disk that was on a shelf stands on another image than the server's, and is copied as a whole."""
    old, new = made.start(), made.start("two", libvirt__connection_uri=made.own_libvirt("two"))
    if is_whole:
        guest.image = image()
    told = old.live.facts(guest)
    plan = Plan(block=True, host="two", disks=told.disks, source_root=told.root, power_state=told.power_state)
    new.live.prepare(guest, [], plan, old.live.offer(guest, plan), fetch)
    assert made.files("two", guest).base == ("" if is_whole else guest.image.id)
    new.cache_image(others, fetch)
    assert _is_held(new, guest, made.files("two", guest), others)
    new.live.give_up(guest, [], plan)


def test_an_evacuation_from_shared_storage_keeps_the_note(made, guest, fetch, others, tmp_path):
    old, files = made.start(), made.files("one", guest)
    disk = files.disk.read_bytes()
    _rewrite(old, files, others.id)
    new = made.start("two", state_path=str(tmp_path / "one"), libvirt__connection_uri=made.own_libvirt("two"))
    guest.launched_at = "2026-01-01T00:00:00"
    new.live.adopt(guest)
    with pytest.raises(exception.BuildFailed, match=REFUSED):
        new.spawn(guest, [], NO_FILES, fetch)
    files.disk.write_bytes(disk)
    new.live.adopt(guest)
    new.spawn(guest, [], NO_FILES, fetch)
    new.live.adopted(guest)
    assert (files.base, files.is_of("two")) == (guest.image.id, True)
    assert _is_held(new, guest, files, others)


def test_guests_of_older_versions_are_noted_when_the_daemon_starts(made, guest, fetch, others):
    """As their disks are then, whether they run or not; one whose disk is not to be opened holds up no other."""
    driver, second, third = made.start(), server(image()), server(image())
    for one in (second, third):
        driver.spawn(one, [], NO_FILES, fetch)
    driver.power_off(second, 0)
    files = made.files("one", third)
    with open(files.disk, "r+b") as disk:
        disk.write(overlay("/etc/passwd"))
    for one in (guest, second, third):
        made.files("one", one).note(base=None, disk_format="" if one is guest else "qcow2")
    driver = made.start()
    assert [made.files("one", one).base for one in (guest, second, third)] == [guest.image.id, second.image.id, None]
    for one in (guest, second):
        assert _is_held(driver, one, made.files("one", one), others)
    with pytest.raises(OSError, match="not a base image of this host"):
        driver.reboot(third, [], hard=True, timeout=0)


def test_what_comes_without_a_note_is_noted_at_its_first_start(made, guest, fetch, others):
    """From a host of an older version, by shared storage."""
    driver, files = made.start(), made.files("one", guest)
    files.note(base=None)
    driver.reboot(guest, [], hard=True, timeout=0)
    assert files.base == guest.image.id
    assert _is_held(driver, guest, files, others)
