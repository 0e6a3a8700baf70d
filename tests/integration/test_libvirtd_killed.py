"""kill -9 of libvirtd in the middle of what the driver does. QEMU's processes go on, and each operation comes to its end:
whether the call had not come to libvirtd, was under way, or was done and only its answer was lost."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import threading
import uuid

import libvirt
import pytest

import nova_lite.conf
from nova_lite import keymgr
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from tests.libvirt_host import LibvirtHost, kill_libvirtd
from tests.support.process import wait_for

ENCRYPTED = {"encrypted": True, "encryption": {"provider": "luks", "encryption_key_id": keymgr.FIXED_KEY_ID,
                                               "cipher": "aes-xts-plain64", "key_size": 256}}
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")]


@pytest.fixture(scope="module")
def hypervisor(passable):
    with LibvirtHost(passable / "libvirt", hostname="node-virt") as host:
        yield host


@pytest.fixture(scope="module")
def driver(hypervisor, passable):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(passable / "state"), libvirt__connection_uri=hypervisor.uri,
                               key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager",
                               key_manager__fixed_key="5ec2e7" * 10 + "0f0e")
    made = virt_driver.load(conf, "node-virt")
    made.init_host(lambda _uuid, _state: None)
    yield made
    made.stop_host()


def _instance():
    image = ImageMeta(str(uuid.uuid4()))
    return Instance(uuid=str(uuid.uuid4()), id=uuid.uuid4().int % 100_000, project_id="p", user_id="u", display_name="one",
                    flavor=Flavor("1", "tiny", 96, 1, 1), image_ref=image.id, image=image, host="node-virt")


@pytest.fixture
def instance(driver):
    made = _instance()
    yield made
    driver.destroy(made, [])


@pytest.fixture(scope="module")
def kept(driver):
    made = _instance()
    yield made
    driver.destroy(made, [])


@pytest.fixture
def guest(driver, kept):
    """One that runs, without volumes; the same for all tests that leave it so."""
    _spawn(driver, kept)
    yield kept
    if kept.block_devices:
        driver.power_off(kept, 0)
        kept.block_devices = []
        driver.power_on(kept, [])


def _fetch(_image_id, path):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "16M"], check=True)


def _spawn(driver, instance):
    driver.spawn(instance, [], GuestFiles(), _fetch)


def _connected(driver, instance, directory, device, encrypted=False):
    """A volume of 8 MiB that its host has."""
    path = directory / f"{uuid.uuid4()}.raw"
    path.write_bytes(b"\0" * (8 << 20))
    path.chmod(0o666)
    info = {"driver_volume_type": "local", "data": {"device_path": str(path), **(ENCRYPTED if encrypted else {})}}
    device.connection_info = driver.connect_volume(instance, device, info)
    instance.block_devices = [device]
    return device


def _device():
    return BlockDevice(id=str(uuid.uuid4()), source_type="volume", volume_id=str(uuid.uuid4()), size=1)


def _virsh(hypervisor, *arguments):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True,
                          check=False).stdout.strip()


def _both_sides(hypervisor, instance):
    return [_virsh(hypervisor, "dumpxml", instance.uuid, *side) for side in ((), ("--inactive",))]


@contextlib.contextmanager
def killed(monkeypatch, hypervisor, owner, name, when):
    """libvirtd is killed over the first call of a function of libvirt, and started again a moment later."""
    original, began, back = getattr(owner, name), [], []

    def kill():
        kill_libvirtd(hypervisor.daemon)
        wait_for("its end", lambda: hypervisor.daemon.pid("libvirtd") is None, 10, 0.01)
        timer = threading.Timer(0.2, hypervisor.daemon.start)
        timer.start()
        back.append(timer)

    def call(self, *arguments, **options):
        if began:
            return original(self, *arguments, **options)
        began.append(name)
        if when == "during":
            threading.Timer(0.03, kill).start()
            try:
                return original(self, *arguments, **options)
            finally:
                wait_for("the kill", lambda: back, 10, 0.01)
        if when == "after":
            original(self, *arguments, **options)
        kill()
        return original(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, call)
        yield
    assert began
    for timer in back:
        timer.join()


BEGINS = {"on": lambda _driver, _guest: None, "off": lambda driver, guest: driver.power_off(guest, 0),
          "paused": lambda driver, guest: driver.pause(guest), "suspended": lambda driver, guest: driver.suspend(guest)}
OPERATIONS = {
    "power off": ("destroy", "on", lambda driver, guest: driver.power_off(guest, 0), states.SHUTDOWN),
    "power on": ("createWithFlags", "off", lambda driver, guest: driver.power_on(guest, []), states.RUNNING),
    "reboot": ("destroy", "on", lambda driver, guest: driver.reboot(guest, [], True, 0), states.RUNNING),
    "pause": ("suspend", "on", lambda driver, guest: driver.pause(guest), states.POWER_PAUSED),
    "unpause": ("resume", "paused", lambda driver, guest: driver.unpause(guest), states.RUNNING),
    "suspend": ("managedSave", "on", lambda driver, guest: driver.suspend(guest), states.SHUTDOWN),
    "resume": ("createWithFlags", "suspended", lambda driver, guest: driver.resume(guest, []), states.RUNNING),
}
"""What -> the function of libvirt over which it is killed, how the guest was before, what is done, the state that follows."""


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_done_all_the_same(driver, hypervisor, monkeypatch, guest, name, when):
    function, begins, operate, ends = OPERATIONS[name]
    BEGINS[begins](driver, guest)
    with killed(monkeypatch, hypervisor, libvirt.virDomain, function, when):
        operate(driver, guest)
    assert driver.power_state(guest) == ends
    saved = _virsh(hypervisor, "list", "--all", "--with-managed-save", "--uuid")
    assert saved == (guest.uuid if name == "suspend" else "")
    if name != "suspend":
        driver.power_on(guest, [])
        driver.unpause(guest)
    else:
        driver.resume(guest, [])


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize(("owner", "function"), [
    (libvirt.virConnect, "defineXML"), (libvirt.virDomain, "createWithFlags"), (libvirt.virDomain, "resume")])
def test_a_guest_is_built_all_the_same(driver, hypervisor, monkeypatch, instance, owner, function, when):
    with killed(monkeypatch, hypervisor, owner, function, when):
        _spawn(driver, instance)
    assert driver.power_state(instance) == states.RUNNING


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_guest_is_removed_all_the_same(driver, hypervisor, monkeypatch, instance, when):
    _spawn(driver, instance)
    with killed(monkeypatch, hypervisor, libvirt.virDomain, "undefineFlags", when):
        driver.destroy(instance, [])
    assert driver.power_state(instance) is None


# libvirt 9 that is killed during backupBegin may keep a job for the guest that has no end until the guest is off
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_disk_is_copied_all_the_same(driver, hypervisor, monkeypatch, guest, when):
    with killed(monkeypatch, hypervisor, libvirt.virDomain, "backupBegin", when), driver.snapshot(guest) as copy:
        info = json.loads(subprocess.run(["qemu-img", "info", "--output=json", copy.path], check=True,
                                         capture_output=True).stdout)
        assert (info["format"], info["virtual-size"]) == ("qcow2", 1 << 30)
    assert _virsh(hypervisor, "domjobinfo", guest.uuid).split() == ["Job", "type:", "None"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_volume_is_attached_all_the_same(driver, hypervisor, monkeypatch, guest, passable, encrypted, when):
    """libvirtd has forgotten the passphrase of an encrypted one."""
    device = _connected(driver, guest, passable, _device(), encrypted)
    with killed(monkeypatch, hypervisor, libvirt.virDomain, "attachDeviceFlags", when):
        driver.attach_volume(guest, device)
    assert [side.count(f"<serial>{device.volume_id}<") for side in _both_sides(hypervisor, guest)] == [1, 1]


def test_a_guest_with_an_encrypted_volume_starts_all_the_same(driver, hypervisor, monkeypatch, guest, passable):
    driver.power_off(guest, 0)
    _connected(driver, guest, passable, _device(), encrypted=True)
    with killed(monkeypatch, hypervisor, libvirt.virDomain, "createWithFlags", "before"):
        driver.power_on(guest, [])
    assert driver.power_state(guest) == states.RUNNING
    driver.power_off(guest, 0)
    assert _virsh(hypervisor, "secret-list") == ""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("function", ["blockCopy", "blockJobAbort"])
def test_a_volume_is_exchanged_all_the_same(driver, hypervisor, monkeypatch, guest, passable, function, when):
    old = _connected(driver, guest, passable, _device())
    driver.attach_volume(guest, old)
    new = _connected(driver, guest, passable, dataclasses.replace(old, volume_id=str(uuid.uuid4())))
    guest.block_devices = [old]
    with killed(monkeypatch, hypervisor, libvirt.virDomain, function, when):
        driver.swap_volume(guest, old, new, lambda _device: None)
    for xml in _both_sides(hypervisor, guest):
        assert new.connection_info["data"]["device_path"] in xml
        assert old.connection_info["data"]["device_path"] not in xml
    assert _virsh(hypervisor, "blockjob", guest.uuid, "vdb", "--info") == ""
