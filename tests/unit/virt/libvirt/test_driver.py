"""The facade on libvirt's own test driver: what stays of a guest's files when its start fails."""
import contextlib
import dataclasses
import datetime
import os
import pathlib
import shutil
import signal
import struct
import subprocess

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.objects.guest_moves import Plan
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import images
from nova_lite.virt.libvirt.driver import LibvirtDriver
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest_record import State
from nova_lite.virt.libvirt.host import Host

from .builders import TCG, UUID, instance, vif, volume

pytest.importorskip("libvirt")


@pytest.fixture
def driver(tmp_path, monkeypatch):
    monkeypatch.setattr(Host, "_facts", lambda self, conf: TCG)     # libvirt's test driver cannot say what guests may have
    conf = nova_conf.load([], config_files=[], state_path=str(tmp_path), libvirt__connection_uri="test:///default")
    made = LibvirtDriver(conf, "h1")
    made.init_host(lambda uuid, state: None)
    yield made
    made.stop_host()


def _no_image(image_id, path):
    raise exception.ServiceUnavailable(what="Glance", reason="it does not answer")


def _bad_disk(driver, tmp_path):
    """[libvirt] images_type was raw, and the guest has written a header into its disk."""
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    secret = tmp_path / "secret"
    secret.write_bytes(b"root of the host\n" * 100)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, files.disk, "1M"], check=True)
    return files


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_a_disk_on_a_file_of_the_host_is_neither_started_nor_copied(driver, tmp_path):
    server, files = instance(host="h1"), _bad_disk(driver, tmp_path)
    with pytest.raises(OSError, match="secret, which is not a base image of this host"):
        driver.power_on(server, [])
    assert driver._guest(server).power_state() is None
    with pytest.raises(OSError, match="secret, which is not a base image of this host"), driver.snapshot(server):
        pass
    assert sorted(path.name for path in files.path.iterdir() if path.name != "binding.json") == ["disk"]


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
@pytest.mark.parametrize("name", ["/etc/passwd", "_base/x", "json:{}", "{bases}/../secret", "{bases}/\0/x", "{bases}/a\0", ""])
def test_what_a_header_may_not_say(driver, tmp_path, name):
    files = _bad_disk(driver, tmp_path)
    (files.path.parent / "_base").mkdir(exist_ok=True)
    name = name.replace("{bases}", str(files.path.parent / "_base")).encode()
    with open(files.disk, "r+b") as disk:
        disk.write(b"QFI\xfb" + struct.pack(">IQI", 3, 0x200, len(name)))
        disk.seek(0x200)
        disk.write(name)
    with pytest.raises(OSError, match="not a base image of this host"):
        images.base_of(files.disk, "qcow2", None)
    assert images.base_of(files.disk, "raw", None) is None
    with open(files.disk, "r+b") as disk:       # no backing file, but the data of another one
        disk.write(b"QFI\xfb" + struct.pack(">IQI", 3, 0, 0))
        disk.flush()
        assert images.base_of(files.disk, "qcow2", None) is None
        disk.seek(72)
        disk.write(struct.pack(">Q", images.EXTERNAL_DATA))
        disk.flush()
        with pytest.raises(OSError, match="in another file"):
            images.base_of(files.disk, "qcow2", None)


@pytest.mark.parametrize("launched", [True, False])
def test_a_start_that_fails_costs_a_server_that_ever_ran_no_disk(driver, tmp_path, launched):
    """A rebuild has kept its ephemeral disk; of a first build nothing stays."""
    server = instance(ephemeral_gb=1, host="h1", launched_at=datetime.datetime(2026, 2, 1) if launched else None)
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    for path in files.ephemerals:
        path.write_bytes(b"what the user has on it")
    with pytest.raises(exception.BuildFailed, match="Glance"):
        driver.spawn(server, [], GuestFiles([], None), _no_image)
    assert [path.exists() for path in files.ephemerals] == [launched] * len(files.ephemerals)
    driver.destroy(server, [])
    assert not files.path.exists()


@pytest.mark.parametrize(("properties", "reason"), [
    ({"hw_vif_model": "igb"}, "hw_vif_model=igb"), ({"hw_video_model": "gop"}, "hw_video_model=gop"),
    ({"hw_disk_bus": "fdc"}, "hw_disk_bus=fdc"), ({"hw_firmware_type": "uefi"}, "this host has no UEFI"), ({}, None)])
@pytest.mark.parametrize("devices", [[], [volume(boot_index=0)]])
def test_what_cannot_be_had_is_told_and_nothing_is_done(driver, monkeypatch, properties, reason, devices):
    """Before a rebuild throws the old guest away, and also while its root volume is just not connected."""
    facts = dataclasses.replace(TCG, uefi=False, graphics=("vnc",))
    monkeypatch.setattr(driver._host, "facts", facts)
    server = instance(properties=properties, host="h1", block_devices=devices, specs={"hw:numa_nodes": "1"})
    with pytest.raises(exception.NovaLiteError, match=reason) if reason else contextlib.nullcontext():
        driver.check_spawn(server, [vif()])
    assert not GuestDirectory(instances_root(driver._conf), UUID).path.exists()


@pytest.fixture
def nobodys(driver):
    """Files on shared storage, as an evacuation that has failed leaves them."""
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    files.disk.write_text("all that there is of the server")
    files.note(state=State.ADOPTED)
    return files


@pytest.mark.parametrize("ended", [{"host": "h1", "task_state": "deleting"}, {"host": "h1", "deleted": 1},
                                   {"host": "h2", "deleted": 1}])
def test_what_a_failed_evacuation_has_left_goes_with_its_server_and_not_before(driver, nobodys, ended):
    driver.destroy(instance(host="h1", task_state="rebuild_spawning"), [])      # as another one that fails does
    assert nobodys.disk.exists()
    driver.destroy(instance(**ended), [])
    assert not nobodys.path.exists()


def test_a_rebuild_does_not_go_on_with_the_disk_that_a_failed_evacuation_has_left(driver, nobodys):
    driver.clear(instance(host="h1"), [], False)
    assert not nobodys.disk.exists()


def test_a_guest_that_starts_where_it_was_has_its_files_again(driver, nobodys):
    driver.power_on(instance(host="h1"), [])
    driver.destroy(instance(host="h1"), [])
    assert not nobodys.path.exists()


def test_a_host_that_is_upgraded_knows_what_the_older_version_has_left(tmp_path, driver):
    """A guest, one that a move has set aside, and what a build has left."""
    guests = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(3)]
    marks = [("", {"owner": "h1\n\nraw\n-"}), ("_resize", {"owner": "h1", "moved-from": f"h1\n{UUID}"}),
             ("", {"owner": "h1", "moved-to": "h1\nnew"})]
    root = instances_root(driver._conf)
    made = [GuestDirectory(root, guest + suffix) for guest, (suffix, _) in zip(guests, marks, strict=True)]
    for files, (_, said) in zip(made, marks, strict=True):
        files.make()
        for name, text in said.items():
            (files.path / name).write_text(text)
    upgraded = LibvirtDriver(driver._conf, "h1")
    upgraded.init_host(lambda uuid, state: None)
    assert upgraded.left_behind() == set(guests[1:])
    assert upgraded.has_aside(instance(uuid=guests[1]), UUID)
    assert (made[0].disk_format, made[0].base) == ("raw", "")
    assert [[path.name for path in files.path.iterdir()] for files in made] == [["guest.json"]] * 3
    upgraded.destroy(instance(uuid=guests[0], host="h1"), [])
    for guest in guests[1:]:
        upgraded.drop_left_behind(guest)
    assert not any(files.path.exists() for files in made)
    upgraded.stop_host()


def test_a_guest_whose_record_cannot_be_read_does_not_start_and_holds_up_no_other(driver):
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    files.disk.write_bytes(b"data")
    files.record_file.write_text('{"version": 1, "host": "h1" "state": "here"}')      # by hand
    again = LibvirtDriver(driver._conf, "h1")
    again.init_host(lambda uuid, state: None)
    assert again.inventory().local_gb > 0
    assert again.left_behind() == set()
    for operation in (lambda: again.power_on(instance(host="h1"), []), lambda: again.destroy(instance(host="h1"), [])):
        with pytest.raises(OSError, match=f"{UUID}/guest.json: "):
            operation()
    assert files.disk.read_bytes() == b"data"
    again.stop_host()


class Killed(BaseException):
    """The process ends here."""


def _kill(*_args, **_named):
    raise Killed


@pytest.mark.parametrize("next_look", [True, False])
def test_an_orphaned_copy_whose_removal_is_cut_off_is_no_later_guest_s_disk(driver, monkeypatch, next_look):
    """The domain is gone by then, so that nothing but the directory tells of it."""
    server, files = instance(host="h2"), GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    files.note(host="h1", state=State.HERE)
    files.disk.write_bytes(b"old")

    with monkeypatch.context() as patched:
        patched.setattr(GuestDirectory, "remove", _kill)
        with pytest.raises(Killed):
            driver.destroy(server, [])
    assert (files.disk.exists(), UUID in driver.power_states(), driver.left_behind()) == (True, False, {UUID})
    if next_look:
        driver.drop_left_behind(UUID)
        assert not files.path.exists()
    else:
        with pytest.raises(exception.NovaLiteError, match="Glance"):     # it asks for the disk's image
            driver.spawn(instance(host="h1"), [], GuestFiles([], None), _no_image)
        assert not files.disk.exists()


@pytest.fixture
def offered(driver):
    """The directory of a guest whose config drive is served, as on the source of a live migration; what the process that serves
    it was called with (empty: it has ended)."""
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    files.note(host="h1", state=State.LEAVING)
    for path in files.ephemerals[:2]:
        path.write_bytes(b"what the user has on it")
    files.config_drive.write_bytes(b"password")
    driver.live.offer(instance(host="h1"), Plan())
    pid = int((files.path / "offer.pid").read_text())

    def command():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        return ""
    assert "disk.config" in command()
    yield files, command
    if "disk.config" in command():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-storage-daemon is not installed")
@pytest.mark.parametrize("how", ["deleted", "left behind", "deleted over a kill", "built anew", "set aside"])
def test_nobody_serves_the_config_drive_of_a_guest_whose_directory_is_gone(driver, offered, monkeypatch, how):
    """Its live migration was to withdraw it, and came to nothing."""
    (files, command), server = offered, instance(host="h1")
    if how == "deleted over a kill":
        with monkeypatch.context() as patched:
            patched.setattr(driver._disks, "remove", _kill)
            with pytest.raises(Killed):
                driver.destroy(server, [])
    if how == "built anew":
        driver.clear(server, [], True)
        assert sorted(path.name for path in files.path.iterdir()) == ["disk.eph0", "disk.eph1", "guest.json"]
    elif how == "set aside":
        driver.set_aside(server, [], 0, "a move")
        driver.drop_aside(server)
    elif how == "deleted":
        driver.destroy(server, [])
    else:
        driver.drop_left_behind(UUID)
    assert files.path.exists() == (how == "built anew")
    assert not command()
