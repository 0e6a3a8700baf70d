"""The libvirt driver with disks in a real Ceph pool: two drivers, two hosts to the pool, on one private libvirtd.

Guests of most tests have an empty root disk with a pattern in it; one boots the tiny guest.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pytest
from lxml import etree

import nova_lite.conf
from nova_lite import exception, retry
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import rbd
from tests.ceph.conftest import POOL
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support.process import wait_for

OLD, NEW = Flavor("1", "old", 96, 1, 1, swap=1, ephemeral_gb=1), Flavor("2", "new", 128, 1, 2, swap=2, ephemeral_gb=2)
MOVE = str(uuid.uuid4())
FILES = GuestFiles(metadata={"openstack/latest/meta_data.json": b"{}"})
OWN = ["disk", "disk.eph0", "disk.swap"]


@pytest.fixture(scope="module")
def hypervisor(ceph, tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-rbd") as host:
        yield host


@pytest.fixture(scope="module")
def options(ceph, hypervisor):
    return {"libvirt__connection_uri": hypervisor.uri, "libvirt__images_type": "rbd", "libvirt__images_rbd_pool": POOL,
            "libvirt__images_rbd_ceph_conf": str(ceph.conf), "libvirt__rbd_user": "nova",
            "libvirt__rbd_secret_uuid": ceph.give_key(hypervisor.uri, ceph.key)}


@pytest.fixture
def drivers(ceph, options, tmp_path):
    made = []
    for name in ("one", "two"):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / name), **options)
        made.append(virt_driver.load(conf, name))
        made[-1].init_host(lambda *_: None)
    yield made
    for one in made:
        one.stop_host()
    for image in ceph.images(POOL):     # what a failed test has left
        ceph.remove(POOL, image)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.qcow2"
    _qemu("qemu-img", "create", "-q", "-f", "qcow2", path, "16M")
    _qemu("qemu-io", "-f", "qcow2", "-c", "write -P 5 3M 64k", path)
    return path


@pytest.fixture
def fetch(image):
    return lambda _image_id, path: shutil.copyfile(image, path)


def _instance(**values):
    meta = ImageMeta(str(uuid.uuid4()))
    return Instance(**{"uuid": str(uuid.uuid4()), "id": 1, "project_id": "p", "user_id": "u", "display_name": "mover",
                       "flavor": OLD, "image_ref": meta.id, "image": meta, "config_drive": True, "host": "one", **values})


@pytest.fixture
def instance(ceph, drivers, fetch):
    """One that is off, with a pattern in its disks."""
    made = _instance()
    drivers[0].spawn(made, [], FILES, fetch)
    drivers[0].power_off(made, 0)
    made.launched_at = "2026-01-01T00:00:00"
    for name in ("disk", "disk.eph0"):
        _write(ceph, made, name, 7)
    yield made
    for one in drivers:
        one.destroy(made, [])


def _qemu(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _options(ceph, instance, name):
    return f"driver=rbd,pool={POOL},image={instance.uuid}_{name},conf={ceph.conf}"


def _write(ceph, instance, name, pattern):
    _qemu("qemu-io", "--image-opts", "-c", f"write -P {pattern} 1M 1M", _options(ceph, instance, name))


def _has(ceph, instance, name, pattern, place="1M 1M"):
    command = ["qemu-io", "-r", "--image-opts", "-c", f"read -P {pattern} {place}", _options(ceph, instance, name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "read " in done.stdout, done.stderr
    return "verification failed" not in done.stdout


def _sizes(ceph):
    return {name.partition("_")[2]: ceph.json("rbd", "info", f"{POOL}/{name}")["size"] for name in ceph.images(POOL)}


def _owners(ceph):
    notes = {name: ceph.json("rbd", "image-meta", "list", f"{POOL}/{name}") for name in ceph.images(POOL)}
    return {name.partition("_")[2]: json.loads(some["nova_lite.guest"]).get("host", "-") for name, some in notes.items()}


def _snapshots(ceph):
    return [found["name"] for name in ceph.images(POOL) for found in ceph.json("rbd", "snap", "ls", f"{POOL}/{name}")]


def _resized(instance):
    return dataclasses.replace(instance, flavor=NEW)


def _local(tmp_path, host, instance, aside=""):
    path = pathlib.Path(tmp_path, host, "instances", instance.uuid + aside)
    return sorted(p.name for p in path.iterdir()) if path.exists() else None


def _go(old, new, instance, fetch, power_on=False):
    """Every step twice, as after a crash of each daemon."""
    for _ in range(2):
        old.set_aside(instance, [], 0, MOVE)
    offer = None
    if old is not new:
        offer = old.offer_disks(instance)
        assert old.offer_disks(instance) == offer
    for _ in range(2):
        new.receive_guest(instance, offer, fetch, MOVE)
    if old is not new:
        old.withdraw_disks(instance)
    for _ in range(2):
        new.finish_move(_resized(instance), [], fetch, power_on)


def _check_clean(ceph, drivers, hypervisor):
    assert ceph.images(POOL) == []
    assert _qemu("virsh", "-q", "-c", hypervisor.uri, "list", "--all", "--uuid").split() == []
    assert all(one.left_behind() == set() for one in drivers)


# builds -----------------------------------------------------------------------------------------------------------------
def test_what_the_host_offers_is_the_pools(ceph, drivers):
    inventory = drivers[0].inventory()
    assert 5 <= inventory.free_disk_gb <= inventory.local_gb <= 12
    assert inventory.disk_available_least == inventory.free_disk_gb


def test_a_guest_boots_lives_and_goes(ceph, drivers, hypervisor, tmp_path):
    one, image = drivers[0], tiny_image()
    guest = _instance(flavor=dataclasses.replace(OLD, memory_mb=128))

    def boot():
        return wait_for("the login prompt", lambda: "login:" in one.console_output(guest, None), 300, 0.5)

    one.spawn(guest, [], FILES, lambda _i, path: shutil.copyfile(image, path))
    boot()
    assert _sizes(ceph) == {"disk": 1 << 30, "disk.eph0": 1 << 30, "disk.swap": 1 << 20}
    assert _owners(ceph) == dict.fromkeys(OWN, "one")
    assert _local(tmp_path, "one", guest) == ["console.log", "disk.config", "guest.json"]
    xml = etree.fromstring(_qemu("virsh", "-c", hypervisor.uri, "dumpxml", guest.uuid))
    assert xml.xpath("devices/disk/source/@name") == [f"{POOL}/{guest.uuid}_{name}" for name in OWN]
    assert xml.xpath("devices/disk/source/auth/@username | devices/disk/auth/@username") == ["nova"] * 3
    assert ceph.key not in subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert {m["state"] for m in _disks_of_guest(hypervisor, guest)} == {"ok"}
    one.reboot(guest, [], hard=True, timeout=0)
    boot()
    one.power_off(guest, 300)
    assert one.power_state(guest) == states.SHUTDOWN
    one.power_on(guest, [])
    boot()
    for _ in range(2):
        one.destroy(guest, [])
    assert _local(tmp_path, "one", guest) is None
    _check_clean(ceph, drivers, hypervisor)


def _disks_of_guest(hypervisor, guest):
    """Whether QEMU could read and write them."""
    errors = _qemu("virsh", "-q", "-c", hypervisor.uri, "domblkerror", guest.uuid)
    return [{"state": "ok" if "No errors" in errors else errors}]


def test_a_failed_build_leaves_nothing(ceph, drivers, hypervisor, fetch, tmp_path):
    def fail():
        raise exception.BuildAborted(instance_id="i", reason="the port is not wired")
    guest = _instance()
    with pytest.raises(exception.BuildAborted, match="not wired"):
        drivers[0].spawn(guest, [], FILES, fetch, fail)
    assert _local(tmp_path, "one", guest) is None
    _check_clean(ceph, drivers, hypervisor)


_KILLED = """
import json, shutil, sys, time
import nova_lite.conf
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver
options, image, record = sys.argv[1:]
conf = nova_lite.conf.load([], config_files=[], **json.loads(options))
d = driver.load(conf, "one")
d.init_host(lambda *a: None)
print("go", flush=True)
d.spawn(Instance.from_primitive(json.loads(record)), [], driver.GuestFiles(metadata={"a": b"1"}),
        lambda _id, path: shutil.copyfile(image, path))
time.sleep(60)
"""


@pytest.mark.parametrize("delay", [0.2, 0.5, 0.8, 1.1, 1.4, 1.7, 2.0, 2.5])
def test_a_build_that_was_killed_is_completed_or_removed(ceph, drivers, hypervisor, fetch, image, options, tmp_path, delay):
    guest = _instance()
    said = {**options, "state_path": str(tmp_path / "one")}
    process = subprocess.Popen([sys.executable, "-c", _KILLED, json.dumps(said), str(image), json.dumps(guest.to_primitive())],
                               stdout=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, "NOVA_LITE_CONCURRENCY": "threading"})
    try:
        assert process.stdout.readline() == "go\n"
        time.sleep(delay)
    finally:
        os.killpg(process.pid, signal.SIGKILL)      # with the programs that it has started
        process.wait()
    if int(delay * 10) % 2:
        drivers[0].spawn(guest, [], FILES, fetch)
        assert drivers[0].power_state(guest) == states.RUNNING
        assert _owners(ceph) == dict.fromkeys(OWN, "one")
        assert _has(ceph, guest, "disk", 5, "3M 64k")
        drivers[0].destroy(guest, [])
    elif drivers[0].power_state(guest) is None:
        drivers[0].drop_left_behind(guest.uuid)
    else:
        drivers[0].destroy(guest, [])
    assert _local(tmp_path, "one", guest) is None
    _check_clean(ceph, drivers, hypervisor)


def test_a_rename_over_which_the_daemon_died_is_done(ceph):
    """``rbd rename`` writes the object of the new name before the list of the pool."""
    pool = rbd.Pool(POOL, str(ceph.conf), "nova")
    for name in ("half.part", "other"):
        pool.create(name, 1 << 20)
    ceph.run("rados", "--pool", POOL, "cp", "rbd_id.half.part", "rbd_id.half")
    pool.remove("half.part")
    pool.create("half.part", 2 << 20)
    try:
        pool.rename("half.part", "half")
        assert (ceph.images(POOL), pool.size("half")) == (["half", "other"], 2 << 20)
        with pytest.raises(exception.VirtDriverError, match="already exists"):
            pool.rename("half", "other")
    finally:
        for name in ceph.images(POOL):
            pool.remove(name)


def test_a_removal_over_which_the_daemon_dies_is_finished(ceph, drivers, hypervisor, instance, monkeypatch):
    """The server may be deleted by others meanwhile: no guest and no action leads to what is left."""
    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed
    with monkeypatch.context() as patch:
        patch.setattr(rbd.Pool, "remove", kill)
        with pytest.raises(Killed):
            drivers[0].destroy(instance, [])
    assert drivers[0].power_states() == {}
    assert drivers[0].left_behind() == {instance.uuid}
    drivers[0].drop_left_behind(instance.uuid)
    _check_clean(ceph, drivers, hypervisor)


def test_what_a_killed_program_has_made_only_half_is_no_hindrance(ceph, drivers, hypervisor, instance, fetch, tmp_path):
    """The pool lists the image, and it cannot be opened."""
    half = f"{instance.uuid}_disk.part"
    ceph.run("rbd", "create", "--size", "1M", f"{POOL}/{half}")
    number = ceph.json("rbd", "info", f"{POOL}/{half}")["id"]
    ceph.run("rados", "-p", POOL, "rm", f"rbd_header.{number}")
    drivers[0].clear(instance, [], False)
    assert ceph.images(POOL) == []
    ceph.run("rbd", "create", "--size", "1M", f"{POOL}/{half}")
    number = ceph.json("rbd", "info", f"{POOL}/{half}")["id"]
    ceph.run("rados", "-p", POOL, "rm", f"rbd_header.{number}")
    drivers[0].spawn(instance, [], FILES, fetch)
    assert _owners(ceph) == dict.fromkeys(OWN, "one")


def test_a_guest_whose_qemu_was_killed_can_be_deleted(ceph, drivers, hypervisor, instance):
    """Ceph takes half a minute to see that nobody has the images open."""
    drivers[0].power_on(instance, [])
    [pid] = _qemu("pgrep", "-f", f"qemu-system.*-uuid {instance.uuid}").split()
    os.kill(int(pid), signal.SIGKILL)
    drivers[0].destroy(instance, [])
    _check_clean(ceph, drivers, hypervisor)


def test_the_option_wants_what_it_needs(options, tmp_path):
    no_secret, no_pool = {"libvirt__rbd_secret_uuid": ""}, {"libvirt__images_rbd_pool": "nowhere"}
    for wrong, reason in ((no_secret, "go together"), (no_pool, "nowhere")):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), **{**options, **wrong})
        made = virt_driver.load(conf, "one")
        with pytest.raises((exception.ConfigError, exception.VirtDriverError), match=reason):
            made.init_host(lambda *_: None)
        made.stop_host()


# moves ------------------------------------------------------------------------------------------------------------------
def test_a_guest_grows_and_runs_on_another_host_and_its_disks_stay(ceph, drivers, hypervisor, instance, fetch, tmp_path):
    old, new = drivers
    _go(old, new, instance, fetch, power_on=True)
    assert new.power_state(instance) == states.RUNNING
    assert _sizes(ceph) == {"disk": 2 << 30, "disk.eph0": 2 << 30, "disk.swap": 2 << 20}
    assert _owners(ceph) == dict.fromkeys(OWN, "two")
    assert _local(tmp_path, "two", instance) == ["console.log", "disk.config", "guest.json"]
    assert (old.left_behind(), new.left_behind()) == ({instance.uuid}, set())
    for _ in range(2):
        old.drop_aside(instance)
    old.destroy(instance, [])       # late
    assert _snapshots(ceph) == []
    assert _owners(ceph) == dict.fromkeys(OWN, "two")
    new.power_off(instance, 0)
    assert _has(ceph, instance, "disk", 7)
    assert _has(ceph, instance, "disk.eph0", 7)
    new.destroy(instance, [])
    assert ceph.images(POOL) == []


@pytest.mark.parametrize("same", [False, True])
def test_the_way_back(ceph, drivers, hypervisor, instance, fetch, tmp_path, same):
    old, new = drivers[0], drivers[0 if same else 1]
    _go(old, new, instance, fetch)
    _write(ceph, instance, "disk", 9)
    for _ in range(2):
        new.drop_received(instance, [], same, MOVE)
    assert _owners(ceph) == dict.fromkeys(OWN, "one")
    for _ in range(2):
        old.bring_back(instance, [], True, MOVE)
    assert old.power_state(instance) == states.RUNNING
    assert _sizes(ceph) == {"disk": 1 << 30, "disk.eph0": 1 << 30, "disk.swap": 1 << 20}
    assert _snapshots(ceph) == []
    old.power_off(instance, 0)
    assert _has(ceph, instance, "disk", 7)
    assert _has(ceph, instance, "disk.eph0", 7)
    assert _local(tmp_path, "two", instance) is None
    assert (old.left_behind(), new.left_behind()) == (set(), set())


def test_a_resize_on_its_own_host(ceph, drivers, instance, fetch):
    one = drivers[0]
    _go(one, one, instance, fetch)
    one.drop_aside(instance)
    assert _sizes(ceph)["disk"] == 2 << 30
    assert _owners(ceph) == dict.fromkeys(OWN, "one")
    assert _snapshots(ceph) == []
    assert _has(ceph, instance, "disk", 7)
    one.power_on(instance, [])
    assert one.power_state(instance) == states.RUNNING


def test_no_host_starts_what_is_another_hosts(ceph, drivers, instance, fetch):
    old, new = drivers
    _go(old, new, instance, fetch)
    for step in (lambda: old.power_on(instance, []), lambda: old.reboot(instance, [], True, 0)):
        with pytest.raises(exception.VirtDriverError, match="of host two"):
            step()
    assert _has(ceph, instance, "disk", 7)


def test_a_host_with_files_refuses_what_is_in_a_pool(ceph, drivers, instance, fetch, options, tmp_path):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "files"), **{**options,
                                                                                         "libvirt__images_type": "qcow2"})
    of_files = virt_driver.load(conf, "files")
    of_files.init_host(lambda *_: None)
    try:
        drivers[0].set_aside(instance, [], 0, MOVE)
        with pytest.raises(exception.ResizeError, match="its disks are rbd:.*those of files are files"):
            of_files.receive_guest(instance, drivers[0].offer_disks(instance), fetch, MOVE)
        of_files.drop_received(instance, [], False, MOVE)
        drivers[0].bring_back(instance, [], True, MOVE)
        facts = drivers[0].live.facts(instance)
        instance.uuid, kept = str(uuid.uuid4()), instance.uuid     # on the one libvirtd it is there already
        with pytest.raises(exception.MigrationPreCheckError, match="rbd"):
            of_files.live.check(instance, facts, None, False)
        instance.uuid = kept
    finally:
        of_files.stop_host()
    assert _has(ceph, instance, "disk", 7)


# the rest ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("runs", [False, True])
def test_a_copy_of_the_disk(ceph, drivers, instance, tmp_path, runs):
    one = drivers[0]
    if runs:
        one.power_on(instance, [])
    ceph.run("rbd", "snap", "create", f"{POOL}/{instance.uuid}_disk@nova_lite_copy")      # of a run that was killed
    with one.snapshot(instance) as copy:
        assert copy.disk_format == "qcow2"
        for pattern, place in ((7, "1M 1M"), (5, "3M 64k"), (0, "4M 1M")):
            assert "failed" not in _qemu("qemu-io", "-f", "qcow2", "-c", f"read -P {pattern} {place}", copy.path)
        assert json.loads(_qemu("qemu-img", "info", "--output=json", copy.path))["virtual-size"] == 1 << 30
    assert not os.path.exists(copy.path)
    assert _snapshots(ceph) == []
    assert one.power_state(instance) == (states.RUNNING if runs else states.SHUTDOWN)


def test_a_rescue_and_its_end(ceph, drivers, hypervisor, instance, fetch):
    one, image = drivers[0], ImageMeta(str(uuid.uuid4()))
    for _ in range(2):
        one.rescue(instance, [], image, FILES, fetch)
    assert _owners(ceph) == dict.fromkeys(["disk", "disk.eph0", "disk.rescue", "disk.swap"], "one")
    xml = etree.fromstring(_qemu("virsh", "-c", hypervisor.uri, "dumpxml", instance.uuid))
    assert xml.xpath("devices/disk[@device='disk']/source/@name") == [
        f"{POOL}/{instance.uuid}_{name}" for name in ("disk.rescue", "disk")]
    one.power_off(instance, 0)
    one.rescue(instance, [], ImageMeta(str(uuid.uuid4())), FILES, fetch)      # another image
    for _ in range(2):
        one.unrescue(instance, [])
    assert _owners(ceph) == dict.fromkeys(OWN, "one")
    assert one.power_state(instance) == states.RUNNING


@pytest.mark.parametrize("keep", [False, True])
def test_a_rebuild(ceph, drivers, instance, fetch, keep):
    one = drivers[0]
    for _ in range(2):
        one.clear(instance, [], keep)
    assert list(_owners(ceph)) == (["disk.eph0"] if keep else [])
    one.spawn(instance, [], FILES, fetch)
    one.power_off(instance, 0)
    assert _has(ceph, instance, "disk", 0)
    assert _has(ceph, instance, "disk", 5, "3M 64k")
    assert _has(ceph, instance, "disk.eph0", 7) == keep
    assert _owners(ceph) == dict.fromkeys(OWN, "one")


def test_an_evacuation_waits_for_the_end_of_the_old_guest(ceph, drivers, hypervisor, instance, fetch, monkeypatch):
    """Its host is thought to be dead, and is not: on files of shared storage, QEMU's locks would say so."""
    monkeypatch.setattr(rbd, "WHILE_BUSY", retry.every(1.0, timeout=3.0))
    with subprocess.Popen(["qemu-io", "--image-opts", _options(ceph, instance, "disk")], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL) as other:
        time.sleep(2)
        drivers[1].live.adopt(instance)
        with pytest.raises(exception.BuildFailed, match="still in use by"):
            drivers[1].spawn(dataclasses.replace(instance, host="two"), [], FILES, fetch)
        other.communicate(b"quit\n")
    drivers[0].power_on(instance, [])
    assert _owners(ceph) == dict.fromkeys(OWN, "one")


def test_an_evacuation(ceph, drivers, hypervisor, instance, fetch):
    old, new = drivers
    _qemu("virsh", "-q", "-c", hypervisor.uri, "undefine", instance.uuid)       # its host is dead
    here = dataclasses.replace(instance, host="two")
    new.live.adopt(instance)
    new.spawn(here, [], FILES, fetch)
    new.live.adopt(instance)        # it fails late
    new.destroy(here, [])
    assert _owners(ceph) == dict.fromkeys(OWN, "-")
    new.live.adopt(instance)
    new.spawn(here, [], FILES, fetch)
    new.power_off(here, 0)
    assert _has(ceph, instance, "disk", 7)
    old.destroy(instance, [])       # it is back, and told to remove its guest
    assert _owners(ceph) == dict.fromkeys(OWN, "-")
    new.live.adopted(here)
    old.destroy(instance, [])
    assert _has(ceph, instance, "disk", 7)
    new.destroy(here, [])
    assert ceph.images(POOL) == []
