"""Whether a host can take a guest that runs elsewhere, and its disks."""
import collections

import pytest

import nova_lite.conf
from nova_lite import exception, units
from nova_lite.objects.guest_moves import Plan, SourceFacts
from nova_lite.virt.driver import Inventory
from nova_lite.virt.libvirt import migration_check
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest_record import State
from nova_lite.virt.libvirt.live_migration import LiveMigrations

from .builders import UUID, instance

libvirt = pytest.importorskip("libvirt")
Usage = collections.namedtuple("Usage", "total used free")


class Daemon:
    """A libvirtd that says what it can: ``machines`` it has, and how its CPU compares with that of a guest."""

    libvirt = libvirt

    def __init__(self, cpu=libvirt.VIR_CPU_COMPARE_SUPERSET, machines=("pc-q35",)):
        self.cpu, self.machines, self.compared = cpu, machines, []

    def run(self, function, *_arguments, **_named):
        try:
            return function(self)
        except libvirt.libvirtError as error:
            raise exception.VirtDriverError(what="libvirt", reason=str(error)) from error

    def getDomainCapabilities(self, _emulator, _arch, machine, _virt_type):
        if machine not in self.machines:
            raise libvirt.libvirtError("the machine is not supported by emulator")

    def compareHypervisorCPU(self, *asked):
        self.compared.append(asked)
        return self.cpu


def _there(**values):
    return SourceFacts(**{"hypervisor_type": "QEMU", "hypervisor_version": 8_000_000, "power_state": 1, "arch": "x86_64",
                          "machine": "pc-q35", "virt_type": "kvm", "cpu": "<cpu mode='custom'/>", **values})


def _check(daemon=None, **values):
    here = Inventory("here", "QEMU", 8_000_000, 4, 4096, 100)
    migration_check.check_host(daemon or Daemon(), here, _there(**values))


def test_a_host_that_has_all_takes_the_guest():
    daemon = Daemon()
    _check(daemon, hypervisor_version=7_000_000)
    assert daemon.compared == [(None, "x86_64", "pc-q35", "kvm", "<cpu mode='custom'/>")]
    _check(Daemon(libvirt.VIR_CPU_COMPARE_IDENTICAL))
    _check(Daemon(libvirt.VIR_CPU_COMPARE_INCOMPATIBLE), cpu="")       # emulation says nothing of a CPU


@pytest.mark.parametrize(("daemon", "values", "error", "text"), [
    (None, {"hypervisor_type": "Xen"}, exception.InvalidHypervisorType, "hypervisor"),
    (None, {"hypervisor_version": 8_000_001}, exception.DestinationHypervisorTooOld, "newer hypervisor"),
    (Daemon(libvirt.VIR_CPU_COMPARE_INCOMPATIBLE), {}, exception.InvalidCPUInfo, "CPU of host here"),
    (None, {"machine": "pc-new"}, exception.MigrationPreCheckError, "host here cannot run kvm guests of machine type pc-new")])
def test_a_host_that_lacks_something_refuses_the_guest(daemon, values, error, text):
    with pytest.raises(error, match=text):
        _check(daemon, **values)


@pytest.mark.parametrize(("over_commit", "free", "fits"), [
    (False, 10, True), (False, 9, False), (True, 2, True), (True, 1, False)])
def test_disks_that_do_not_fit_are_refused(tmp_path, monkeypatch, over_commit, free, fits):
    """Over-committed, they need what they take up now; else what they may grow to."""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage(100 * units.GiB, 0, free * units.GiB))
    there = _there(disks=[{"name": f"{UUID}/disk", "size": 8 * units.GiB, "used": units.GiB, "format": "qcow2"},
                          {"name": f"{UUID}/disk.eph0", "size": 2 * units.GiB, "used": units.GiB, "format": "raw"}])

    def check():
        return migration_check.check_storage(instance(), tmp_path, there, False, None, over_commit)
    if fits:
        assert check()
    else:
        with pytest.raises(exception.MigrationPreCheckError, match=f"Disk of instance is too large.*{free}.0 GiB < need:"):
            check()


@pytest.mark.parametrize(("theirs", "mine"), [("rbd:f/vms", ""), ("", "rbd:f/vms"), ("rbd:f/vms", "rbd:f/others")])
def test_disks_elsewhere_than_in_this_hosts_pool_are_refused_before_anything(tmp_path, theirs, mine):
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk.eph0", "size": 1, "used": 1, "format": "raw"}], pool=theirs)
    for shared in (False, True):
        with pytest.raises(exception.MigrationPreCheckError, match="images_type"):
            migration_check.check_storage(instance(), tmp_path, there, shared, None, False, mine)
    there.disks = []
    assert not migration_check.check_storage(instance(), tmp_path, there, False, None, False, mine)


def test_encrypted_disks_are_not_copied_while_their_guest_runs(tmp_path):
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk", "size": 1, "used": 1, "format": "qcow2"}])
    server = instance({"hw:ephemeral_encryption": "true"})
    with pytest.raises(exception.MigrationPreCheckError, match="migrated cold"):
        migration_check.check_storage(server, tmp_path, there, False, None, False)
    assert not migration_check.check_storage(server, tmp_path, there, True, None, False)
    there.disks = []
    assert not migration_check.check_storage(server, tmp_path, there, False, None, False)


def test_disks_in_this_hosts_pool_are_shared(tmp_path):
    pool = "rbd:f/vms"
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk", "size": 1 << 60, "used": 1 << 60, "format": "rbd"}],
                        pool=pool)
    for block in (None, False):
        assert not migration_check.check_storage(instance(), tmp_path, there, False, block, False, pool)
    with pytest.raises(exception.InvalidLocalStorage):
        migration_check.check_storage(instance(), tmp_path, there, False, True, False, pool)


def test_a_directory_that_cannot_be_read_is_not_taken_for_one_of_ones_own(tmp_path):
    """The storage of both hosts may not answer for a moment: what is prepared for a copy of the disks would remove them."""
    files, there = GuestDirectory(tmp_path, UUID), SourceFacts("QEMU", 1, 1, token="t")
    assert not migration_check.is_shared(files, there)
    (files.path / migration_check.TOKEN).mkdir(parents=True)
    with pytest.raises(exception.MigrationPreCheckError, match="not known whether"):
        migration_check.is_shared(files, there)


def test_the_directory_of_another_hosts_guest_is_not_made_anew(tmp_path):
    """It was mounted after the check."""
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    removed = []
    live = LiveMigrations(conf, "two", None, None, None, None, None, None, lambda *what: removed.append(what))
    files = GuestDirectory(tmp_path / "instances", UUID)
    files.make()
    files.disk.write_text("data")
    files.note(host="one", state=State.HERE)
    with pytest.raises(exception.MigrationPreCheckError, match="on host one"):
        live.prepare(instance(), [], Plan(block=True), None, None)
    assert (removed, files.disk.read_text()) == ([], "data")


def test_the_file_that_a_check_needed_goes_unless_there_is_a_newer_one(tmp_path):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    live = LiveMigrations(conf, "one", None, None, None, None, None, None, None)
    live.forget(UUID, "first")      # a guest without a directory has none
    files = GuestDirectory(tmp_path / "instances", UUID)
    files.path.mkdir(parents=True)
    (files.path / migration_check.TOKEN).write_text("second")
    for token, is_there in (("first", True), ("second", False), ("second", False)):
        live.forget(UUID, token)
        assert (files.path / migration_check.TOKEN).exists() is is_there


@pytest.mark.parametrize("uri", [
    "qemu+tcp://10.0.0.2/system", "qemu+tls://[fd00::2]/system?no_verify=1", "qemu+ssh://root@h2/system?keyfile=/etc/key&no_tty=1",
    "qemu+unix:///system?socket=/run/a,b/socket"])
def test_a_uri_that_reaches_another_host(uri):
    migration_check.check_uri(uri)


@pytest.mark.parametrize("uri", [
    "qemu+ext://h2/system?command=/bin/sh", "qemu+ext:///system", "qemu+ssh://h2/system?command=/tmp/x", "lxc:///", "",
    "qemu+ssh://h2/system?socket=/s;command=/tmp/x", "qemu+ssh://h2/system?Command=/x", "qemu+ssh://h2/system?%63ommand=/x"])
def test_a_uri_that_runs_a_program_of_this_host_is_refused(uri):
    with pytest.raises(exception.MigrationPreCheckError) as caught:
        migration_check.check_uri(uri)
    assert "h2" not in caught.value.public
