"""What a resize or a migration does with domains and files: two drivers, each with its own directory, on one libvirtd.

Guests have an empty disk with a pattern in it, so nothing boots and all is fast; see test_two_hosts.py for guests that live.
"""
from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception, keymgr
from nova_lite.compute import evacuate
from nova_lite.compute.external_events import ExternalEvents
from nova_lite.compute.work import Host, Work
from nova_lite.context import admin_context
from nova_lite.network import base as network_base
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt import guest_config
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_record import State
from tests.libvirt_host import LibvirtHost, started

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
OLD, NEW = Flavor("1", "old", 96, 1, 1, swap=1, ephemeral_gb=1), Flavor("2", "new", 128, 1, 2, swap=2, ephemeral_gb=2)
MOVE, OTHER_MOVE = str(uuid.uuid4()), str(uuid.uuid4())


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-moves") as host:
        yield host


@pytest.fixture
def drivers(hypervisor, tmp_path):
    confs = {name: nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / name),
                                       libvirt__connection_uri=hypervisor.uri, key_manager__fixed_key="5ec2e7" * 10)
             for name in ("one", "two")}
    with started(confs) as made:
        yield made


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "16M"], check=True)
    return path


@pytest.fixture
def fetch(image):
    return lambda _image_id, path: shutil.copyfile(image, path)


@pytest.fixture
def instance(drivers, fetch, tmp_path):
    meta = ImageMeta(str(uuid.uuid4()))
    made = Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="mover", flavor=OLD,
                    image_ref=meta.id, image=meta, config_drive=True)
    drivers[0].spawn(made, [], GuestFiles(metadata={"openstack/latest/meta_data.json": b"{}"}), fetch)
    drivers[0].power_off(made, 0)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 1M", _disk(tmp_path, "one", made)], check=True,
                   capture_output=True)
    yield made
    for one in drivers:
        one.destroy(made, [])


def _disk(tmp_path, host, instance, aside=""):
    return pathlib.Path(tmp_path, host, "instances", instance.uuid + aside, "disk")


def _info(path):
    out = subprocess.run(["qemu-img", "info", "-U", path], check=True, capture_output=True, text=True).stdout
    fields = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line and line[0] != " ")
    return int(fields["virtual size"].split("(")[1].split()[0]), fields["backing file"].split(" (")[0]


def _has_pattern(path):
    command = ["qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 7 1M 1M", path]
    return "Pattern verification failed" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _resized(instance):
    return dataclasses.replace(instance, flavor=NEW)


def _servers(instance):
    return subprocess.run(["pgrep", "-f", f"qemu-storage-daemon.*{instance.uuid}"], capture_output=True, text=True,
                          check=False).stdout.split()


def _go(old, new, instance, fetch, power_on=False):
    """Every step twice, as after a crash of each daemon."""
    for _ in range(2):
        old.set_aside(instance, [], 0, MOVE)
    assert old.power_state(instance) is None
    offer = old.offer_disks(instance)
    assert old.offer_disks(instance) == offer       # the same process, the same key
    for _ in range(2):
        new.receive_guest(instance, offer, fetch, MOVE)
    assert old.offers_disks(instance.uuid)
    old.withdraw_disks(instance)
    assert not old.offers_disks(instance.uuid)
    for _ in range(2):
        new.finish_move(_resized(instance), [], fetch, power_on)
    return offer


def test_a_guest_is_copied_grows_and_runs_on_the_other_host(drivers, instance, fetch, tmp_path):
    old, new = drivers
    offer = _go(old, new, instance, fetch, power_on=True)
    assert new.power_state(instance) == states.RUNNING
    disk = _disk(tmp_path, "two", instance)
    assert _info(disk) == (2 << 30, str(tmp_path / "two" / "instances" / "_base" / instance.image.id))
    assert _has_pattern(disk)
    assert (disk.with_name("disk.eph0").stat().st_size, disk.with_name("disk.swap").stat().st_size) == (2 << 30, 2 << 20)
    assert sorted(p.name for p in disk.parent.iterdir()) == ["console.log", "disk", "disk.config", "disk.eph0", "disk.swap",
                                                             "guest.json"]
    assert _servers(instance) == []
    assert offer.key
    assert (old.left_behind(), new.left_behind()) == ({instance.uuid}, set())
    for _ in range(2):
        old.drop_aside(instance)
    assert old.left_behind() == set()
    assert not _disk(tmp_path, "one", instance, "_resize").parent.exists()


def test_the_way_back(drivers, instance, fetch, tmp_path):
    old, new = drivers
    _go(old, new, instance, fetch)
    assert new.power_state(instance) == states.SHUTDOWN
    for _ in range(2):
        new.drop_received(instance, [], False, MOVE)
    for _ in range(2):
        old.bring_back(instance, [], True, MOVE)
    assert old.power_state(instance) == states.RUNNING
    assert _has_pattern(_disk(tmp_path, "one", instance))
    assert _info(_disk(tmp_path, "one", instance))[0] == 1 << 30
    assert not _disk(tmp_path, "two", instance).parent.exists()
    assert (old.left_behind(), new.left_behind(), _servers(instance)) == (set(), set(), [])


@pytest.mark.parametrize("back", [False, True])
def test_on_the_same_host(drivers, instance, fetch, tmp_path, back):
    one, _ = drivers
    one.drop_received(instance, [], True, MOVE)       # a move that failed before anything was set aside
    assert _disk(tmp_path, "one", instance).exists()
    one.set_aside(instance, [], 0, MOVE)
    one.receive_guest(instance, None, fetch, MOVE)
    one.finish_move(_resized(instance), [], fetch, False)
    if back:
        one.drop_received(instance, [], True, MOVE)
        one.bring_back(instance, [], False, MOVE)
    else:
        one.drop_aside(instance)
    assert _info(_disk(tmp_path, "one", instance))[0] == (1 if back else 2) << 30
    assert _has_pattern(_disk(tmp_path, "one", instance))
    assert one.left_behind() == set()
    assert one.power_state(instance) == states.SHUTDOWN


@pytest.mark.parametrize("has_digest", [True, False])
def test_an_image_that_was_deleted_comes_from_the_other_host(drivers, instance, tmp_path, has_digest):
    """Without a digest nobody knows that it is the image: only this guest stands on it."""
    bases = tmp_path / "two" / "instances" / "_base"
    if has_digest:
        data = (tmp_path / "image.qcow2").read_bytes()
        instance.image.size, instance.image.checksum = len(data), hashlib.sha512(data).hexdigest()

    def gone(image_id, _path):
        raise exception.ImageNotFound(image_id=image_id)

    old, new = drivers
    _go(old, new, instance, gone)
    assert [path.name for path in bases.glob("[!.]*")] == [instance.image.id if has_digest else f"moved-{MOVE}"]
    assert _has_pattern(_disk(tmp_path, "two", instance))


def test_without_the_key_nothing_is_shown(drivers, instance, tmp_path):
    old, new = drivers
    old.set_aside(instance, [], 0, MOVE)
    offer = old.offer_disks(instance)
    offer.key = "00" * 32
    with pytest.raises(exception.VirtDriverError, match="Copying disk"):
        new.receive_guest(instance, offer, lambda *_: None, MOVE)
    assert not _disk(tmp_path, "two", instance).exists()
    plain = subprocess.run(["qemu-img", "info", f"nbd://{offer.address}:{offer.port}/disk"], capture_output=True, check=False)
    assert plain.returncode != 0
    assert new.left_behind() == {instance.uuid}
    new.drop_left_behind(instance.uuid)
    old.bring_back(instance, [], False, MOVE)
    assert (new.left_behind(), _servers(instance)) == (set(), [])


def test_disks_do_not_shrink(drivers, instance):
    with pytest.raises(exception.ResizeError, match="Unable to resize disk down"):
        drivers[1].check_resize(_resized(instance), OLD)
    drivers[1].check_resize(instance, NEW)


def test_a_guest_whose_move_was_given_up_starts_where_it_was(drivers, instance):
    drivers[0].set_aside(instance, [], 0, MOVE)
    drivers[0].reboot(instance, [], True, 0)
    assert drivers[0].power_state(instance) == states.RUNNING
    assert drivers[0].left_behind() == set()


# evacuations ------------------------------------------------------------------------------------------------------------
class Conductor:
    """It takes everything that the host tells it; ``refuse`` is raised when the server is to be changed for the nth time."""

    def __init__(self):
        self.changes, self.refuse, self.done = 0, {}, False

    def instance_update(self, *_, **__):
        self.changes += 1
        if self.changes in self.refuse:
            raise self.refuse[self.changes]

    def migration_update(self, *_):
        return None

    def finish_action(self, *_):
        self.done = True


@pytest.fixture(params=["shared", "local"])
def evacuated(request, drivers, instance, hypervisor, tmp_path):
    """Evacuates the guest of the first host, which is dead, to the second one; answers the conductor that was told."""
    subprocess.run(["virsh", "-q", "-c", hypervisor.uri, "undefine", instance.uuid], check=True)
    shared = request.param == "shared"
    if shared:
        shutil.rmtree(tmp_path / "two" / "instances", ignore_errors=True)
        (tmp_path / "two").mkdir(exist_ok=True)
        (tmp_path / "two" / "instances").symlink_to(tmp_path / "one" / "instances")
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "two"), network__driver="null")
    network = network_base.load(conf, None)

    class Images:
        def download(self, _context, _image_id, path, _known):
            shutil.copyfile(tmp_path / "image.qcow2", path)

    def run(stopped=False, **refuse):
        conductor = Conductor()
        conductor.refuse = refuse.get("refuse", {})
        host = Host("two", "two:1", drivers[1], Images(), network, None, conductor, ExternalEvents(conf, network), conf, None)
        action = Action(1, instance.uuid, "evacuate", "req-1", verb="evacuate", arguments={"stopped": stopped})
        move = Migration(1, str(uuid.uuid4()), instance.uuid, "evacuation", "accepted", "one", dest_compute="two",
                         dest_node="two")
        before = dataclasses.replace(instance, host="one", vm_state=states.ACTIVE, task_state=states.REBUILDING)
        evacuate.run(Work(host, admin_context(), action, before, move))
        return conductor

    run.shared = shared
    return run


class _OffFails:
    """A driver whose guests cannot be powered off."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def power_off(self, _instance, _timeout):
        raise exception.VirtDriverError(what="Power off", reason="libvirt is gone for a moment")


def test_a_failed_evacuation_leaves_shared_disks_and_no_others(drivers, instance, evacuated, tmp_path):
    real = drivers[1]
    drivers[1] = _OffFails(real)
    with pytest.raises(exception.VirtDriverError):
        evacuated(stopped=True)
    drivers[1] = real
    assert real.power_state(instance) is None
    assert _disk(tmp_path, "two", instance).exists() == evacuated.shared
    assert _disk(tmp_path, "one", instance).exists()
    assert evacuated().done
    assert real.power_state(instance) == states.RUNNING
    if evacuated.shared:
        assert _has_pattern(_disk(tmp_path, "two", instance))
    assert real.left_behind() == set()


def test_one_that_ends_when_the_files_are_its_own_leaves_the_shared_ones(drivers, instance, evacuated, tmp_path):
    """The last change of the server is refused, or the daemon dies after it and the next one's first change is."""
    with pytest.raises(exception.UnexpectedTaskState):
        evacuated(refuse={4: exception.UnexpectedTaskState(instance_id="i", expected="a", actual="deleting")})
    assert _disk(tmp_path, "two", instance).exists() == evacuated.shared
    evacuated()     # and its end was not heard of:
    with pytest.raises(exception.UnexpectedTaskState):
        evacuated(refuse={1: exception.UnexpectedTaskState(instance_id="i", expected="a", actual="deleting")})
    assert drivers[1].power_state(instance) is None
    assert _disk(tmp_path, "two", instance).exists() == evacuated.shared
    assert drivers[1].left_behind() == set()


@pytest.mark.parametrize("now_at", ["one", "three"])
def test_one_that_is_somebody_else_s_after_its_last_step_leaves_the_shared_ones(drivers, instance, evacuated, tmp_path, now_at):
    """The new host was away before it could say that it is done: the old one has the server, or yet another one."""
    evacuated()     # and nobody has heard of its end
    elsewhere = dataclasses.replace(instance, host=now_at)
    drivers[1].destroy(elsewhere, [])
    assert drivers[1].power_state(instance) is None
    disk = _disk(tmp_path, "two", instance)
    assert disk.exists() == evacuated.shared
    assert not evacuated.shared or _has_pattern(disk)
    drivers[1].destroy(dataclasses.replace(elsewhere, deleted=1), [])
    assert not disk.exists()


def test_a_server_that_was_evacuated_goes_with_its_files(drivers, instance, evacuated, tmp_path):
    evacuated()
    drivers[1].destroy(dataclasses.replace(instance, host="two"), [])
    assert not _disk(tmp_path, "two", instance).exists()


# encrypted volumes ------------------------------------------------------------------------------------------------------
def _secrets(hypervisor):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, "secret-list"], capture_output=True, text=True,
                          check=True).stdout.split()[::3]


@pytest.fixture
def encrypted(drivers, instance, tmp_path):
    """A volume of the server that was empty when the host connected it; the server is off."""
    path = tmp_path / "volume.raw"
    path.touch()
    os.truncate(path, 4 << 20)
    said = {"provider": "luks", "encryption_key_id": keymgr.FIXED_KEY_ID, "cipher": "aes-xts-plain64", "key_size": 256}
    info = {"driver_volume_type": "local", "data": {"device_path": str(path), "encrypted": True, "encryption": said}}
    device = BlockDevice(id=str(uuid.uuid4()), source_type="volume", volume_id=str(uuid.uuid4()))
    device.connection_info = drivers[0].connect_volume(instance, device, info)
    assert path.read_bytes()[:4] == b"LUKS"
    return device, info


def test_the_passphrase_of_a_volume_is_there_while_its_guest_is(drivers, hypervisor, instance, encrypted, monkeypatch):
    one, (device, _info) = drivers[0], encrypted
    one.attach_volume(instance, device)
    instance.block_devices = [device]
    assert _secrets(hypervisor) == []       # of a guest that is off
    one.power_on(instance, [])
    [secret] = _secrets(hypervisor)
    one.pause(instance)
    one.unpause(instance)
    assert _secrets(hypervisor) == [secret]
    one.suspend(instance)
    assert _secrets(hypervisor) == []
    one.resume(instance, [])
    subprocess.run(["virsh", "-c", hypervisor.uri, "secret-undefine", secret], check=True, capture_output=True)
    one.reboot(instance, [], hard=True, timeout=0)      # as after a restart of libvirt
    assert _secrets(hypervisor) == [secret]
    one.power_off(instance, 0)

    def away(_self, _key_id):
        raise exception.ServiceUnavailable(what="The key manager", reason="it is away")

    with monkeypatch.context() as patch:
        patch.setattr(keymgr.KeyManager, "passphrase", away)
        with pytest.raises(exception.ServiceUnavailable, match="key manager"):
            one.power_on(instance, [])
        assert one.power_state(instance) == states.SHUTDOWN
    one.power_on(instance, [])
    one.destroy(instance, [])
    assert _secrets(hypervisor) == []
    for _ in range(2):
        one.disconnect_volume(instance, device)


def test_the_passphrase_of_a_volume_goes_where_its_server_goes(drivers, hypervisor, instance, encrypted, fetch):
    (old, new), (device, info) = drivers, encrypted
    instance.block_devices = [device]
    old.power_on(instance, [])
    before = _secrets(hypervisor)
    old.set_aside(instance, [], 0, MOVE)
    old.disconnect_volume(instance, device)
    assert _secrets(hypervisor) == []
    offer = old.offer_disks(instance)
    new.receive_guest(instance, offer, fetch, MOVE)
    old.withdraw_disks(instance)
    device.connection_info = new.connect_volume(instance, device, info)
    new.finish_move(instance, [], fetch, True)
    assert _secrets(hypervisor) == before
    assert new.power_state(instance) == states.RUNNING
    new.destroy(instance, [])
    assert _secrets(hypervisor) == []


# live migrations --------------------------------------------------------------------------------------------------------
def test_where_the_guest_of_a_copy_is(drivers, instance, hypervisor, tmp_path):
    live, files = drivers[0].live, GuestDirectory(tmp_path / "one" / "instances", instance.uuid)
    files.note(state=State.LEAVING)
    assert live.has_begun(instance)         # the guest is here, and nothing goes on
    assert not live.has_come(instance)      # it is off
    drivers[0].power_on(instance, [])
    assert live.has_come(instance)
    drivers[0].pause(instance)
    assert live.has_come(instance)
    assert live.has_begun(instance)
    live.begin_anew(instance)
    assert not live.has_begun(instance)
    files.note(state=State.LEAVING)
    for command in ("destroy", "undefine"):
        subprocess.run(["virsh", "-q", "-c", hypervisor.uri, command, instance.uuid], check=True)
    assert not live.has_begun(instance)     # it has left
    assert not live.has_come(instance)


# hosts with one directory -----------------------------------------------------------------------------------------------
@pytest.fixture
def shared(hypervisor, tmp_path):
    """Two drivers with one directory, as on NFS."""
    made = []
    for name in ("a", "b"):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / "one"),
                                   libvirt__connection_uri=hypervisor.uri, key_manager__fixed_key="5ec2e7" * 10)
        made.append(virt_driver.load(conf, name))
        made[-1].init_host(lambda *_: None)
    yield made
    for one in made:
        one.stop_host()


def test_hosts_that_share_their_directories_remove_only_what_is_theirs(shared, drivers, fetch, tmp_path):
    a, b = shared
    meta = ImageMeta(str(uuid.uuid4()))
    made = Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="mover", flavor=OLD,
                    image_ref=meta.id, image=meta)
    disk = _disk(tmp_path, "one", made)
    a.spawn(made, [], GuestFiles(metadata={}), fetch)
    b.drop_received(made, [], False, MOVE)      # of a move of which nothing has come
    b.destroy(made, [])
    assert disk.exists()
    a.set_aside(made, [], 0, MOVE)
    for _ in range(2):
        b.receive_guest(made, a.offer_disks(made), fetch, MOVE)
    a.withdraw_disks(made)
    b.finish_move(made, [], fetch, False)
    assert a.left_behind() == {made.uuid}
    a.destroy(made, [])         # it was gone, and is told late that the guest has left
    assert (a.left_behind(), disk.exists()) == (set(), True)
    b.clear(made, [], keep_ephemeral=True)
    b.destroy(made, [])
    assert list(disk.parent.parent.glob(f"{made.uuid}*")) == []


@pytest.mark.skipif(not shutil.which("swtpm_setup") or not pathlib.Path("/usr/share/OVMF").is_dir(),
                    reason="needs swtpm, swtpm-tools and ovmf")
def test_firmware_and_tpm_remember_what_they_were_told(drivers, hypervisor, fetch, tmp_path):
    old, new = drivers
    specs = {"hw:tpm_version": "2.0", "hw:watchdog_action": "reset"}
    properties = {"hw_firmware_type": "uefi", "hw_machine_type": "q35", "os_secure_boot": "required"}
    flavor = dataclasses.replace(OLD, extra_specs=specs)
    guest = Instance(uuid=str(uuid.uuid4()), id=2, project_id="p", user_id="u", display_name="rememberer", flavor=flavor,
                     image_ref="i", image=ImageMeta(str(uuid.uuid4()), properties=properties))
    old.spawn(guest, [], GuestFiles(), fetch)
    try:
        xml = subprocess.run(["virsh", "-c", hypervisor.uri, "dumpxml", guest.uuid], check=True, capture_output=True,
                             text=True).stdout
        assert all(text in xml for text in ("secure='yes'", "i6300esb", "<rng", "tpm-tis"))
        old.power_off(guest, 0)
        variables = _disk(tmp_path, "one", guest).with_name("nvram.fd")
        memory = hypervisor.directory / "lib" / "swtpm" / guest.uuid / "tpm2" / "tpm2-00.permall"
        with variables.open("r+b") as stream:
            stream.seek(-16, os.SEEK_END)
            stream.write(b"written by guest")
        remembered = memory.read_bytes()
        old.set_aside(guest, [], 0, MOVE)
        assert not memory.exists()
        new.receive_guest(guest, old.offer_disks(guest), fetch, MOVE)
        old.withdraw_disks(guest)
        new.finish_move(guest, [], fetch, False)
        assert _disk(tmp_path, "two", guest).with_name("nvram.fd").read_bytes() == variables_of(tmp_path, guest)
        assert memory.read_bytes() == remembered
        new.power_on(guest, [])
        assert new.power_state(guest) == states.RUNNING
        new.drop_received(guest, [], False, MOVE)
        old.bring_back(guest, [], True, MOVE)
        assert memory.read_bytes()
        assert variables.read_bytes().endswith(b"written by guest")
    finally:
        for one in drivers:
            one.destroy(guest, [])
    assert not memory.parent.parent.exists()
    assert not variables.parent.exists()


@pytest.mark.skipif(not shutil.which("swtpm_setup"), reason="needs swtpm and swtpm-tools")
@pytest.mark.parametrize("fails", ["the configuration", "define", "the host"])
def test_a_tpm_s_memory_stays_on_no_host_whose_move_failed(drivers, hypervisor, fetch, monkeypatch, fails):
    """The domain was not made there, so libvirt removes nothing."""
    old, new = drivers
    guest = Instance(uuid=str(uuid.uuid4()), id=3, project_id="p", user_id="u", display_name="rememberer", image_ref="i",
                     flavor=dataclasses.replace(OLD, extra_specs={"hw:tpm_version": "2.0"}), image=ImageMeta(str(uuid.uuid4())))
    kept = hypervisor.directory / "lib" / "swtpm" / guest.uuid
    old.spawn(guest, [], GuestFiles(), fetch)
    try:
        old.set_aside(guest, [], 0, MOVE)
        new.receive_guest(guest, old.offer_disks(guest), fetch, MOVE)
        old.withdraw_disks(guest)
        with monkeypatch.context() as patched:
            if fails == "the configuration":
                patched.setattr(guest_config, "make", _fail)
            else:
                patched.setattr(Guest, "define", _fail)
            with pytest.raises(exception.VirtDriverError, match="no such thing"):
                new.finish_move(guest, [], fetch, True)
        assert kept.exists() == (fails != "the configuration")
        if fails == "the host":     # for so long that nobody waits for it any more
            assert new.left_behind() == {guest.uuid}
            new.drop_left_behind(guest.uuid)
        else:
            new.drop_received(guest, [], False, MOVE)
        assert not kept.exists()
        with monkeypatch.context() as patched:      # nor on one that it comes back to, and leaves again
            patched.setattr(Guest, "define", _fail)
            with pytest.raises(exception.VirtDriverError, match="no such thing"):
                old.bring_back(guest, [], True, MOVE)
        old.set_aside(guest, [], 0, OTHER_MOVE)
        assert not kept.exists()
        old.bring_back(guest, [], True, OTHER_MOVE)
        assert (kept / "tpm2" / "tpm2-00.permall").stat().st_size
        assert old.power_state(guest) == states.RUNNING
    finally:
        for one in drivers:
            one.destroy(guest, [])
    assert not kept.exists()


def _fail(*_args):
    raise exception.VirtDriverError(what="This host", reason="no such thing")


def variables_of(tmp_path, guest):
    return _disk(tmp_path, "one", guest, "_resize").with_name("nvram.fd").read_bytes()
