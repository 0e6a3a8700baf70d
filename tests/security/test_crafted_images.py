"""Four hundred hostile images by the ways that they come to a host, and disks that guests have rewritten by the ways that they
leave it. None shows what is in another file, and what is refused is refused clearly. The guests do not boot."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from nova_lite import exception
from nova_lite.objects.guest_moves import Plan
from nova_lite.virt.libvirt import images

from .crafted_images import crafted, naming
from .image_hosts import MIB, NO_FILES, SECRET, bases, fetching, hosts, image, overlay, server, shows_secret

pytest.importorskip("libvirt")
pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-utils are not installed")
MOVE = "30000000-0000-4000-8000-000000000003"
# all that a user reads of one: nothing of it is oslo.utils' or qemu-img's
CLEAR = re.compile(
    r"Image .* is unacceptable: (it claims to be \w+, but its data is \w+( and \w+)*|it has a backing file|it is encrypted, .*"
    r"|its data is in another file|its header asks for what no image may have|its data cannot be inspected as \w+"
    r"|disk format .* is not supported; .*|qemu-img sees another format than its header says|\w+Error.*)$"
    r"|Flavor's disk is too small .* Flavor disk is \d+ bytes, image is \d+ bytes\.$")


@pytest.fixture
def made(tmp_path, monkeypatch):
    with hosts(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def secret(tmp_path):
    """A file of the host. That nobody has opened it is seen by its time, where the file system notes that."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    os.utime(path, (1000, 1000))
    yield path
    assert path.stat().st_atime == 1000


@pytest.fixture
def harmless(tmp_path):
    path = tmp_path / "harmless.raw"
    path.write_bytes(bytes(MIB))
    return path


def _boot(driver, guest, fetch):
    driver.spawn(guest, [], NO_FILES, fetch)


def _rebuild(driver, guest, fetch):
    driver.clear(guest, [], keep_ephemeral=False)
    driver.spawn(guest, [], NO_FILES, fetch)


def _rescue(driver, guest, fetch):
    driver.rescue(guest, [], guest.image, NO_FILES, fetch)


def _tried(way, *arguments):
    """What a user reads against it; empty: nothing."""
    try:
        way(*arguments)
        return ""
    except exception.NovaLiteError as error:
        return error.public


@pytest.mark.parametrize(("way", "images_type"), [(_boot, "qcow2"), (_rebuild, "raw"), (_rescue, "qcow2")])
def test_no_image_shows_another_file(made, secret, harmless, tmp_path, way, images_type):
    """Each is refused with a reason, but for those that are what they say: their guests have them."""
    driver, guest, odd, path = made.start(libvirt__images_type=images_type), server(image()), {}, tmp_path / "image"
    files = made.files("one", guest)
    if way is not _boot:
        driver.spawn(guest, [], NO_FILES, fetching(harmless))
    for one in crafted(secret):
        if one.label not in ("raw", "qcow2") and (way, images_type) != (_boot, "qcow2"):
            continue        # refused by its label alone
        path.write_bytes(one.data)
        guest.image = image(one.label)
        refusal = _tried(way, driver, guest, fetching(path))
        if refusal and (one.fits or not CLEAR.search(refusal)):
            odd[one.name] = refusal
        if not refusal and shows_secret(files.rescue_disk if way is _rescue else files.disk, images_type, tmp_path):
            odd[one.name] = "shows the file"
        if not refusal and way is _boot:
            driver.destroy(guest, [])
    driver.destroy(guest, [])
    assert odd == {}


# what a guest has written to its disk ---------------------------------------------------------------------------------
@pytest.fixture
def rewritten(made, secret, harmless, request):
    """(driver, guest, its files, what may stand on its disk)."""
    driver, guest, others = made.start(libvirt__images_type=request.param), server(image()), image()
    driver.cache_image(others, fetching(secret))
    os.utime(secret, (1000, 1000))
    driver.spawn(guest, [], NO_FILES, fetching(harmless))
    driver.power_off(guest, 0)
    base = bases(driver) / others.id
    wishes = dict(naming(secret)) | {"another tenant's image": overlay(base), "the same by JSON": overlay(
        'json:{"driver": "raw", "file": {"driver": "file", "filename": "' + str(base) + '"}}')}
    yield driver, guest, made.files("one", guest), wishes
    driver.destroy(guest, [])


def _write(disk, data):
    disk.unlink()       # libvirt may have given it to somebody
    with open(disk, "wb") as stream:
        stream.write(data)
        stream.truncate(1 << 30)


def _begin(path, length):
    with open(path, "rb") as stream:
        return stream.read(length)


@pytest.mark.parametrize("rewritten", ["raw"], indirect=True)
def test_a_raw_disk_that_pretends_to_be_something_else_leaves_as_it_is_or_not_at_all(made, rewritten, harmless, tmp_path):
    """By a snapshot or onto a shelf not at all: no host would take that image, and nothing else would be left of the server."""
    driver, guest, files, wishes = rewritten
    odd = {}

    def take(name):
        with driver.snapshot(guest) as copy:
            odd[name] = f"a {copy.disk_format} image was made"
    for name, data in wishes.items():
        _write(files.disk, data)
        driver.power_on(guest, [])
        driver.power_off(guest, 0)
        refusal = _tried(take, name)
        if not CLEAR.search(refusal):
            odd.setdefault(name, refusal)
        if _begin(files.disk, len(data)) != data or driver.live.facts(guest).disks[0]["format"] != "raw":
            odd[name] = "it is another disk"
    assert odd == {}


@pytest.mark.parametrize("rewritten", ["raw"], indirect=True)
def test_a_disk_without_pretensions_goes_onto_the_shelf_and_comes_back(rewritten, tmp_path):
    driver, guest, files, _ = rewritten
    _write(files.disk, b"what the guest has on it" * 100)
    with driver.snapshot(guest) as copy:
        shutil.copyfile(copy.path, tmp_path / "shelf")
        guest.image = image(copy.disk_format)
    driver.destroy(guest, [])
    driver.spawn(guest, [], NO_FILES, fetching(tmp_path / "shelf"))
    assert _begin(files.disk, 24) == b"what the guest has on it"


@pytest.mark.parametrize("rewritten", ["raw"], indirect=True)
def test_a_raw_disk_moves_as_it_is_whatever_it_pretends(made, rewritten, harmless):
    """To its own host, to another one that makes qcow2 disks by now, and prepared for a live migration there."""
    driver, guest, files, wishes = rewritten
    new, fetch, there, odd = made.start("two"), fetching(harmless), made.files("two", guest), {}
    chosen = [name for name in wishes if name.endswith(("v3 on path", "v3 on json:", "data file", "after a line feed: RW FLAT",
                                                        "another tenant's image", "by JSON", "qed on a path"))]
    assert len(chosen) >= 6
    for number, name in enumerate(chosen):
        data, move = wishes[name], f"{number:08d}{MOVE[8:]}"
        _write(files.disk, data)
        plan = driver.live.facts(guest).disks
        driver.set_aside(guest, [], 0, move)
        driver.receive_guest(guest, None, fetch, move)
        driver.finish_move(guest, [], fetch, True)
        if _begin(files.disk, len(data)) != data:
            odd[name] = "it came to its own host as something else"
        driver.drop_aside(guest)
        driver.set_aside(guest, [], 0, move[::-1])
        new.receive_guest(guest, driver.offer_disks(guest), fetch, move[::-1])
        new.finish_move(guest, [], fetch, False)
        if _begin(there.disk, len(data)) != data or there.disk_format != "raw" or plan[0]["format"] != "raw":
            odd[name] = "it came to the other host as something else"
        new.drop_received(guest, [], False, move[::-1])
        there.remove()
        driver.bring_back(guest, [], False, move[::-1])
    assert odd == {}


@pytest.mark.parametrize("rewritten", ["qcow2"], indirect=True)
def test_an_overlay_that_was_made_to_name_another_file_is_not_opened(rewritten, tmp_path):
    """Its guest has taken over QEMU. Neither started nor copied, resized or shown to another host."""
    driver, guest, files, wishes = rewritten
    odd = {}
    for name, data in wishes.items():
        if not name.startswith("qcow2"):
            continue
        _write(files.disk, data)
        for way in (lambda: driver.power_on(guest, []), lambda: driver.snapshot(guest).__enter__()):
            try:
                way()
                odd[name] = "it was opened"
            except (exception.NovaLiteError, OSError):
                driver.power_off(guest, 0)
    assert odd == {}


def _in_qcow2(disk, data):
    """What a guest writes on its disk, which is the host's overlay: QEMU itself puts it there."""
    source = disk.with_name("guest-writes")
    source.write_bytes(data.ljust(-(-len(data) // 512) * 512, b"\0"))
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -q -s {source} 0 {source.stat().st_size}", disk], check=True,
                   capture_output=True)
    source.unlink()


def _shown(disk, disk_format, length, tmp_path):
    """The beginning of a disk as its guest reads it."""
    out = tmp_path / "shown"
    out.unlink(missing_ok=True)
    subprocess.run(["qemu-img", "dd", "-f", disk_format, "-O", "raw", "bs=1M", "count=1", f"if={disk}", f"of={out}"],
                   check=True, capture_output=True)
    return out.read_bytes()[:length]


def _chosen(wishes):
    """One of each kind, as each of these ways takes a second."""
    found = {name: data for name, data in wishes.items() if name.endswith((
        "v3 on path", "v3 on json:", "v3 on nbd", "with a data file", "after a line feed: RW FLAT", "after spaces: RW SPARSE",
        "vmdk with RW FLAT", "another tenant's image", "by JSON", "qed on a path"))}
    assert len(found) >= 9
    return found


@pytest.mark.parametrize("rewritten", ["qcow2"], indirect=True)
def test_what_a_guest_wrote_onto_its_overlay_is_on_it_after_the_shelf(made, rewritten, harmless, tmp_path):
    """Snapshot, shelve, and unshelve on a host of either kind; a raw disk whose guest wrote that onto it may then run, but not
    be shelved again."""
    driver, guest, files, wishes = rewritten
    shelf, raw, odd = tmp_path / "shelf", made.start("raw", libvirt__images_type="raw"), {}
    for number, (name, data) in enumerate(_chosen(wishes).items()):
        other = driver if number % 2 else raw
        there, kind = made.files(other._name, guest), "qcow2" if other is driver else "raw"
        guest.image = image()
        driver.destroy(guest, [])
        driver.spawn(guest, [], NO_FILES, fetching(harmless))
        driver.power_off(guest, 0)
        _in_qcow2(files.disk, data)
        with driver.snapshot(guest) as copy:
            shutil.copyfile(copy.path, shelf)
            guest.image = image(copy.disk_format)
        driver.destroy(guest, [])
        other.spawn(guest, [], NO_FILES, fetching(shelf))
        other.reboot(guest, [], hard=True, timeout=0)
        other.power_off(guest, 0)
        if there.disk_format != kind or _shown(there.disk, kind, len(data), tmp_path) != data:
            odd[name] = "it came from the shelf as something else"
        if kind == "raw" and not CLEAR.search(_tried(lambda host=other: host.snapshot(guest).__enter__())):
            odd[name] = "it may go onto the shelf again"
        other.destroy(guest, [])
    assert odd == {}


@pytest.mark.parametrize("rewritten", ["qcow2"], indirect=True)
def test_what_a_guest_wrote_onto_its_overlay_moves_with_it(made, rewritten, harmless, tmp_path):
    """By a cold migration to a host that makes raw disks."""
    driver, guest, files, wishes = rewritten
    new, fetch, odd = made.start("two", libvirt__images_type="raw"), fetching(harmless), {}
    there = made.files("two", guest)
    for number, (name, data) in enumerate(list(_chosen(wishes).items())[::2]):      # each takes seconds
        move = f"{number:08d}{MOVE[8:]}"
        _in_qcow2(files.disk, data)
        driver.set_aside(guest, [], 0, move)
        new.receive_guest(guest, driver.offer_disks(guest), fetch, move)
        new.finish_move(guest, [], fetch, False)
        if there.disk_format != "qcow2" or _shown(there.disk, "qcow2", len(data), tmp_path) != data:
            odd[name] = "it came to the other host as something else"
        new.drop_received(guest, [], False, move)
        there.remove()
        driver.bring_back(guest, [], False, move)
    assert odd == {}


@pytest.mark.parametrize("rewritten", ["raw", "qcow2"], indirect=True)
def test_a_live_migration_prepares_a_disk_of_the_kind_and_size_that_it_was_made(made, rewritten, harmless):
    """Whatever the guest has written: what the destination makes is empty, of the noted format, and names no file but the base
    image of the server. libvirt's test driver can neither compare hosts nor copy: the plan is the test's, and what follows the
    preparation is the business of QEMU."""
    driver, guest, files, wishes = rewritten
    new, odd = made.start("two", libvirt__images_type="raw" if files.disk_format == "qcow2" else "qcow2",
                          libvirt__connection_uri=made.own_libvirt("two")), {}
    there, kind = made.files("two", guest), files.disk_format
    for name, data in _chosen(wishes).items():
        if kind == "raw":
            _write(files.disk, data)
        else:
            _in_qcow2(files.disk, data)
        driver.power_on(guest, [])
        told = driver.live.facts(guest)
        plan = Plan(block=True, host="two", disks=told.disks, source_root=told.root, power_state=told.power_state)
        new.live.prepare(guest, [], plan, driver.live.offer(guest, plan), fetching(harmless))
        header, size = images.qcow2_header(there.disk), there.disk.stat().st_size
        if kind == "raw" and (header is not None or _begin(there.disk, 4096).strip(b"\0") or size != 1 << 30):
            odd[name] = "the destination has made another disk"
        if kind == "qcow2" and (header is None or header.external_data or pathlib.Path(header.backing_name).name
                                != guest.image.id):
            odd[name] = f"the destination's disk stands on {header and header.backing_name}"
        new.live.give_up(guest, [], plan)
        driver.live.stay(guest, plan)
        driver.power_off(guest, 0)
    assert odd == {}


@pytest.mark.parametrize("rewritten", ["qcow2"], indirect=True)
def test_an_overlay_that_was_made_to_name_another_file_moves_nowhere(rewritten):
    """Its guest has taken over QEMU. Its host tells no other one of it, does not serve it, and does not start it at
    the end of the move."""
    driver, guest, files, wishes = rewritten
    good, aside, odd = files.disk.read_bytes(), files.path.with_name(f"{guest.uuid}_resize") / "disk", {}
    names = [name for name in _chosen(wishes) if name.startswith("qcow2")]
    for number, name in enumerate(names):
        move = f"{number:08d}{MOVE[8:]}"
        driver.power_on(guest, [])
        _write(files.disk, wishes[name])
        for disk, way in ((files.disk, lambda: driver.live.facts(guest)),
                          (files.disk, lambda: driver.set_aside(guest, [], 0, move)),     # noqa: B023
                          (aside, lambda: driver.offer_disks(guest)),
                          (aside, lambda: driver.bring_back(guest, [], True, move))):     # noqa: B023
            try:
                way()
                opened = disk == aside
            except (exception.NovaLiteError, OSError):
                opened = False
            if opened:
                odd[name] = "it was opened"
        driver.power_off(guest, 0)
        files.disk.write_bytes(good)
    assert odd == {}
