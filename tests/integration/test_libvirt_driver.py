"""The libvirt driver through its interface, on a real private libvirtd with QEMU's emulation.

Guests of most tests have an empty disk (they stop at "no bootable device", which is enough to see a domain live); one test
boots the tiny guest, because shutdown and soft reboot need an operating system.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest
from lxml import etree

import nova_lite.conf
from nova_lite import exception
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware.pci import PciDevice
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import copying
from nova_lite.virt.libvirt.connection import load_libvirt
from tests.libvirt_host import LibvirtHost, kill_libvirtd, started
from tests.support.guest_files import open_to_others, process_user
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
BRIDGE = f"nlvirt{os.getpid() % 100000}"
FILES = GuestFiles(metadata={"openstack/latest/meta_data.json": b'{"hostname": "one"}'})


@pytest.fixture(scope="module")
def hypervisor(passable):
    with LibvirtHost(passable / "libvirt", hostname="node-virt") as host:
        yield host


@pytest.fixture(scope="module")
def bridge():
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
    yield BRIDGE
    subprocess.run(["ip", "link", "delete", BRIDGE], check=True)


@pytest.fixture
def conf(hypervisor, passable, tmp_path):
    state = passable / tmp_path.name
    return nova_lite.conf.load([], config_files=[], state_path=str(state), libvirt__connection_uri=hypervisor.uri)


@pytest.fixture
def told():
    return []


@pytest.fixture
def driver(conf, told):
    made = virt_driver.load(conf, "node-virt")
    made.init_host(lambda uuid, state: told.append((uuid, state)))
    yield made
    made.stop_host()


@pytest.fixture(scope="module")
def empty_image(tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "16M"], check=True)
    return path


@pytest.fixture
def fetch(empty_image):
    return lambda _image_id, path: shutil.copyfile(empty_image, path)


_number = iter(range(1, 1000))


@pytest.fixture
def instance(driver):
    made = _instance()
    yield made
    driver.destroy(made, [])


def _instance(**values):
    image = ImageMeta(str(uuid.uuid4()))
    number = next(_number)
    return Instance(**{"uuid": str(uuid.uuid4()), "id": number, "project_id": "p", "user_id": "u", "display_name": "one",
                       "flavor": Flavor("1", "tiny", 96, 1, 1), "image_ref": image.id, "image": image, **values})


def _vif(bridge):
    port = str(uuid.uuid4())
    return VIF(port, "n", "private", "fa:16:3e:" + ":".join((port[0:2], port[2:4], port[4:6])), "bridge", mtu=1450,
               details={"bridge": bridge})


def _virsh(hypervisor, *arguments):
    done = subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _directory(conf, instance):
    return pathlib.Path(conf.state_path, "instances", instance.uuid)


def _xml(hypervisor, instance):
    return etree.fromstring(_virsh(hypervisor, "dumpxml", instance.uuid))


def _link(name):
    return pathlib.Path("/sys/class/net", name)


def test_what_the_host_offers(driver, conf):
    inventory = driver.inventory()
    assert inventory.hypervisor_hostname == "node-virt"
    assert inventory.hypervisor_type == "QEMU"
    assert inventory.hypervisor_version > 5_000_000
    assert inventory.vcpus == os.cpu_count()
    assert inventory.memory_mb > 256
    assert 0 < inventory.free_disk_gb <= inventory.local_gb
    assert inventory.cpu_info["arch"] == os.uname().machine
    assert ["x86_64", "qemu", "hvm"] in inventory.supported_instances
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    if "vmx" not in flags and "svm" not in flags:
        assert all(kind != "kvm" for _, kind, _ in inventory.supported_instances)
    # whatever stands in a guest's directory, the database takes the numbers; and a guest's swap has no header
    before = inventory.disk_available_least
    swap = _directory(conf, _instance()) / "disk.swap"
    swap.parent.mkdir()
    swap.write_bytes(b"QFI\xfb" + bytes([0, 0, 0, 2]) + bytes(16) + b"\xff" * 8 + bytes(480))
    assert before - 16 < driver.inventory().disk_available_least < before + 16
    swap.rename(swap.with_name("disk"))
    assert driver.inventory().disk_available_least == 1 - (1 << 31)


def test_the_pci_devices_that_it_offers(hypervisor, tmp_path):
    """libvirt's daemon knows them where udev does; what the machine has, it has."""
    there = sorted(_virsh(hypervisor, "nodedev-list", "--cap", "pci").split())
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), libvirt__connection_uri=hypervisor.uri,
                               pci__device_spec=['{"vendor_id": "*"}'])
    made = virt_driver.load(conf, "node-virt")
    made.init_host(lambda _uuid, _state: None)
    try:
        found = [PciDevice.from_primitive(device) for device in made.inventory().pci_devices]
    finally:
        made.stop_host()
    assert ["pci_" + d.address.translate(str.maketrans(":.", "__")) for d in found] == there
    for device in found:
        known = pathlib.Path("/sys/bus/pci/devices", device.address)
        assert (known / "vendor").read_text().strip() == f"0x{device.vendor_id}"
        assert (known / "device").read_text().strip() == f"0x{device.product_id}"


def test_spawn_gives_domain_disk_drive_nic_and_console(driver, conf, hypervisor, bridge, instance, fetch):
    instance.config_drive = True
    vif = _vif(bridge)
    driver.spawn(instance, [vif], FILES, fetch)
    assert driver.power_state(instance) == states.RUNNING
    assert driver.power_states() == {instance.uuid: states.RUNNING}
    xml = _xml(hypervisor, instance)
    assert xml.findtext("name") == f"instance-{instance.id:08x}"
    assert xml.find("devices/graphics[@type='vnc']").get("port") != "-1"
    assert xml.find("devices/disk/driver").get("iothread") == "1"
    assert _virsh(hypervisor, "iothreadinfo", instance.uuid).split()[0] == "1"      # QEMU says so
    directory = _directory(conf, instance)
    assert sorted(os.listdir(directory)) == ["console.log", "disk", "disk.config", "guest.json"]
    assert (directory / "disk.config").stat().st_mode & 0o777 == 0o600
    assert process_user(_qemu_pid(instance)) == (directory / "disk").owner() == "libvirt-qemu"
    assert open_to_others(directory.parent) == []
    assert _link(vif.devname).joinpath("master").resolve().name == bridge
    assert _link(vif.devname).joinpath("mtu").read_text().strip() == "1450"
    driver.destroy(instance, [vif])
    assert driver.power_state(instance) is None
    assert not directory.exists()
    assert not _link(vif.devname).exists()
    driver.destroy(instance, [vif])     # gone already is no error


def test_a_guest_that_stops_takes_no_file_from_another(driver, conf, fetch):
    """They share a base image, and libvirt gives back what a guest had open."""
    image = ImageMeta(str(uuid.uuid4()))
    one, two = guests = [_instance(image_ref=image.id, image=image) for _ in range(2)]
    try:
        for guest in guests:
            driver.spawn(guest, [], FILES, fetch)
        driver.power_off(one, 0)
        root = pathlib.Path(conf.state_path, "instances")
        assert [(root / name).owner() for name in (f"{one.uuid}/disk", f"{two.uuid}/disk", f"_base/{image.id}")] \
            == ["root", "libvirt-qemu", "libvirt-qemu"]
        with driver.snapshot(two) as copy:
            assert open_to_others(root) == []
            _qemu_io(copy.path, "read -P 0 4M 64k")
        driver.power_on(one, [])
        assert driver.power_states() == {guest.uuid: states.RUNNING for guest in guests}
        assert open_to_others(root) == []
    finally:
        for guest in guests:
            driver.destroy(guest, [])


def test_each_operation_twice(driver, hypervisor, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    pid = _qemu_pid(instance)
    for operation, state in ((lambda: driver.spawn(instance, [], FILES, fetch), states.RUNNING),
                             (lambda: driver.pause(instance), states.POWER_PAUSED),
                             (lambda: driver.unpause(instance), states.RUNNING)):
        for _ in range(2):
            operation()
            assert driver.power_state(instance) == state
    assert _qemu_pid(instance) == pid
    for operation, state in ((lambda: driver.suspend(instance), states.SHUTDOWN),
                             (lambda: driver.resume(instance, []), states.RUNNING),
                             (lambda: driver.power_off(instance, 0), states.SHUTDOWN),
                             (lambda: driver.power_on(instance, []), states.RUNNING)):
        for _ in range(2):
            operation()
            assert driver.power_state(instance) == state
    before = _qemu_pid(instance)
    driver.reboot(instance, [], hard=True, timeout=0)
    assert driver.power_state(instance) == states.RUNNING
    assert _qemu_pid(instance) != before


def _qemu_pid(instance):
    """By the command line: pid files are inside the daemon's own mount namespace."""
    pids = [p.parent.name for p in pathlib.Path("/proc").glob("[0-9]*/cmdline")
            if f"-uuid\0{instance.uuid}".encode() in _read(p)]
    assert len(pids) == 1, pids
    return int(pids[0])


def _read(path):
    try:
        return path.read_bytes()
    except OSError:     # ended meanwhile
        return b""


def test_pulling_the_plug_of_a_guest_that_ignores_the_button(driver, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)        # an empty disk: nobody hears the button
    started = time.monotonic()
    driver.power_off(instance, 2)
    assert time.monotonic() - started >= 2
    assert driver.power_state(instance) == states.SHUTDOWN
    driver.power_on(instance, [])
    before = _qemu_pid(instance)
    driver.reboot(instance, [], hard=False, timeout=1)
    assert driver.power_state(instance) == states.RUNNING
    assert _qemu_pid(instance) != before


def test_a_suspend_goes_on_with_the_save_of_a_daemon_that_was_killed(driver, hypervisor, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    pid = _qemu_pid(instance)
    libvirt = load_libvirt()
    domain = libvirt.open(hypervisor.uri).lookupByUUIDString(instance.uuid)
    image = hypervisor.directory / "lib" / "qemu" / "save" / f"{domain.name()}.save"
    with subprocess.Popen(["virsh", "-c", hypervisor.uri, "managedsave", "--running", instance.uuid]) as first:
        # a look at the file takes so little time that the save does not end before it
        wait_for("the save", image.exists, 20, interval=0.0)
        os.kill(pid, signal.SIGSTOP)
        assert domain.state() == [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SAVE]
        again = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        again.start()
        driver.suspend(instance)
        again.join()
    assert first.returncode == 0
    assert "yes" in _virsh(hypervisor, "dominfo", "--domain", instance.uuid).split("Managed save:")[1]
    assert driver.power_state(instance) == states.SHUTDOWN
    driver.resume(instance, [])
    assert driver.power_state(instance) == states.RUNNING


def test_a_hard_reboot_of_a_suspended_guest_boots_it(driver, hypervisor, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    driver.suspend(instance)
    assert "yes" in _virsh(hypervisor, "dominfo", "--domain", instance.uuid).split("Managed save:")[1]
    driver.reboot(instance, [], hard=True, timeout=0)
    assert driver.power_state(instance) == states.RUNNING
    assert "no" in _virsh(hypervisor, "dominfo", "--domain", instance.uuid).split("Managed save:")[1]


def test_a_domain_that_libvirt_forgot_is_defined_anew(driver, hypervisor, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    driver.power_off(instance, 0)
    _virsh(hypervisor, "undefine", instance.uuid)
    assert driver.power_state(instance) is None
    driver.power_on(instance, [])
    assert driver.power_state(instance) == states.RUNNING


@pytest.mark.parametrize("verb", ["unrescue", "restore", "reboot"])
def test_whatever_ends_a_rescue_leaves_nothing_of_it(driver, conf, hypervisor, instance, fetch, verb):
    """A server that is soft-deleted in its rescue and restored, or rebooted after a rescue that failed, is not rescued."""
    instance.config_drive = True
    driver.spawn(instance, [], FILES, fetch)
    files = {p.name for p in _directory(conf, instance).iterdir()}
    driver.rescue(instance, [], ImageMeta(str(uuid.uuid4())), FILES, fetch)
    assert {p.name for p in _directory(conf, instance).iterdir()} - files == {
        "disk.rescue", "disk.rescue.image", "disk.config.rescue"}
    assert driver.is_rescued(instance)
    if verb == "restore":
        driver.power_off(instance, 0)
        assert not driver.is_rescued(instance)
        driver.power_on(instance, [])
    elif verb == "reboot":
        driver.reboot(instance, [], True, 0)
    else:
        driver.unrescue(instance, [])
    assert {p.name for p in _directory(conf, instance).iterdir()} == files
    assert "disk.rescue" not in _virsh(hypervisor, "dumpxml", instance.uuid)
    assert not driver.is_rescued(instance)


class Killed(BaseException):
    """The process ends here."""


def test_an_unrescue_that_was_killed_lets_the_guest_run_that_it_has_started(driver, conf, hypervisor, instance, fetch,
                                                                            monkeypatch):
    def kill(_files):
        raise Killed
    driver.spawn(instance, [], FILES, fetch)
    driver.rescue(instance, [], ImageMeta(str(uuid.uuid4())), FILES, fetch)
    rescued = _virsh(hypervisor, "domid", instance.uuid)
    with monkeypatch.context() as patched:
        patched.setattr(driver._disks, "remove_rescue", kill)
        with pytest.raises(Killed):
            driver.unrescue(instance, [])
    started = _virsh(hypervisor, "domid", instance.uuid)
    assert started != rescued
    driver.unrescue(instance, [])
    assert _virsh(hypervisor, "domid", instance.uuid) == started
    assert not (_directory(conf, instance) / "disk.rescue").exists()


def test_a_failed_build_leaves_nothing(driver, conf, bridge, fetch):
    instance = _instance(config_drive=True)
    vif = _vif("nosuchbridge")      # found out by libvirt at the very end, when all else is made
    with pytest.raises(exception.BuildFailed, match="nosuchbridge") as caught:
        driver.spawn(instance, [vif], FILES, fetch)
    assert not isinstance(caught.value, exception.BuildAborted)
    assert driver.power_state(instance) is None
    assert not _directory(conf, instance).exists()
    assert not _link(vif.devname).exists()


def test_a_guest_waits_for_its_network(driver, bridge, told, fetch):
    instance, vif, seen = _instance(), _vif(bridge), []

    def wait():
        seen.append((driver.power_state(instance), _link(vif.devname).exists()))
    for _ in range(2):      # again, as after a crash while it waited
        driver.spawn(instance, [vif], FILES, fetch, wait)
        assert seen.pop()[1]
        assert driver.power_state(instance) == states.RUNNING
    driver.destroy(instance, [vif])
    driver.spawn(instance, [vif], FILES, fetch, wait)
    assert seen == [(states.POWER_PAUSED, True)]
    driver.destroy(instance, [vif])

    def fail():
        raise exception.BuildAborted(instance_id=instance.uuid, reason="the port is not wired")
    with pytest.raises(exception.BuildAborted, match="not wired"):
        driver.spawn(instance, [vif], FILES, fetch, fail)
    assert driver.power_state(instance) is None
    assert not _link(vif.devname).exists()
    assert told == []


def test_a_guest_that_is_not_wanted_any_more_never_runs(driver, conf, bridge, told, fetch):
    instance, vif, seen = _instance(), _vif(bridge), []

    def check():
        seen.append(driver.power_state(instance))
        raise exception.LeaseLost(action_id=1, owner="me")
    with pytest.raises(exception.LeaseLost):
        driver.spawn(instance, [vif], FILES, fetch, None, check)
    assert (seen, told) == ([states.POWER_PAUSED], [])
    assert driver.power_state(instance) is None
    assert not _directory(conf, instance).exists()
    assert not _link(vif.devname).exists()


def test_an_image_that_is_bad_everywhere_ends_the_build(driver, conf, empty_image, tmp_path):
    evil = tmp_path / "evil.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", empty_image, "-F", "qcow2", evil], check=True)
    instance = _instance()
    with pytest.raises(exception.BuildAborted, match="backing file"):
        driver.spawn(instance, [], FILES, lambda _i, path: shutil.copyfile(evil, path))
    assert not _directory(conf, instance).exists()
    assert driver.power_state(instance) is None


_KILLED = """
import shutil, sys, time
import nova_lite.conf
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver
import json
state, uri, image, record = sys.argv[1:]
conf = nova_lite.conf.load([], config_files=[], state_path=state, libvirt__connection_uri=uri)
d = driver.load(conf, "node-virt")
d.init_host(lambda *a: None)
def fetch(_id, path):
    with open(path, "wb") as f:
        f.write(b"half")
        f.flush()
        time.sleep(0.3)
    shutil.copyfile(image, path)
print("go", flush=True)
d.spawn(Instance.from_primitive(json.loads(record)), [], driver.GuestFiles(metadata={"a": b"1"}), fetch)
print("done", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.25, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8, 1.2])
def test_a_build_that_was_killed_is_completed_by_the_next(driver, conf, hypervisor, empty_image, instance, fetch, delay):
    import json
    instance.config_drive = True
    process = subprocess.Popen([sys.executable, "-c", _KILLED, conf.state_path, hypervisor.uri, str(empty_image),
                                json.dumps(instance.to_primitive())], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "NOVA_LITE_CONCURRENCY": "threading"})
    try:
        assert process.stdout.readline() == "go\n"
        time.sleep(delay)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    driver.spawn(instance, [], FILES, fetch)
    assert driver.power_state(instance) == states.RUNNING
    assert _virsh(hypervisor, "list", "--all", "--uuid").split() == [instance.uuid]
    assert sorted(os.listdir(_directory(conf, instance))) == ["console.log", "disk", "disk.config", "guest.json"]
    base = os.listdir(pathlib.Path(conf.state_path, "instances", "_base"))
    assert sorted(base) == [f".{instance.image.id}.lock", instance.image.id]


def test_what_a_killed_build_leaves_is_found_and_removed(driver, conf):
    def kill(_image_id, _path):
        raise Killed
    instance = _instance(flavor=Flavor("1", "tiny", 96, 1, 1, extra_specs={"hw:numa_nodes": "1"}))
    with pytest.raises(Killed):
        driver.spawn(instance, [], FILES, kill)
    assert _directory(conf, instance).joinpath("binding.json").exists()
    assert driver.power_states() == {}
    assert driver.left_behind() == {instance.uuid}
    driver.drop_left_behind(instance.uuid)
    assert not _directory(conf, instance).exists()
    assert driver.left_behind() == set()


def test_a_guest_that_ends_by_itself_is_told_within_seconds(driver, hypervisor, told, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    os.kill(_qemu_pid(instance), signal.SIGKILL)
    wait_for("the news", lambda: (instance.uuid, states.SHUTDOWN) in told or (instance.uuid, states.CRASHED) in told, 60)


def test_guests_and_news_survive_a_restart_of_libvirtd(driver, hypervisor, told, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    pid = _qemu_pid(instance)
    log_daemon = hypervisor.daemon.pid("virtlogd")
    kill_libvirtd(hypervisor.daemon)
    restart = threading.Timer(1.0, hypervisor.daemon.start)
    restart.start()
    assert driver.power_states() == {instance.uuid: states.RUNNING}     # waits for the daemon's return
    restart.join()
    assert _qemu_pid(instance) == pid
    assert hypervisor.daemon.pid("virtlogd") == log_daemon      # it writes down what guests say
    wait_for("all states after the return", lambda: (instance.uuid, states.RUNNING) in told, 10)

    def has_ended():        # the new daemon may not know yet that it runs
        _virsh(hypervisor, "destroy", instance.uuid)
        return "shut off" in _virsh(hypervisor, "domstate", instance.uuid)
    wait_for("its end", has_ended, 60, 0.5)
    wait_for("the news", lambda: (instance.uuid, states.SHUTDOWN) in told, 60)
    driver.power_on(instance, [])
    assert driver.power_state(instance) == states.RUNNING


def test_what_is_counted_of_a_guest_and_what_it_can_be_told(driver, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    found = driver.diagnostics(instance)
    assert (found.state, found.driver) == ("running", "libvirt")
    assert found.memory_maximum == instance.flavor.memory_mb
    assert [cpu["id"] for cpu in found.cpus] == list(range(instance.flavor.vcpus))
    assert all(cpu["time"] >= 0 for cpu in found.cpus)
    assert found.disks[0]["name"] == "vda"
    assert found.disks[0]["read_requests"] is not None
    driver.trigger_crash_dump(instance)
    assert driver.power_state(instance) == states.RUNNING
    with pytest.raises(exception.Conflict, match="guest agent is not enabled"):
        driver.check_admin_password(instance)
    driver.power_off(instance, 0)
    assert driver.diagnostics(instance).state == "shutdown"
    with pytest.raises(exception.VirtDriverError):
        driver.trigger_crash_dump(instance)


def test_a_driver_that_starts_finds_the_guests_of_the_one_before(driver, conf, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    driver.stop_host()
    again = virt_driver.load(conf, "node-virt")
    again.init_host(lambda *_news: None)
    assert again.power_states() == {instance.uuid: states.RUNNING}
    again.destroy(instance, [])
    again.stop_host()
    driver.init_host(lambda *_news: None)       # for the fixture that cleans up


def test_a_real_guest_from_boot_to_delete(driver, conf, hypervisor, told, tmp_path):
    from tests.guest import tiny_image

    image = tiny_image()
    instance = _instance(flavor=Flavor("1", "tiny", 128, 1, 1), config_drive=True)
    meta = f'{{"uuid": "{instance.uuid}", "hostname": "guest-one"}}'.encode()
    try:
        driver.spawn(instance, [], GuestFiles(metadata={"openstack/latest/meta_data.json": meta}),
                     lambda _i, path: shutil.copyfile(image, path))
        assert "guest-one login:" in _boot(driver, instance)
        assert driver.console_output(instance, 1).strip().endswith("guest-one login:")
        driver.suspend(instance)
        driver.resume(instance, [])
        assert "login:" in driver.console_output(instance, None) or driver.power_state(instance) == states.RUNNING

        started = time.monotonic()
        driver.reboot(instance, [], hard=False, timeout=300)
        assert time.monotonic() - started < 240     # the guest heard the button
        _boot(driver, instance)
        driver.reboot(instance, [], hard=True, timeout=0)
        _boot(driver, instance)
        started = time.monotonic()
        driver.power_off(instance, 300)
        assert time.monotonic() - started < 240
        assert driver.power_state(instance) == states.SHUTDOWN
        driver.power_on(instance, [])
        _boot(driver, instance)
        del told[:]
        _virsh(hypervisor, "shutdown", instance.uuid, "--mode", "acpi")     # as if the user typed poweroff
        wait_for("SHUTDOWN", lambda: (instance.uuid, states.SHUTDOWN) in told, 40)
    finally:
        driver.destroy(instance, [])
    assert driver.power_states() == {}
    assert not _directory(conf, instance).exists()


def _boot(driver, instance):
    return wait_for("the login prompt", lambda: "login:" in (text := driver.console_output(instance, None)) and text, 300, 0.5)


def test_a_copy_of_the_disk_of_a_guest_that_runs_or_not(driver, conf, hypervisor, instance, tmp_path):
    """The base brings data, the guest's overlay another; the copy has both, stands alone, and the guest runs on."""
    base = tmp_path / "base.qcow2"
    _qemu_io("create", base, "16M")
    _qemu_io(base, "write -P 0x11 1M 64k")
    driver.spawn(instance, [], FILES, lambda _image_id, path: shutil.copyfile(base, path))
    driver.power_off(instance, 0)
    disk = _directory(conf, instance) / "disk"
    _qemu_io(disk, "write -P 0x22 2M 64k")
    shared = pathlib.Path(conf.state_path, "instances", "_base", instance.image.id)
    before = shared.read_bytes()
    leftover = _directory(conf, instance) / "snapshot.part"
    leftover.write_text("of a run that was killed")
    _check_copy(driver, instance, tmp_path / "cold")
    driver.power_on(instance, [])
    pid = _qemu_pid(instance)
    for step, state in ((driver.unpause, states.RUNNING), (driver.pause, states.POWER_PAUSED)):
        step(instance)
        leftover.write_text("of a run that was killed")
        _check_copy(driver, instance, tmp_path / "live")
        assert driver.power_state(instance) == state
    assert _qemu_pid(instance) == pid
    assert shared.read_bytes() == before
    with pytest.raises(ValueError, match="upload"), driver.snapshot(instance):
        raise ValueError("the upload fails")
    assert not leftover.exists()


def test_a_paused_guest_that_lost_its_power_is_not_unpaused(driver, instance, fetch):
    driver.spawn(instance, [], FILES, fetch)
    driver.pause(instance)
    driver.power_off(instance, 0)
    with pytest.raises(exception.DriverRefusal, match="it does not run, start the server"):
        driver.unpause(instance)
    assert driver.power_state(instance) == states.SHUTDOWN
    driver.power_on(instance, [])
    assert driver.power_state(instance) == states.RUNNING


def _check_copy(driver, instance, kept):
    with driver.snapshot(instance) as copy:
        assert copy.disk_format == "qcow2"
        shutil.copyfile(copy.path, kept)
    assert not os.path.exists(copy.path)
    info = subprocess.run(["qemu-img", "info", kept], check=True, capture_output=True, text=True).stdout
    assert "file format: qcow2" in info
    assert "backing file" not in info
    assert "virtual size: 1 GiB" in info
    for pattern, place in (("0x11", "1M"), ("0x22", "2M"), ("0", "3M")):
        _qemu_io(kept, f"read -P {pattern} {place} 64k")


@pytest.mark.parametrize("runs", [True, False])
def test_a_copy_that_is_not_wanted_any_more_ends(driver, conf, hypervisor, instance, fetch, monkeypatch, runs):
    monkeypatch.setattr(copying, "CHECK_SECONDS", 0.0)
    driver.spawn(instance, [], FILES, fetch)
    driver.power_off(instance, 0)
    _qemu_io(_directory(conf, instance) / "disk", "write -P 0x22 0 900M")
    if runs:
        driver.power_on(instance, [])
    part = _directory(conf, instance) / "snapshot.part"
    seen = []

    def not_wanted():
        seen.append(part.exists())
        raise exception.UnexpectedTaskState(instance_id=instance.uuid, actual="deleting", expected="image_pending_upload")
    with pytest.raises(exception.UnexpectedTaskState), driver.snapshot(instance, not_wanted):
        pass
    assert seen == [True]
    assert not part.exists()
    if runs:
        assert "None" in _virsh(hypervisor, "domjobinfo", instance.uuid)
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert "qemu-img" not in [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in children]


def test_a_backup_job_that_a_killed_run_left_is_ended(driver, conf, hypervisor, instance, fetch):
    """One in pull mode stands for it: it never ends by itself."""
    driver.spawn(instance, [], FILES, fetch)
    job = _directory(conf, instance) / "job.xml"
    job.write_text(f"<domainbackup mode='pull'><server transport='unix' socket='/tmp/nl-{instance.uuid}'/><disks>"
                   "<disk name='vda' backup='yes' type='file'>"
                   f"<scratch file='{_directory(conf, instance) / 'snapshot.part'}'/></disk></disks></domainbackup>")
    _virsh(hypervisor, "backup-begin", instance.uuid, str(job))
    assert "Backup" in _virsh(hypervisor, "domjobinfo", instance.uuid)
    with driver.snapshot(instance) as copy:
        _qemu_io(copy.path, "read -P 0 4M 64k")
    assert "None" in _virsh(hypervisor, "domjobinfo", instance.uuid)


def _qemu_io(*arguments):
    """``create`` PATH SIZE, or [options] PATH COMMAND; a read that finds other bytes than its pattern fails."""
    if arguments[0] == "create":
        command = ["qemu-img", "create", "-q", "-f", "qcow2", *map(str, arguments[1:])]
    else:
        *options, path, order = map(str, arguments)
        command = ["qemu-io", "-f", "qcow2", *options, "-c", order, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verification failed" not in done.stdout, done.stdout


def test_a_raw_disk_stays_raw_on_a_host_that_makes_qcow2_by_now(conf, hypervisor, fetch):
    """Its guest has written the header of an overlay: QEMU opens nothing for that, and no image is made of it."""
    guest = _instance()
    conf.set_override("images_type", "raw", group="libvirt")
    with started({"node-virt": conf}) as (driver,):
        driver.spawn(guest, [], FILES, fetch)
        driver.power_off(guest, 0)
    overlay = _directory(conf, guest) / "overlay"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", overlay], check=True)
    with open(_directory(conf, guest) / "disk", "r+b") as disk:
        disk.write(overlay.read_bytes())
    conf.set_override("images_type", "qcow2", group="libvirt")
    with started({"node-virt": conf}) as (driver,):
        driver.power_on(guest, [])
        assert _xml(hypervisor, guest).find("devices/disk/driver").get("type") == "raw"
        assert "passwd" not in _virsh(hypervisor, "dumpxml", guest.uuid)
        for is_off in (False, True):
            if is_off:
                driver.power_off(guest, 0)
            with pytest.raises(exception.ImageUnacceptable, match="claims to be raw, but its data is qcow2"), \
                    driver.snapshot(guest):
                pass
        driver.destroy(guest, [])
