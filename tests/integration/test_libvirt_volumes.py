"""Volumes of the libvirt driver on real QEMU guests: iSCSI with CHAP, NBD and files; what a guest writes is at the back end."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import time
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception, keymgr
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import encryption, guest_devices, volumes
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support import storage
from tests.support.process import wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd"),
    pytest.mark.skipif(bool(storage.missing()), reason=f"not installed: {storage.missing()}")]

# tells on the console which disks with a serial there are besides the root disk; reads from and writes to each new one
WATCH = b"""#!/bin/sh
watch() {
  known=
  while sleep 0.3; do
    now=
    for path in /sys/block/vd[b-z]; do
      serial=$(cat $path/serial 2>/dev/null)
      [ -z "$serial" ] || [ ! -b /dev/${path##*/} ] || now="$now ${path##*/}=$serial=$(cat $path/size)"
    done
    [ "$now" != "$known" ] || continue
    for entry in $now; do
      case "$known " in *" $entry "*) continue;; esac
      disk=/dev/${entry%%=*}
      echo "read $entry: $(head -c 32 $disk | tr -d '\\0')"
      echo guest-was-here | dd of=$disk bs=512 seek=8 conv=notrunc,fsync 2>/dev/null && echo "wrote $entry"
    done
    echo "disks:$now."
    known=$now
  done
}
watch > /dev/console 2>&1 &
"""
GUEST_SECONDS = 120         # in which a guest sees a disk come or go, however busy the machine is
SHARED = "5ba4ed00-0000-4000-8000-000000000001"
FIXED_KEY = "5ec2e7" * 10 + "0f0e"
ENCRYPTED = {"encrypted": True, "encryption": {"provider": "luks", "encryption_key_id": keymgr.FIXED_KEY_ID,
                                               "cipher": "aes-xts-plain64", "key_size": 256}}
MARK, SIZE = b"written-by-host", 8 * 1024 * 1024
HEADER = 2068480            # bytes that LUKS as QEMU makes it takes at the beginning
_number = iter(range(1, 1000))


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-vol") as host:
        yield host


@pytest.fixture(scope="module")
def driver(hypervisor, tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    conf = nova_lite.conf.load([], config_files=[], state_path=str(state), libvirt__connection_uri=hypervisor.uri,
                               key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager", key_manager__fixed_key=FIXED_KEY)
    made = virt_driver.load(conf, "node-vol")
    made.init_host(lambda *_news: None)
    yield made
    made.stop_host()


@pytest.fixture(scope="module")
def target():
    made = storage.IscsiTarget()
    yield made
    made.stop()


def _instance(*devices, **values):
    image = ImageMeta(str(uuid.uuid4()))
    return Instance(**{"uuid": str(uuid.uuid4()), "id": next(_number), "project_id": "p", "user_id": "u",
                       "display_name": "one", "flavor": Flavor("1", "tiny", 128, 1, 1), "image_ref": image.id, "image": image,
                       "config_drive": True, "block_devices": list(devices), **values})


def _files(instance):
    meta = f'{{"uuid": "{instance.uuid}", "hostname": "guest"}}'.encode()
    return GuestFiles(metadata={"openstack/latest/meta_data.json": meta, "openstack/latest/user_data": WATCH})


def _fetch(_image_id, path):
    shutil.copyfile(tiny_image(), path)


def _boot(driver, instance):
    return wait_for("the login prompt", lambda: "login:" in (text := driver.console_output(instance, None)) and text, 240, 0.5)


@pytest.fixture(scope="module")
def guest(driver):
    made = _instance()
    driver.spawn(made, [], _files(made), _fetch)
    _boot(driver, made)
    yield made
    driver.destroy(made, [])


def _device(**values):
    return BlockDevice(**{"id": str(uuid.uuid4()), "source_type": "volume", "volume_id": str(uuid.uuid4()), **values})


def _raw(directory, name="volume.raw", size=SIZE):
    path = directory / name
    path.write_bytes(MARK)
    os.truncate(path, size)
    return path


def _virsh(hypervisor, *arguments):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True,
                          check=False).stdout.strip()


def _connected(driver, instance, device, info):
    device.connection_info = driver.connect_volume(instance, device, info)
    return device


def _disks(driver, instance):
    """{serial as the guest sees it: sectors}, by the last line that it wrote."""
    lines = re.findall(r"disks:(.*)\.", driver.console_output(instance, None))
    return {e.split("=")[1]: int(e.split("=")[2] or 0) for e in lines[-1].split()} if lines else {}


def _command_lines():
    found = b""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes()
        except OSError:     # ended meanwhile
            continue
    return found


@pytest.fixture
def backend(request, tmp_path, target):
    """(connection_info, file) of one volume per kind."""
    path = _raw(tmp_path)
    if request.param == "iscsi":
        yield target.export(path.rename(tmp_path / f"{uuid.uuid4()}")), next(tmp_path.iterdir())
    elif request.param == "nbd":
        server = storage.NbdServer(path)
        yield server.connection_info, path
        server.stop()
    else:
        yield {"driver_volume_type": "local", "data": {"device_path": str(path)}}, path


@pytest.mark.parametrize("backend", ["iscsi", "nbd", "local"], indirect=True)
def test_attach_write_read_detach_and_nothing_stays(driver, hypervisor, guest, backend):
    info, path = backend
    device = _connected(driver, guest, _device(device_name="/dev/vdb", tag="data"), info)
    serial = device.volume_id[:20]
    secrets = _virsh(hypervisor, "secret-list")
    assert (volumes.secret_uuid(guest, device.volume_id) in secrets) == (info["driver_volume_type"] == "iscsi")
    for _ in range(2):
        driver.attach_volume(guest, device)
    wait_for("the guest to write", lambda: f"wrote vdb={serial}" in driver.console_output(guest, None), GUEST_SECONDS)
    assert f"={SIZE // 512}: {MARK.decode()}" in driver.console_output(guest, None).split(f"read vdb={serial}")[1]
    assert b"guest-was-here" in path.read_bytes()
    for side in ([], ["--inactive"]):
        xml = _virsh(hypervisor, "dumpxml", guest.uuid, *side)
        assert xml.count(f"<serial>{device.volume_id}</serial>") == 1
        assert f"<alias name='ua-{device.id}'/>" in xml
    for where in (str(device.connection_info).encode(), _command_lines(), _virsh(hypervisor, "dumpxml", guest.uuid).encode()):
        assert storage.PASSWORD.encode() not in where

    for _ in range(2):
        driver.detach_volume(guest, device)
        for side in ([], ["--inactive"]):
            assert device.volume_id not in _virsh(hypervisor, "dumpxml", guest.uuid, *side)
    wait_for("the guest to see it go", lambda: serial not in _disks(driver, guest), GUEST_SECONDS)
    for _ in range(2):
        driver.disconnect_volume(guest, device)
    assert _virsh(hypervisor, "secret-list") == ""


def test_an_encrypted_volume_is_clear_to_the_guest_only_and_its_key_is_nowhere(driver, hypervisor, guest, tmp_path):
    luks = storage.Luks(tmp_path, FIXED_KEY)
    path = luks.make(_raw(tmp_path, "clear", 1024 ** 3 - HEADER), "raw", tmp_path / "volume")
    assert path.stat().st_size == 1024 ** 3
    info = {"driver_volume_type": "local", "data": {"device_path": str(path), **ENCRYPTED}}
    device = _connected(driver, guest, _device(), info)
    serial, secret = device.volume_id[:20], encryption.secret_uuid(guest, device.volume_id)
    assert _virsh(hypervisor, "secret-list").split()[0] == secret
    xml = _virsh(hypervisor, "secret-dumpxml", secret)
    assert "ephemeral='yes' private='yes'" in xml
    assert "<usage type='volume'>" in xml
    assert _virsh(hypervisor, "secret-get-value", secret) == ""
    driver.attach_volume(guest, device)
    wait_for("the guest to write", lambda: f"wrote vdb={serial}" in driver.console_output(guest, None), GUEST_SECONDS)
    assert f": {MARK.decode()}" in driver.console_output(guest, None).split(f"read vdb={serial}")[1]
    with path.open("rb") as stream:
        seen = stream.read(HEADER + SIZE)
    assert b"guest-was-here" not in seen
    assert MARK not in seen
    assert b"guest-was-here" in luks.read(path)
    driver.extend_volume(guest, device, 2)
    wait_for("the new size", lambda: _disks(driver, guest)[serial] == (2 * 1024 ** 3 - HEADER) // 512, 60)
    assert path.stat().st_size == 2 * 1024 ** 3
    with pytest.raises(exception.NotImplementedByDriver, match="encrypted"):
        driver.swap_volume(guest, device, dataclasses.replace(device, volume_id=str(uuid.uuid4())), lambda _device: None)
    for where in (str(device.connection_info), _command_lines().decode(errors="replace"),
                  *(_virsh(hypervisor, "dumpxml", "--security-info", guest.uuid, *side) for side in ((), ("--inactive",)))):
        assert FIXED_KEY not in where

    driver.detach_volume(guest, device)
    for _ in range(2):
        driver.disconnect_volume(guest, device)
    assert _virsh(hypervisor, "secret-list") == ""


def test_the_target_knows_the_host_by_the_name_of_its_connector(driver, guest, target, tmp_path):
    device = _connected(driver, guest, _device(), target.export(_raw(tmp_path, str(uuid.uuid4()))))
    driver.attach_volume(guest, device)
    try:
        assert f"Initiator: {driver.volume_connector()['initiator']}" in target.sessions()
    finally:
        driver.detach_volume(guest, device)
        driver.disconnect_volume(guest, device)
    assert "Initiator:" not in target.sessions()


def test_a_wrong_password_is_an_error_and_leaves_no_disk(driver, hypervisor, guest, target, tmp_path):
    info = target.export(_raw(tmp_path, str(uuid.uuid4())))
    info["data"]["auth_password"] = "not-the-right-1"
    device = _connected(driver, guest, _device(), info)
    with pytest.raises(exception.VirtDriverError, match="(?i)login|auth") as caught:
        driver.attach_volume(guest, device)
    assert "not-the-right-1" not in str(caught.value)
    for side in ([], ["--inactive"]):
        assert device.volume_id not in _virsh(hypervisor, "dumpxml", guest.uuid, *side)
    driver.detach_volume(guest, device)
    driver.disconnect_volume(guest, device)
    assert _virsh(hypervisor, "secret-list") == ""


def test_a_new_password_replaces_the_old_one(driver, guest, target, tmp_path):
    info = target.export(_raw(tmp_path, str(uuid.uuid4())))
    wrong = {**info, "data": {**info["data"], "auth_password": "not-the-right-1"}}
    device = _connected(driver, guest, _device(), wrong)
    _connected(driver, guest, device, info)
    driver.attach_volume(guest, device)
    driver.detach_volume(guest, device)
    driver.disconnect_volume(guest, device)


def test_two_volumes_and_one_of_them_grows(driver, guest, tmp_path):
    one, two = (_device() for _ in range(2))
    try:
        for device, name in ((one, "one"), (two, "two")):
            info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path, name))}}
            _connected(driver, guest, device, info)
            driver.attach_volume(guest, device)
            guest.block_devices.append(device)
        wait_for("both", lambda: {one.volume_id[:20], two.volume_id[:20]} <= set(_disks(driver, guest)), 30)
        driver.extend_volume(guest, two, 1)
        wait_for("the new size", lambda: _disks(driver, guest)[two.volume_id[:20]] == 2 * 1024 * 1024, 30)
        assert _disks(driver, guest)[one.volume_id[:20]] == SIZE // 512
    finally:
        guest.block_devices = []
        for device in (one, two):
            driver.detach_volume(guest, device)


@pytest.mark.parametrize("larger", [False, True])
def test_a_volume_is_exchanged_under_the_running_guest(driver, hypervisor, guest, target, tmp_path, larger):
    """What the guest had written moves along, to it the disk is the same one, and a second run does no harm."""
    info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path))}}
    old = _connected(driver, guest, _device(size=1), info)
    new_file = tmp_path / str(uuid.uuid4())
    new_file.write_bytes(b"\0" * (SIZE * 2 if larger else SIZE))
    new = dataclasses.replace(old, volume_id=str(uuid.uuid4()), size=2 if larger else 1)
    _connected(driver, guest, new, target.export(new_file)).connection_info["serial"] = old.volume_id
    noted = []
    driver.attach_volume(guest, old)
    try:
        wait_for("the guest to write", lambda: b"guest-was-here" in (tmp_path / "volume.raw").read_bytes(), GUEST_SECONDS)
        for _ in range(2):
            driver.swap_volume(guest, old, new, noted.append)
        assert noted == [old, new, new]
        assert new_file.read_bytes()[:SIZE] == (tmp_path / "volume.raw").read_bytes()
        for side in ((), ("--inactive",)):
            assert new.connection_info["data"]["target_iqn"] in _virsh(hypervisor, "domblklist", guest.uuid, *side)
            assert old.volume_id in _virsh(hypervisor, "dumpxml", guest.uuid, *side)
        assert old.volume_id[:20] in _disks(driver, guest)
    finally:
        driver.detach_volume(guest, old)
        driver.disconnect_volume(guest, new)
    wait_for("the guest to miss it", lambda: old.volume_id[:20] not in _disks(driver, guest), 60)
    assert "iqn" not in _virsh(hypervisor, "domblklist", guest.uuid)
    assert _virsh(hypervisor, "secret-list") == ""


def test_a_file_that_is_not_there_is_refused_before_anything_is_attached(driver, guest, tmp_path):
    with pytest.raises(exception.InvalidVolume, match="No such file"):
        driver.connect_volume(guest, _device(), {"driver_volume_type": "local", "data": {"device_path": str(tmp_path / "x")}})


def test_a_paused_guest_keeps_its_volume_when_it_runs_again(driver, hypervisor, guest, tmp_path):
    info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path))}}
    device = _connected(driver, guest, _device(), info)
    driver.attach_volume(guest, device)
    driver.pause(guest)
    with pytest.raises(exception.VirtDriverError, match="the guest is paused"):
        driver.detach_volume(guest, device)
    driver.unpause(guest)
    time.sleep(5)       # it would let go at once
    for side in ([], ["--inactive"]):
        assert device.volume_id in _virsh(hypervisor, "dumpxml", guest.uuid, *side)
    driver.detach_volume(guest, device)
    assert device.volume_id not in _virsh(hypervisor, "dumpxml", guest.uuid)


def test_a_guest_whose_memory_is_saved_keeps_the_devices_that_it_was_saved_with(driver, hypervisor, guest, tmp_path):
    """As where os-resetState has made a suspended server ACTIVE. What comes back has the same disks as the configuration."""
    one, two = (_connected(driver, guest, _device(), {"driver_volume_type": "local", "data": {
        "device_path": str(_raw(tmp_path, name))}}) for name in ("one", "two"))
    driver.attach_volume(guest, one)
    try:
        driver.suspend(guest)
        with pytest.raises(exception.VirtDriverError, match="memory is saved.*resume the server.*hard reboot"):
            driver.detach_volume(guest, one)
        with pytest.raises(exception.VirtDriverError, match="memory is saved.*resume the server.*hard reboot"):
            driver.attach_volume(guest, two)
        driver.detach_volume(guest, two)        # as the undo of the attach does
        driver.resume(guest, [])
        for side in ([], ["--inactive"]):
            xml = _virsh(hypervisor, "dumpxml", guest.uuid, *side)
            assert (one.volume_id in xml, two.volume_id in xml) == (True, False)
    finally:
        driver.detach_volume(guest, one)
    assert one.volume_id not in _virsh(hypervisor, "dumpxml", guest.uuid)


def test_a_detach_while_the_guest_boots_is_heard_in_the_end(driver, hypervisor, tmp_path, monkeypatch):
    instance = _instance()
    info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path))}}
    device = _connected(driver, instance, _device(), info)
    instance.block_devices = [device]
    try:
        driver.spawn(instance, [], _files(instance), _fetch)
        with monkeypatch.context() as patched:
            patched.setattr(guest_devices, "ASKS", 1)
            patched.setattr(guest_devices, "ASK_EVERY", 0.2)
            with pytest.raises(exception.VirtDriverError, match="did not release"):
                driver.detach_volume(instance, device)
        assert device.volume_id in _virsh(hypervisor, "dumpxml", instance.uuid, "--inactive")
        driver.detach_volume(instance, device)
        for side in ([], ["--inactive"]):
            assert device.volume_id not in _virsh(hypervisor, "dumpxml", instance.uuid, *side)
        _boot(driver, instance)
    finally:
        driver.destroy(instance, [])


def test_a_shared_volume_is_given_to_two_guests(driver, guest, tmp_path):
    info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path))}}
    other = _instance()
    devices = [_connected(driver, one, _device(volume_id=SHARED, multiattach=True), info) for one in (guest, other)]
    other.block_devices = [devices[1]]
    try:
        driver.attach_volume(guest, devices[0])
        driver.spawn(other, [], _files(other), _fetch)
        wait_for("both to write", lambda: all(f"wrote vdb={SHARED[:20]}" in driver.console_output(one, None)
                                              for one in (guest, other)), 120)
    finally:
        driver.destroy(other, [])
        driver.detach_volume(guest, devices[0])


def test_volumes_come_and_go_on_a_machine_with_pci_express(driver, tmp_path):
    # the tiny guest has no driver for SATA, where the config drive would be
    properties = {"hw_machine_type": "q35", "hw_cdrom_bus": "scsi"}
    instance = _instance(image=ImageMeta(str(uuid.uuid4()), properties=properties))
    devices = [_device() for _ in range(4)]
    try:
        driver.spawn(instance, [], _files(instance), _fetch)
        assert "user_data runs" in _boot(driver, instance)
        for number, device in enumerate(devices):
            info = {"driver_volume_type": "local", "data": {"device_path": str(_raw(tmp_path, str(number)))}}
            driver.attach_volume(instance, _connected(driver, instance, device, info))
            instance.block_devices.append(device)
        wait_for("all of them", lambda: {d.volume_id[:20] for d in devices} <= set(_disks(driver, instance)), 60)
        for device in devices:
            driver.detach_volume(instance, device)
        wait_for("none of them", lambda: not _disks(driver, instance), 60)
    finally:
        driver.destroy(instance, [])


def test_what_was_kept_for_a_server_goes_with_what_its_move_has_left(driver, hypervisor, guest, target, tmp_path):
    """As after the death of a host that had connected the volume and got no further. A guest that is here keeps its own."""
    path = tmp_path / f"{uuid.uuid4()}"
    path.touch()
    os.truncate(path, SIZE)
    exported, device, gone = target.export(path), _device(), _instance()
    info = {**exported, "data": {**exported["data"], **ENCRYPTED}}
    for instance in (gone, guest):
        driver.connect_volume(instance, device, info)
    both = set(_virsh(hypervisor, "secret-list").split()[::3])
    assert len(both) == 4
    assert driver.left_behind() == {gone.uuid}
    for instance in (gone, guest):
        driver.drop_left_behind(instance.uuid)
        assert driver.left_behind() == set()
        assert set(_virsh(hypervisor, "secret-list").split()[::3]) == {volumes.secret_uuid(guest, device.volume_id),
                                                                       encryption.secret_uuid(guest, device.volume_id)} < both
    driver.disconnect_volume(guest, _connected(driver, guest, device, info))
    assert _virsh(hypervisor, "secret-list") == ""


def test_boot_from_an_encrypted_iscsi_volume_with_chap(driver, hypervisor, target, tmp_path):
    data = _raw(tmp_path)
    root = storage.Luks(tmp_path, FIXED_KEY).make(tiny_image(), "qcow2", tmp_path / f"root-{uuid.uuid4()}")
    os.truncate(root, 300 * 1024 * 1024)
    server = storage.NbdServer(data)
    instance = _instance(flavor=Flavor("1", "tiny", 128, 1, 0))
    first, second, exported = _device(boot_index=0), _device(), target.export(root)
    instance.block_devices = [_connected(driver, instance, second, server.connection_info),
                              _connected(driver, instance, first, {**exported, "data": {**exported["data"], **ENCRYPTED}})]
    passphrase = encryption.secret_uuid(instance, first.volume_id)
    try:
        driver.spawn(instance, [], _files(instance), lambda *_: pytest.fail("an image was fetched"))
        wait_for("the second disk", lambda: f"wrote vdb={second.volume_id[:20]}" in driver.console_output(instance, None), 240)
        assert int(re.search(r"tiny: root (\d+) MiB", _boot(driver, instance))[1]) > 200
        assert sorted(os.listdir(pathlib.Path(driver._root, instance.uuid))) == ["console.log", "disk.config", "guest.json"]

        assert passphrase in _virsh(hypervisor, "secret-list")
        driver.power_off(instance, 60)
        assert passphrase not in _virsh(hypervisor, "secret-list")
        instance.block_devices.remove(second)
        driver.detach_volume(instance, second)      # of a guest that is off
        assert second.volume_id not in _virsh(hypervisor, "dumpxml", instance.uuid)
        driver.attach_volume(instance, second)
        instance.block_devices.append(second)
        driver.power_on(instance, [])
        assert _virsh(hypervisor, "dumpxml", instance.uuid).count(second.volume_id) == 1
        _boot(driver, instance)                     # the secrets are there at every start
        driver.reboot(instance, [], hard=True, timeout=0)
        _boot(driver, instance)
        assert driver.power_state(instance) == states.RUNNING
    finally:
        driver.destroy(instance, [])
        for device in (first, second):
            driver.detach_volume(instance, device)
            driver.disconnect_volume(instance, device)
        server.stop()
    assert _virsh(hypervisor, "secret-list") == ""
