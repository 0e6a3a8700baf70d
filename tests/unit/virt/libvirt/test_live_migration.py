"""Which disks are copied whole, when a copy has ended, and how long it may take."""
import dataclasses
import shutil
import threading
import time
import types

import pytest
from lxml import etree

import nova_lite.conf
from nova_lite.exception import ImageNotFound, VirtDriverError
from nova_lite.objects.guest_moves import Plan, SourceFacts
from nova_lite.units import GiB
from nova_lite.virt.libvirt import domain_xml, guest_config, images, migration_job, migration_xml
from nova_lite.virt.libvirt.connection import ConnectionLost
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.live_migration import LiveMigrations
from nova_lite.virt.libvirt.migration_job import is_overdue
from nova_lite.virt.libvirt.taps import Taps
from nova_lite.virt.libvirt.volume_host import VolumeHost
from nova_lite.virt.live import BROKEN, GIVE_UP, SPLIT, WHOLE
from tests.support.clock import FastClock
from tests.unit.virt.libvirt.builders import ENCRYPTION, IMAGE, NBD, instance, volume

libvirt = pytest.importorskip("libvirt")


def _live(conf, connection=None, disks=None, host=None):
    """Those of the host "one"; ``host`` finds what it has."""
    volumes = VolumeHost(conf, "one", connection)
    return LiveMigrations(conf, "one", connection, disks, volumes, Taps("one"), host, None, lambda _instance, _nics: None)


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
@pytest.mark.parametrize(("base", "whole"), [(IMAGE, False), ("the-image-of-its-shelf", True), ("", True)])
def test_a_disk_that_does_not_stand_on_the_servers_image_is_copied_whole(tmp_path, base, whole):
    """The destination could only make an overlay of the server's image, under which the rest of the disk would be lost."""
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    live = _live(conf, disks=DiskMaker(conf))
    files, server, fetched = live._files(instance()), instance(), []
    files.make()
    if base:
        (bases := files.path.parent / "_base").mkdir()
        (bases / base).write_bytes(bytes(1 << 20))
        images.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", bases / base, files.disk, "1G")
    else:
        images.run("qemu-img", "create", "-q", "-f", "qcow2", files.disk, "1G")
    [fact] = live._disks.facts(server, files)
    assert (fact["whole"], fact["used"] > 1 << 20) == (whole, bool(base) and whole)
    files.disk.unlink()

    def fetch(image_id, path):
        fetched.append(image_id)
        images.run("qemu-img", "create", "-q", "-f", "qcow2", path, "1M")
    (files.path.parent / "_base" / IMAGE).unlink(missing_ok=True)
    live.prepare(server, [], Plan(block=True, disks=[fact]), None, fetch)
    made = images.disk(files.disk, "qcow2")
    assert (made.size, made.base.name, fetched) == ((1 << 30, "", []) if whole else (1 << 30, IMAGE, [IMAGE]))


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
@pytest.mark.parametrize("disk_format", ["qcow2", "raw"])
def test_a_disk_whose_image_is_deleted_is_copied_whole(tmp_path, disk_format):
    """Its source stands on a copy; the other host has none, and nobody else."""
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), libvirt__images_type=disk_format)
    live = _live(conf, disks=DiskMaker(conf))
    server = instance(flavor=dataclasses.replace(instance().flavor, swap=8))
    files, fetched = live._files(server), []
    disks = [{"name": f"{server.uuid}/disk", "size": 1 << 30, "used": 0, "format": disk_format, "whole": False},
             {"name": f"{server.uuid}/disk.swap", "size": 8 << 20, "used": 0, "format": "raw", "whole": False}]

    def fetch(image_id, _path):
        fetched.append(image_id)
        raise ImageNotFound(image_id=image_id)
    for _ in range(2):      # the next daemon does it again, with the plan that it finds
        plan = live.prepare(server, [], Plan(block=True, disks=disks), None, fetch)
        made = images.disk(files.disk, disk_format)
        assert (made.size, made.base.name, files.swap.stat().st_size) == (1 << 30, "", 8 << 20)
        assert [disk["whole"] for disk in plan.disks] == [True, False]
        files.disk.unlink()
    assert fetched == [IMAGE]


@pytest.mark.parametrize(("address", "wanted", "uri"), [
    ("10.0.0.2", "", "qemu+tcp://10.0.0.2/system"), ("fd00::2", "", "qemu+tcp://[fd00::2]/system"),
    ("fd00::2", "qemu+tls://[%s]:16514/system", "qemu+tls://[fd00::2]:16514/system"),
    ("fd00::2", "qemu+unix:///system", "qemu+unix:///system")])
def test_the_other_libvirt_is_reached_by_ipv6_too(tmp_path, monkeypatch, address, wanted, uri):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), libvirt__migration_address=address,
                               libvirt__live_migration_uri=wanted)
    here = types.SimpleNamespace(inventory=lambda: None, facts=types.SimpleNamespace(listen=""))
    live = _live(conf, disks=DiskMaker(conf), host=lambda: here)
    monkeypatch.setattr(live, "_guest", lambda _instance: types.SimpleNamespace(power_state=lambda: None))
    monkeypatch.setattr("nova_lite.virt.libvirt.migration_check.check_host", lambda *_: None)
    plan = live.check(instance(), SourceFacts("QEMU", 1, 1), None, False)
    assert (plan.uri, plan.address) == (uri, address)


@pytest.mark.parametrize(("job", "overdue"), [
    ({}, False),
    ({"time_elapsed": 1_599_000, "memory_total": GiB // 8}, False),
    ({"time_elapsed": 1_601_000, "memory_total": GiB // 8}, True),
    ({"time_elapsed": 7_999_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, False),
    ({"time_elapsed": 8_001_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, True)])
def test_a_copy_has_800_seconds_for_each_gib_and_for_two_at_least(job, overdue):
    assert is_overdue(job, 800) == overdue
    assert not is_overdue(job, 0)


def _ended(error=None):
    """A call of libvirt that has returned, or raised ``error``."""
    def function():
        if error is not None:
            raise error
    call = migration_job.Call(function)
    while not call.ended:
        time.sleep(0.001)
    return call


def test_the_end_of_the_copy_is_seen_at_once(tmp_path, monkeypatch):
    """Nothing reaches the guest before its ports follow it, which they do then."""
    monkeypatch.setattr("nova_lite.virt.libvirt.live_migration._LOOK_SECONDS", 60.0)
    monkeypatch.setattr(migration_job, "statistics", lambda _guest: {})
    looked, end = [], threading.Event()
    call = migration_job.Call(lambda: end.wait(60))

    def report(_progress):
        looked.append(True)
        end.set()
    live = _live(nova_lite.conf.load([], config_files=[], state_path=str(tmp_path)))
    watching = threading.Thread(target=live._watch, args=(None, instance(), call, report, Plan()), daemon=True)
    watching.start()
    watching.join(30)
    assert looked == [True]
    assert not watching.is_alive()


@pytest.mark.parametrize(("error", "looks"), [
    (ConnectionLost(uri="qemu:///system", reason="it was closed"), 3), (VirtDriverError(what="libvirt", reason="no"), 1),
    (None, 1)])
def test_a_copy_goes_on_though_the_connection_was_lost_on_which_it_was_asked_for(tmp_path, monkeypatch, error, looks):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    live = _live(conf)
    jobs, looked = [{"type": 2}, {"type": 2}, {}], []

    def job(_guest):
        looked.append(jobs[len(looked)])
        return looked[-1]
    monkeypatch.setattr(migration_job, "statistics", job)
    live._watch(None, instance(), _ended(error), lambda _progress: None, Plan())
    assert len(looked) == looks


@pytest.mark.parametrize(("error", "active", "waits", "wanted", "seconds", "lost"), [
    ("what nobody has ever read", True, True, None, 9, ""),
    ("what nobody has ever read", True, True, "abort", 9, ""),
    (None, True, False, None, 9, ""),
    ("what nobody has ever read", True, False, None, 9, "one half of it is gone"),
    ("domain is no longer running", True, True, None, 9, "one half of it is gone"),
    ("what nobody has ever read", False, True, None, 9, "one half of it is gone"),
    ("what nobody has ever read", True, True, GIVE_UP, 9, "its new host was declared down, or it is being deleted"),
    ("what nobody has ever read", True, True, None, -1, "it could not be taken up for 2 hours"),
    (None, True, True, None, -1, "it could not be taken up for 2 hours")])
def test_a_copy_that_broke_is_taken_up_as_long_as_the_other_host_waits_for_the_rest(
        tmp_path, monkeypatch, error, active, waits, wanted, seconds, lost):
    """And nobody gives it up. A daemon that has just started (no error yet) tries first."""
    libvirt = pytest.importorskip("libvirt")
    failure, told = None, []
    if error is not None:
        failure = VirtDriverError(what="libvirt", reason=error)
        failure.__cause__ = libvirt.libvirtError(error)
        failure.__cause__.err = (libvirt.VIR_ERR_OPERATION_FAILED, 0, error, 2, None, None, None, 0, 0)
    guest = types.SimpleNamespace(lib=libvirt, is_active=lambda: active, unplug=lambda: told.append("unplug"))
    live = _live(nova_lite.conf.load([], config_files=[], state_path=str(tmp_path)))
    monkeypatch.setattr("nova_lite.virt.libvirt.live_migration._MEND_SECONDS", 0)
    monkeypatch.setattr(migration_job, "statistics", lambda _guest: {})
    why = live._recover(guest, instance(), Plan(), failure, lambda _progress: wanted, lambda: waits, time.monotonic() + seconds)
    assert (bool(why), told) == (bool(lost), ["unplug"] if lost else [])
    assert lost in why


@pytest.mark.parametrize(("wanted", "seconds"), [(GIVE_UP, 9), (None, -1)])
def test_an_attempt_to_take_a_copy_up_that_hangs_is_not_waited_for_once_it_is_given_up(tmp_path, monkeypatch, wanted, seconds):
    live = _live(nova_lite.conf.load([], config_files=[], state_path=str(tmp_path)))
    live._files(instance()).make()
    monkeypatch.setattr("nova_lite.virt.libvirt.post_copy.of", lambda _guest: BROKEN)
    monkeypatch.setattr(migration_job, "statistics", lambda _guest: {})
    end = threading.Event()
    hangs = migration_job.Call(lambda: end.wait(60))
    assert not live._watch(None, instance(), hangs, lambda _progress: wanted, Plan(post_copy=True), time.monotonic() + seconds)
    end.set()


@pytest.mark.parametrize(("state", "waits"), [
    (None, False), ("SHUTOFF FAILED", False), ("RUNNING MIGRATED", False), ("RUNNING POSTCOPY", True),
    ("RUNNING POSTCOPY_FAILED", True), ("PAUSED POSTCOPY_FAILED", True), ("PAUSED MIGRATION", True), ("PAUSED IOERROR", True)])
def test_a_host_waits_for_the_rest_of_a_guest_unless_it_is_gone_or_runs_in_one_piece(tmp_path, monkeypatch, state, waits):
    libvirt = pytest.importorskip("libvirt")
    kind, _, reason = (state or "NOSTATE UNKNOWN").partition(" ")
    domain = types.SimpleNamespace(isActive=lambda: kind != "SHUTOFF", state=lambda: [
        getattr(libvirt, f"VIR_DOMAIN_{kind}"), getattr(libvirt, f"VIR_DOMAIN_{kind}_{reason}")])

    def lookup(_uuid):
        if state is None:
            error = libvirt.libvirtError("no domain")
            error.err = (libvirt.VIR_ERR_NO_DOMAIN, 0, "no domain", 2, None, None, None, 0, 0)
            raise error
        return domain
    connection = types.SimpleNamespace(libvirt=libvirt, clock=FastClock(), run=lambda function, _once: function(
        types.SimpleNamespace(lookupByUUIDString=lookup)))
    live = _live(nova_lite.conf.load([], config_files=[], state_path=str(tmp_path)), connection)
    assert live.waits(instance()) is waits


class _Domain:
    """A guest whose copy ends when it is told to: by ``verb``, or never."""

    def __init__(self, log, refuse=()):
        self.log, self._refuse = log, list(refuse)

    def do(self, function, **_kind):
        return function(self)

    def pause(self):
        self._told("pause")

    def abortJob(self):  # noqa: N802
        self._told("abort")

    def migrateStartPostCopy(self, _flags):  # noqa: N802
        self._told("post-copy")

    def _told(self, what):
        self.log.append(what)
        if self._refuse:
            raise self._refuse.pop()


@pytest.mark.parametrize(("action", "takes", "log"), [
    ("abort", True, ["abort"]), ("force_complete", True, ["post-copy"]), ("force_complete", False, ["pause"])])
def test_what_becomes_of_a_copy_that_takes_too_long(tmp_path, monkeypatch, action, takes, log):
    told = _watch(tmp_path, monkeypatch, takes, lambda _progress: None, live_migration_completion_timeout=1,
                  live_migration_timeout_action=action)
    assert told == log


def test_a_forced_completion_is_asked_for_again_while_there_is_no_memory_to_copy_yet(tmp_path, monkeypatch):
    refusals = [VirtDriverError(what="libvirt", reason="no")] * 2
    assert _watch(tmp_path, monkeypatch, True, lambda _progress: "force_complete", refusals) == ["post-copy"] * 3


def test_a_host_that_does_not_permit_post_copy_stops_the_guest(tmp_path, monkeypatch):
    asked = {"live_migration_permit_post_copy": False}
    assert _watch(tmp_path, monkeypatch, True, lambda _progress: "force_complete", **asked) == ["pause"]


def _watch(tmp_path, monkeypatch, takes, report, refusals=(), **options):
    """What the guest is told until its copy ends, one look after the last word to it."""
    options = {"live_migration_permit_post_copy": True, **options}
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    for name, value in options.items():
        conf.set_override(name, value, group="libvirt")
    live, log = _live(conf), []
    monkeypatch.setattr("nova_lite.virt.libvirt.live_migration._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("nova_lite.virt.libvirt.live_migration._REPORT_SECONDS", 0.01)
    monkeypatch.setattr("nova_lite.virt.libvirt.post_copy.of", lambda _guest: WHOLE)
    ends = len(refusals) + 1
    monkeypatch.setattr(migration_job, "statistics",
                        lambda _guest: {} if len(log) == ends else {"type": 2, "time_elapsed": 3_000})
    live._watch(_Domain(log, refusals), instance(), None, report, Plan(post_copy=takes))
    return log


def test_an_encrypted_volume_is_opened_there_with_the_secret_of_the_destination():
    """Its source is what the destination has connected; where the secret is named travels with it."""
    def disk(port, secret):
        data = {**NBD["connection_info"]["data"], "port": port, "encryption": {**ENCRYPTION, "secret_uuid": secret}}
        device = volume(1, connection_info={"driver_volume_type": "nbd", "data": data})
        return guest_config.volume(instance(block_devices=[device]), device)

    here, there = (domain_xml.build_disk(disk(port, secret)) for port, secret in ((1, "old"), (2, "new")))
    xml = f"<domain><devices>{here}</devices></domain>"
    built = etree.fromstring(migration_xml.build(xml, Plan(root="/a", source_root="/a", volumes={volume(1).volume_id: there})))
    [source] = built.findall("devices/disk/source")
    assert source.find("host").get("port") == "2"
    assert [s.get("uuid") for s in source.findall("encryption/secret")] == ["new"]
    assert built.findall("devices/disk/encryption") == []


class _Leaving:
    """A guest, and its domain, that is told to go."""

    lib = libvirt
    flags = None

    def do(self, function, **_how):
        return function(self)

    def XMLDesc(self, _flags):
        return ("<domain><devices><disk><source file='/i/u/disk'/><target dev='vda'/></disk>"
                "<disk><source file='/i/u/disk.config'/><target dev='hda'/></disk></devices></domain>")

    def migrateToURI3(self, uri, parameters, flags):
        self.uri, self.parameters, self.flags = uri, parameters, flags


DISK = {"name": "u/disk", "size": 1, "used": 1, "format": "qcow2"}


@pytest.mark.parametrize(("options", "plan", "flags"), [
    ({}, {}, set()),
    ({"permit_auto_converge": True}, {}, {"AUTO_CONVERGE"}),
    ({"permit_auto_converge": True}, {"post_copy": True}, {"AUTO_CONVERGE"}),      # the other host alone does not make one
    ({"permit_auto_converge": True, "permit_post_copy": True}, {"post_copy": True}, {"POSTCOPY"}),
    ({"permit_auto_converge": True, "permit_post_copy": True}, {}, {"AUTO_CONVERGE"}),
    ({"with_native_tls": True}, {}, {"TLS"}),
    ({}, {"shared": True}, {"UNSAFE"}),
    ({}, {"block": True, "disks": [DISK]}, {"NON_SHARED_INC"}),
    ({}, {"block": True, "disks": [{**DISK, "whole": True}]}, {"NON_SHARED_DISK"})])
def test_how_libvirt_is_told_to_copy(tmp_path, options, plan, flags):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path),
                               **{f"libvirt__live_migration_{name}": value for name, value in options.items()})
    guest = _Leaving()
    _live(conf)._migrate(guest, Plan(
        uri="qemu+tcp://[fd00::2]/system", address="fd00::2", source_root="/i", root="/i", **plan))
    always = {"LIVE", "PEER2PEER", "PERSIST_DEST", "UNDEFINE_SOURCE"}
    told = {name for name in ("AUTO_CONVERGE", "POSTCOPY", "TLS", "UNSAFE", "NON_SHARED_INC", "NON_SHARED_DISK", *always)
            if guest.flags & getattr(libvirt, f"VIR_MIGRATE_{name}")}
    assert told == always | flags
    assert (guest.uri, guest.parameters["migrate_uri"]) == ("qemu+tcp://[fd00::2]/system", "tcp://[fd00::2]")
    assert guest.parameters.get("migrate_disks") == (["vda"] if plan.get("block") else None)


# what the record of the guest's directory says of a copy, and of an evacuation -------------------------------------------
class _Guest:
    """One that is here, running (or, ``power_state`` None, is not)."""

    lib = libvirt

    def __init__(self, power_state=1):
        self.uuid, self._power_state = instance().uuid, power_state

    def power_state(self):
        return self._power_state

    def do(self, function):
        return function(types.SimpleNamespace(state=lambda: self.state))

    state = [libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATED]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Makes the directory that the hosts share, with this record, and gives one host with a guest (or without)."""
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))

    def make(record, name="one", power_state=1):
        live = LiveMigrations(conf, name, None, DiskMaker(conf), None, Taps(name), None, None, None)
        monkeypatch.setattr(live, "_guest", lambda _instance: _Guest(power_state))
        files = live._files(instance())
        if record is not None:
            files.begin(record)
        return live, files
    monkeypatch.setattr(migration_job, "statistics", lambda _guest: {})
    return make


def _record(host, state, **values):
    return Record(instance().uuid, host, state, **values)


@pytest.mark.parametrize(("state", "begun"), [(State.LEAVING, True), (State.ARRIVING, True), (State.HERE, False)])
def test_a_source_forgets_the_copy_that_it_has_begun(directory, state, begun):
    live, files = directory(_record("one", state, base=""))
    assert live.has_begun(instance()) is begun
    live.begin_anew(instance())
    assert (live.has_begun(instance()), files.record) == (False, _record("one", State.HERE, base=""))


def test_the_switch_to_the_other_host_is_remembered_until_the_guest_has_arrived_there(directory, monkeypatch):
    """The hosts have one directory; the source is late, and does not take back what is the destination's by now."""
    source, files = directory(_record("one", State.HERE, disk_format="raw"))
    monkeypatch.setattr("nova_lite.virt.libvirt.post_copy.of", lambda _guest: SPLIT)
    ended = _ended()
    source._watch(_Guest(), instance(), ended, lambda _progress: None, Plan(post_copy=True))
    monkeypatch.setattr("nova_lite.virt.libvirt.post_copy.of", lambda _guest: WHOLE)
    assert source.post_copy(instance()) == SPLIT        # its process has ended
    destination, _ = directory(None, "two")
    destination.arrive(instance(), [], Plan(shared=True))
    monkeypatch.setattr("nova_lite.virt.libvirt.post_copy.of", lambda _guest: SPLIT)
    source._watch(_Guest(), instance(), ended, lambda _progress: None, Plan(post_copy=True))
    assert files.record == _record("two", State.HERE, disk_format="raw")


@pytest.mark.parametrize(("found", "power_state", "adopted"), [
    (("old", State.HERE), None, True), (("", State.ADOPTED), None, True), (("one", State.ADOPTED), 1, True),
    (("old", State.BUILDING), None, True), (("one", State.HERE), None, True), (("one", State.HERE), 1, False),
    (("one", State.ARRIVING), None, False), (None, None, False)])
def test_what_an_evacuation_finds_is_nobodys_until_it_has_ended(directory, found, power_state, adopted):
    live, files = directory(_record(*found, base="image") if found else None, power_state=power_state)
    for _ in range(2):
        live.adopt(instance())
    if adopted:
        assert files.record == _record("", State.ADOPTED, base="image")
    else:
        assert files.record == (_record(*found, base="image") if found else _record("one", State.ARRIVING))
    for _ in range(2):
        live.adopted(instance())
    assert (files.record.host, files.record.state) == ("one", State.ADOPTED if adopted else State.HERE)
