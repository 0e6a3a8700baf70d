"""Servers whose own disks are encrypted, on real QEMU guests: what a guest writes is in no file of the host."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception, keymgr
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import DISKS_KEY, Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import encryption
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost, started
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")

KEY = "5ec2e7" * 10 + "0f0e"
SPECS = {"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"}
FLAVOR = Flavor("1", "locked", 128, 1, 1, swap=16, ephemeral_gb=1, extra_specs=SPECS)
LARGER = Flavor("2", "larger", 128, 1, 2, swap=32, ephemeral_gb=2, extra_specs=SPECS)
# QEMU works for two seconds to make a disk, so a test has no more of them than it looks at
TWO_DISKS = dataclasses.replace(FLAVOR, swap=0)
ONE_DISK, ONE_LARGER = (dataclasses.replace(one, swap=0, ephemeral_gb=0) for one in (FLAVOR, LARGER))
MOVE = str(uuid.uuid4())
MARK = b"what-the-guest-wrote"      # put together by the guest, so that its script in the config drive does not hold it
WRITE = b"""#!/bin/sh
(mark=$(printf 'what-the-%s-wrote' guest)
mkdir -p /mnt
mount -t ext4 /dev/vdb /mnt && for n in 1 2 3 4; do echo $mark; done > /mnt/file && umount /mnt && echo "ephemeral is written"
blkid /dev/vdb
swapon /dev/vdc && swapoff /dev/vdc && echo "swap is swap"
echo $mark | dd of=/dev/vdc bs=512 seek=2048 conv=notrunc,fsync 2> /dev/null
for n in 1 2 3 4; do echo $mark; done > /root/file
sync
echo "all is written") > /dev/console 2>&1
"""


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-enc") as host:
        yield host


@pytest.fixture
def drivers(hypervisor, tmp_path):
    confs = {name: nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / name),
                                       libvirt__connection_uri=hypervisor.uri, key_manager__fixed_key=KEY,
                                       key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager")
             for name in ("one", "two")}
    with started(confs) as made:
        yield made


@pytest.fixture
def instance(drivers):
    image = ImageMeta(str(uuid.uuid4()))
    made = Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="locked", flavor=FLAVOR,
                    image_ref=image.id, image=image, config_drive=True, system_metadata={DISKS_KEY: keymgr.FIXED_KEY_ID})
    yield made
    for one in drivers:
        one.destroy(made, [])


@pytest.fixture
def empty(tmp_path):
    """An image that boots nowhere."""
    path = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "16M"], check=True)
    return lambda _image_id, target: shutil.copyfile(path, target)


def _files(user_data=b""):
    meta = f'{{"uuid": "{uuid.uuid4()}", "hostname": "guest"}}'.encode()
    return GuestFiles(metadata={"openstack/latest/meta_data.json": meta,
                                "openstack/latest/user_data": user_data})


def _tiny(_image_id, path):
    shutil.copyfile(tiny_image(), path)


def _directory(tmp_path, host, instance):
    return pathlib.Path(tmp_path, host, "instances", instance.uuid)


def _virsh(hypervisor, *arguments):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True, check=True).stdout


def _secrets(hypervisor):
    return _virsh(hypervisor, "secret-list").split()[::3]


class _Opened:
    """An encrypted disk as its guest sees it; it may be in use."""

    def __init__(self, tmp_path, path):
        self._secret = tmp_path / "key"
        self._secret.write_text(KEY)
        self._path, self._clear = path, tmp_path / "clear"

    @property
    def _options(self):
        return f"driver=qcow2,encrypt.key-secret=s,file.driver=file,file.locking=off,file.filename={self._path}"

    def read(self):
        """(its size, its bytes without what is a hole)."""
        self._run("qemu-img", "convert", "-U", "--image-opts", self._options, "-O", "raw", self._clear)
        try:
            with self._clear.open("rb") as stream:
                return os.fstat(stream.fileno()).st_size, b"".join(_extents(stream))
        finally:
            self._clear.unlink()

    def write(self, offset, byte):
        self._run("qemu-io", "--image-opts", "-c", f"write -P {byte} {offset} 64k", self._options)

    def _run(self, program, *words):
        verb, rest = ([words[0]], words[1:]) if program == "qemu-img" else ([], words)
        subprocess.run([program, *verb, "--object", f"secret,id=s,file={self._secret}", *rest], check=True, capture_output=True)


def _extents(stream):
    end, size = 0, os.fstat(stream.fileno()).st_size
    while end < size:
        try:
            begin = os.lseek(stream.fileno(), end, os.SEEK_DATA)
        except OSError:     # none is left
            return
        end = os.lseek(stream.fileno(), begin, os.SEEK_HOLE)
        yield os.pread(stream.fileno(), end - begin, begin)


def _plain_places(directory):
    """The files in which what the guest wrote, or the key, can be read."""
    found = []
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        data = subprocess.run(["grep", "-c", "-a", "-F", "-e", MARK.decode(), "-e", KEY, path], capture_output=True, text=True,
                              check=False)
        if data.returncode != 1:
            found.append(path.name)
    return found


def _logins(driver, instance):
    return driver.console_output(instance, None).count("login:")


def _boots(driver, instance):
    """The console log is of the last start."""
    wait_for("the login prompt", lambda: _logins(driver, instance), 600, 0.5)


@pytest.mark.long
def test_what_a_guest_writes_is_in_no_file_of_its_host(drivers, hypervisor, instance, tmp_path):
    driver, directory = drivers[0], _directory(tmp_path, "one", instance)
    driver.spawn(instance, [], _files(WRITE), _tiny)
    wait_for("the guest to write", lambda: "all is written" in driver.console_output(instance, None), 600, 0.5)
    console = driver.console_output(instance, None)
    assert "ephemeral is written" in console
    assert "ephemeral0" in console
    assert "swap is swap" in console
    secret = encryption.secret_uuid(instance, "disks")
    assert _secrets(hypervisor) == [secret]
    assert "ephemeral='yes' private='yes'" in _virsh(hypervisor, "secret-dumpxml", secret)
    for name in ("disk", "disk.eph0", "disk.swap"):
        assert MARK in _Opened(tmp_path, directory / name).read()[1], name
    assert _plain_places(directory) == []
    assert sorted(os.listdir(directory)) == ["console.log", "disk", "disk.config", "disk.eph0", "disk.swap", "guest.json"]
    for side in ((), ("--inactive",)):
        assert KEY not in _virsh(hypervisor, "dumpxml", "--security-info", instance.uuid, *side)
    with pytest.raises(exception.NotImplementedByDriver, match="encrypted"), driver.snapshot(instance):
        raise AssertionError("a copy in plain")

    volume = BlockDevice(id=str(uuid.uuid4()), source_type="volume", volume_id=str(uuid.uuid4()))
    path = tmp_path / "volume.raw"
    path.write_bytes(b"\0" * (1 << 20))
    info = {"driver_volume_type": "local", "data": {"device_path": str(path)}}
    volume.connection_info = driver.connect_volume(instance, volume, info)
    driver.attach_volume(instance, volume)
    assert _secrets(hypervisor) == [secret]
    driver.detach_volume(instance, volume)

    driver.pause(instance)
    driver.unpause(instance)
    driver.suspend(instance)
    assert _secrets(hypervisor) == []
    driver.resume(instance, [])
    assert _secrets(hypervisor) == [secret]
    driver.reboot(instance, [], hard=False, timeout=120)
    _boots(driver, instance)
    assert "all is written" not in driver.console_output(instance, None)     # it knows its disk
    assert _plain_places(directory) == []
    driver.power_off(instance, 0)
    assert _secrets(hypervisor) == []
    _virsh(hypervisor, "undefine", instance.uuid)       # as if libvirt had forgotten all
    driver.power_on(instance, [])
    _boots(driver, instance)
    driver.destroy(instance, [])
    assert _secrets(hypervisor) == []
    assert not directory.exists()


def test_a_rescue_is_encrypted_too(drivers, hypervisor, instance, tmp_path, empty):
    driver, directory = drivers[0], _directory(tmp_path, "one", instance)
    instance.flavor = ONE_DISK
    driver.spawn(instance, [], _files(), empty)
    _Opened(tmp_path, directory / "disk").write(1 << 20, ord("A"))
    for properties in ({}, {"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"}):
        image = ImageMeta(str(uuid.uuid4()), properties=properties)
        driver.rescue(instance, [], image, _files(), _tiny)
        _boots(driver, instance)
        driver.power_off(instance, 0)
        assert _secrets(hypervisor) == []
        _Opened(tmp_path, directory / "disk.rescue").write(1 << 20, ord("B"))
        assert b"B" * 4096 not in (directory / "disk.rescue").read_bytes()
        driver.unrescue(instance, [])
        assert not (directory / "disk.rescue").exists()
        assert driver.power_state(instance) == states.RUNNING
    assert b"A" * 65536 in _Opened(tmp_path, directory / "disk").read()[1]


def test_disks_move_and_grow_and_come_back(drivers, hypervisor, instance, tmp_path, empty):
    (old, new), there = drivers, _directory(tmp_path, "two", instance)
    old.spawn(instance, [], _files(), empty)
    old.power_off(instance, 0)
    before = _directory(tmp_path, "one", instance)
    for name, byte in (("disk", "A"), ("disk.eph0", "B")):
        _Opened(tmp_path, before / name).write(8 << 20, ord(byte))
    for _ in range(2):
        old.set_aside(instance, [], 0, MOVE)
    offer = old.offer_disks(instance)
    for _ in range(2):
        new.receive_guest(instance, offer, empty, MOVE)
    old.withdraw_disks(instance)
    resized = dataclasses.replace(instance, flavor=LARGER)
    for _ in range(2):
        new.finish_move(resized, [], empty, True)
    assert new.power_state(instance) == states.RUNNING
    assert _secrets(hypervisor) == [encryption.secret_uuid(instance, "disks")]
    for name, byte, size in (("disk", b"A", 2 << 30), ("disk.eph0", b"B", 2 << 30), ("disk.swap", b"", 32 << 20)):
        found, seen = _Opened(tmp_path, there / name).read()
        assert found == size
        assert byte * 65536 in seen
        assert not byte or byte * 4096 not in (there / name).read_bytes()
    assert b"SWAPSPACE2" in _Opened(tmp_path, there / "disk.swap").read()[1]
    info = subprocess.run(["qemu-img", "info", "-U", there / "disk"], check=True, capture_output=True, text=True).stdout
    assert f"backing file: {tmp_path}/two/instances/_base/{instance.image.id}" in info

    new.drop_received(instance, [], False, MOVE)
    for _ in range(2):
        old.bring_back(instance, [], True, MOVE)
    assert old.power_state(instance) == states.RUNNING
    size, seen = _Opened(tmp_path, before / "disk").read()
    assert size == 1 << 30
    assert b"A" * 65536 in seen


def test_a_resize_on_its_own_host(drivers, instance, tmp_path, empty):
    driver, directory = drivers[0], _directory(tmp_path, "one", instance)
    instance.flavor = ONE_DISK
    driver.spawn(instance, [], _files(), empty)
    driver.power_off(instance, 0)
    _Opened(tmp_path, directory / "disk").write(8 << 20, ord("A"))
    driver.set_aside(instance, [], 0, MOVE)
    driver.receive_guest(instance, None, empty, MOVE)
    driver.finish_move(dataclasses.replace(instance, flavor=ONE_LARGER), [], empty, True)
    assert driver.power_state(instance) == states.RUNNING
    size, seen = _Opened(tmp_path, directory / "disk").read()
    assert size == 2 << 30
    assert b"A" * 65536 in seen


@pytest.mark.parametrize("keeps", [False, True])
def test_a_rebuild_makes_new_disks(drivers, instance, tmp_path, empty, keeps):
    driver, directory = drivers[0], _directory(tmp_path, "one", instance)
    instance.flavor = TWO_DISKS
    driver.spawn(instance, [], _files(), empty)
    driver.power_off(instance, 0)
    for name in ("disk", "disk.eph0"):
        _Opened(tmp_path, directory / name).write(8 << 20, ord("A"))
    driver.clear(instance, [], keeps)
    instance.image = ImageMeta(str(uuid.uuid4()))
    driver.spawn(instance, [], _files(), empty)
    assert driver.power_state(instance) == states.RUNNING
    assert b"A" * 4096 not in _Opened(tmp_path, directory / "disk").read()[1]
    assert (b"A" * 65536 in _Opened(tmp_path, directory / "disk.eph0").read()[1]) == keeps


@pytest.fixture
def other_hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("other"), hostname="node-other") as host:
        yield host


def test_a_guest_that_runs_moves_where_its_disks_are_seen(hypervisor, other_hypervisor, instance, tmp_path, empty):
    """Two hosts with one directory, as on NFS."""
    made = []
    for name, one in (("a", hypervisor), ("b", other_hypervisor)):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "common"), my_ip="127.0.0.1",
                                   libvirt__connection_uri=one.uri, libvirt__live_migration_uri=one.uri,
                                   key_manager__fixed_key=KEY, key_manager__backend="x.ConfKeyManager")
        made.append(virt_driver.load(conf, name))
        made[-1].init_host(lambda *_: None)
    (here, there), secret = made, encryption.secret_uuid(instance, "disks")
    instance.host, instance.flavor = "a", ONE_DISK
    try:
        here.spawn(instance, [], _files(), empty)
        plan = there.live.check(instance, here.live.facts(instance), None, False)
        assert (plan.shared, plan.block) == (True, False)
        plan = there.live.prepare(instance, [], plan, here.live.offer(instance, plan), empty)
        assert (_secrets(hypervisor), _secrets(other_hypervisor)) == ([secret], [secret])
        there.live.give_up(instance, [], plan)
        assert (_secrets(hypervisor), _secrets(other_hypervisor)) == ([secret], [])
        here.live.stay(instance, plan)
        plan = there.live.check(instance, here.live.facts(instance), None, False)
        plan = there.live.prepare(instance, [], plan, here.live.offer(instance, plan), empty)
        here.live.copy(instance, plan, lambda _progress: None, lambda: True)
        assert there.live.arrive(instance, [], plan) == states.RUNNING
        here.live.leave(instance, [], plan)
        assert (_secrets(hypervisor), _secrets(other_hypervisor)) == ([], [secret])
        instance.host = "b"
        there.reboot(instance, [], hard=True, timeout=0)
        assert there.power_state(instance) == states.RUNNING
    finally:
        for one in made:
            one.destroy(instance, [])
            one.stop_host()
    assert (_secrets(hypervisor), _secrets(other_hypervisor)) == ([], [])


def test_without_its_key_nothing_is_made_and_nothing_starts(drivers, instance, tmp_path, empty, monkeypatch):
    driver = drivers[0]
    instance.flavor = ONE_DISK
    with pytest.raises(exception.BuildFailed, match="no key"):
        driver.spawn(dataclasses.replace(instance, system_metadata={}), [], _files(), empty)
    with pytest.raises(exception.BuildFailed, match="not in the key manager"):
        driver.spawn(dataclasses.replace(instance, system_metadata={DISKS_KEY: str(uuid.uuid4())}), [], _files(), empty)
    assert not _directory(tmp_path, "one", instance).exists()
    driver.spawn(instance, [], _files(), empty)
    driver.power_off(instance, 0)

    def away(_self, _key_id):
        raise exception.ServiceUnavailable(what="The key manager", reason="it is away")

    with monkeypatch.context() as patch:
        patch.setattr(keymgr.KeyManager, "passphrase", away)
        with pytest.raises(exception.ServiceUnavailable, match="key manager"):
            driver.power_on(instance, [])
    assert driver.power_state(instance) == states.SHUTDOWN
    driver.power_on(instance, [])
    assert driver.power_state(instance) == states.RUNNING


def test_a_passphrase_that_a_killed_process_has_left_goes(drivers, hypervisor, instance):
    """As of a build that was given to another host meanwhile: no guest of it is here."""
    driver = drivers[0]
    driver._volumes.unlock(instance)
    assert driver.left_behind() == {instance.uuid}
    driver.drop_left_behind(instance.uuid)
    assert driver.left_behind() == set()
    assert _virsh(hypervisor, "secret-list") == ""


def test_hosts_with_other_disks_do_not_offer_it(hypervisor, instance, tmp_path, empty):
    for number, options in enumerate(({"libvirt__images_type": "raw", "key_manager__fixed_key": KEY},
                                      {"key_manager__fixed_key": ""}, {"key_manager__fixed_key": KEY})):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / f"raw{number}"), **options,
                                   libvirt__connection_uri=hypervisor.uri, key_manager__backend="x.ConfKeyManager")
        driver = virt_driver.load(conf, "raw")
        driver.init_host(lambda *_: None)
        try:
            offered = {"COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"} & set(driver.inventory().traits)
            assert len(offered) == (2 if number == 2 else 0)
            if number == 0:
                with pytest.raises(exception.BuildFailed, match="images_type"):
                    driver.spawn(instance, [], _files(), empty)
        finally:
            driver.stop_host()
