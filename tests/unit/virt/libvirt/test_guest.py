"""Connection, guest and events on libvirt's own test driver, which lives in this process and needs no daemon."""
import threading
import time
import uuid

import pytest

from nova_lite import exception
from nova_lite.objects import states
from nova_lite.virt.libvirt import guest as guests
from nova_lite.virt.libvirt.connection import Connection, Disconnected
from nova_lite.virt.libvirt.events import Watcher
from nova_lite.virt.libvirt.guest import Guest, all_power_states
from nova_lite.virt.libvirt.guest_disks import GuestDisks
from tests.support.clock import FastClock

libvirt = pytest.importorskip("libvirt")
XML = ("<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory>"
       "<os><type>hvm</type></os></domain>")


@pytest.fixture
def connection():
    made = Connection("test:///default", FastClock())
    made.open()
    yield made
    made.close()


@pytest.fixture
def guest(connection):
    made = Guest(connection, str(uuid.uuid4()))
    yield made
    made.unplug()
    made.undefine()


def _define(guest):
    guest.define(XML.format(name="g" + guest.uuid[:8], uuid=guest.uuid))
    return guest


def test_the_life_of_a_guest_each_step_twice(guest, connection):
    assert guest.power_state() is None
    guest.unplug()
    guest.undefine()
    for _ in range(2):
        _define(guest)
    assert guest.power_state() == states.SHUTDOWN
    for step, state in ((guest.start, states.RUNNING), (guest.pause, states.POWER_PAUSED), (guest.unpause, states.RUNNING),
                        (guest.save, states.SHUTDOWN), (guest.start, states.RUNNING), (guest.unplug, states.SHUTDOWN)):
        for _ in range(2):
            step()
            assert guest.power_state() == state, step
    assert all_power_states(connection)[guest.uuid] == states.SHUTDOWN
    for _ in range(2):
        guest.undefine()
        assert guest.power_state() is None


def test_one_that_was_copied_while_it_was_paused_is_known_until_it_runs(guest):
    """QEMU would lose its memory: see paused_copy.py."""
    assert not guest.was_copied_paused()
    _define(guest).start()
    guest.pause()
    assert not guest.was_copied_paused()
    for _ in range(2):
        guest.note_paused_copy()
    assert guest.was_copied_paused()
    with pytest.raises(exception.VirtDriverError, match="unpause it first"):
        guest.save()
    for _ in range(2):
        guest.unpause()
    guest.pause()
    assert not guest.was_copied_paused()


def test_no_disk_of_one_that_was_copied_while_it_was_paused_is_resized(guest):
    disk = ("<devices><disk type='file' device='disk'><source file='/volume'/><target dev='vdb' bus='virtio'/>"
            "<serial>volume</serial></disk></devices></domain>")
    guest.define(XML.format(name="g" + guest.uuid[:8], uuid=guest.uuid).replace("</domain>", disk))
    guest.start()
    guest.pause()
    guest.note_paused_copy()
    with pytest.raises(exception.VirtDriverError, match="unpause it first"):
        GuestDisks(guest).resize("volume", 1)


def test_a_guest_that_was_started_anew_is_not_the_one_that_was_copied(guest):
    _define(guest).start()
    guest.pause()
    guest.note_paused_copy()
    guest.unplug()
    assert not guest.was_copied_paused()
    guest.start()
    guest.pause()
    assert not guest.was_copied_paused()


class OnDeadStorage:
    """A domain whose process waits for its storage: libvirt cannot end it ``busy`` times."""

    def __init__(self, busy: int) -> None:
        self.busy, self.asked = busy, 0

    def isActive(self):  # noqa: N802
        return self.busy > 0

    def state(self):
        return (libvirt.VIR_DOMAIN_RUNNING if self.busy else libvirt.VIR_DOMAIN_SHUTOFF, 0)

    def shutdownFlags(self, _flags):  # noqa: N802
        raise libvirt.libvirtError("Requested operation is not valid: domain is not running")

    def destroy(self):
        self.asked += 1
        self.busy -= 1
        if self.busy or self.asked % 2:     # it may also end just after libvirt's time-out
            raise libvirt.libvirtError("Failed to terminate process 1 with SIGKILL: Device or resource busy")


@pytest.fixture
def stuck(connection, monkeypatch):
    def make(busy):
        domain = OnDeadStorage(busy)
        made = Guest(connection, str(uuid.uuid4()))
        monkeypatch.setattr(made, "do", lambda function, **_options: _as_driver_error(function, domain))
        return made, domain
    return make


def _as_driver_error(function, domain):
    try:
        return function(domain)
    except libvirt.libvirtError as error:
        raise exception.VirtDriverError(what="libvirt", reason=str(error)) from error


@pytest.mark.parametrize("busy", [1, 2, 3])
def test_a_guest_on_dead_storage_is_turned_off(stuck, busy):
    guest, domain = stuck(busy)
    assert not guest.shut_down(0.3)
    guest.unplug()
    assert domain.asked == busy


def test_a_process_that_never_ends_is_told(stuck):
    guest, domain = stuck(100)
    with pytest.raises(exception.VirtDriverError, match="Failed to terminate"):
        guest.unplug()
    assert domain.asked == len(guests.PULLS.pauses) + 1


def test_what_lasts_has_a_connection_of_its_own(guest, connection):
    shared = connection.run(lambda c: c)
    assert connection.run_lasting(lambda c: c is shared or c.getURI()) == "test:///default"
    with pytest.raises(exception.VirtDriverError, match="Domain not found"):
        guest.save()
    _define(guest).start()
    guest.save()
    assert guest.power_state() == states.SHUTDOWN


class Between:
    """A domain with which libvirt is busy for some looks, for who asked for that was killed; and the connection to it."""

    libvirt, clock = libvirt, FastClock()

    def __init__(self, state, looks, then):
        self.place, self.looks, self.then = state, looks, then
        self.calls = []

    def lookupByUUIDString(self, _uuid):
        return self

    def run(self, function, *_):
        return function(self)

    run_lasting = run

    def metadata(self, *_):
        raise _refused(libvirt.VIR_ERR_NO_DOMAIN_METADATA)

    def hasManagedSaveImage(self, _flags):
        return False

    def state(self):
        if self.looks == 0:
            self.place = self.then
        self.looks -= 1
        return list(self.place)

    def isActive(self):
        return self.place[0] != libvirt.VIR_DOMAIN_SHUTOFF

    def managedSave(self, _flags):
        self.calls.append("save")
        if self.then[0] == libvirt.VIR_DOMAIN_SHUTOFF:      # the other one has come to its end at this moment
            self.place = self.then
            raise _refused(libvirt.VIR_ERR_OPERATION_INVALID)
        raise _refused(libvirt.VIR_ERR_OPERATION_TIMEOUT)

    def createWithFlags(self, _flags):
        self.calls.append("start")


def _refused(code):
    error = libvirt.libvirtError("refused")
    error.err = (code, libvirt.VIR_FROM_QEMU, "refused", libvirt.VIR_ERR_ERROR, None, None, None, 0, 0)
    return error


OFF, RUNS = (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SAVED), (libvirt.VIR_DOMAIN_RUNNING, 0)
SAVES = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SAVE)
STARTS = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
DUMPS = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_DUMP)


@pytest.mark.parametrize(("step", "state", "then", "calls"), [
    ("save", SAVES, OFF, []), ("save", RUNS, OFF, ["save"]), ("start", SAVES, OFF, ["start"]), ("start", STARTS, RUNS, [])])
def test_what_libvirt_goes_on_with_is_waited_for(step, state, then, calls):
    domain = Between(state, 3, then)
    getattr(Guest(domain, "u"), step)()
    assert (domain.calls, domain.looks < 0) == (calls, state != RUNS)


def test_a_start_of_another_process_that_fails_while_it_is_looked_at_has_not_started_the_guest():
    assert not Guest(Between(STARTS, 0, OFF), "u").has_started()
    assert not Guest(Between(STARTS, 9, OFF), "u").has_started()
    assert Guest(Between(RUNS, 9, OFF), "u").has_started()


def test_what_else_is_done_with_a_guest_refuses_its_save():
    with pytest.raises(libvirt.libvirtError):
        Guest(Between(DUMPS, 99, RUNS), "u").save()


def test_a_paused_guest_does_not_hear_the_power_button(guest):
    _define(guest).start()
    guest.pause()
    started = time.monotonic()
    assert not guest.shut_down(300)
    assert time.monotonic() - started < 100


def test_what_must_exist_and_does_not_is_an_error(guest):
    for step in (guest.start, guest.pause, guest.save, guest.inject_nmi, lambda: guest.set_password("root", "s3cret")):
        with pytest.raises(exception.VirtDriverError, match="omain"):
            step()


def test_a_daemon_that_is_not_there_is_told_in_one_line():
    missing = Connection("qemu+unix:///system?socket=/nonexistent/sock")
    with pytest.raises(exception.VirtDriverError, match="Connecting to libvirt at qemu.*nonexistent"):
        missing.open()


def test_a_closed_connection_stays_closed(connection):
    connection.close()
    with pytest.raises(exception.VirtDriverError, match="closed"):
        all_power_states(connection)


class Told(list):
    """Collects callbacks."""

    def __init__(self):
        self._more = threading.Condition()

    def __call__(self, uuid, state):
        with self._more:
            self.append((uuid, state))
            self._more.notify_all()

    def wait_for(self, item, timeout=10):
        with self._more:
            assert self._more.wait_for(lambda: item in self, timeout), list(self)


@pytest.fixture
def told(connection):
    made = Told()
    watcher = Watcher(connection, made)
    made.watcher = watcher
    yield made
    watcher.stop()


def test_a_guest_that_changes_by_itself_is_told(guest, told):
    _define(guest).start()
    told.wait_for((guest.uuid, states.RUNNING))
    guest.unplug()
    told.wait_for((guest.uuid, states.SHUTDOWN))


def test_what_the_driver_does_itself_is_not_told(guest, told):
    _define(guest)
    with told.watcher.busy(guest.uuid, states.RUNNING):
        guest.start()
        guest.pause()
        guest.unpause()
        time.sleep(0.5)     # the events come while it is busy
    time.sleep(0.5)
    assert told == []


def test_late_events_of_what_the_driver_did_are_no_news(guest, told):
    _define(guest)
    for _ in range(20):         # without a pause: the last events come when it is not busy any more
        with told.watcher.busy(guest.uuid, states.RUNNING):
            guest.start()
            guest.pause()
            guest.unpause()
    time.sleep(0.5)
    assert told == []
    guest.unplug()
    told.wait_for((guest.uuid, states.SHUTDOWN))
    _define(guest).start()
    told.wait_for((guest.uuid, states.RUNNING))


def test_after_a_lost_connection_all_is_told_as_it_is_then(guest, told, connection):
    _define(guest).start()
    told.wait_for((guest.uuid, states.RUNNING))
    told.clear()
    connection.news.put(Disconnected(0))
    told.wait_for((guest.uuid, states.RUNNING))
    with told.watcher.busy(guest.uuid, states.SHUTDOWN):
        connection.news.put(Disconnected(0))
        guest.unplug()
    told.clear()
    guest.start()
    told.wait_for((guest.uuid, states.RUNNING))
    guest.unplug()
    told.wait_for((guest.uuid, states.SHUTDOWN))


def test_what_happens_by_itself_meanwhile_is_told_afterwards(guest, told):
    _define(guest)
    with told.watcher.busy(guest.uuid, states.RUNNING):
        guest.start()
        guest.unplug()
        time.sleep(0.5)
        assert told == []
    told.wait_for((guest.uuid, states.SHUTDOWN))


def test_a_callback_that_fails_does_not_end_the_watch(guest, connection):
    calls = Told()

    def fails_once(uuid, state):
        calls(uuid, state)
        if len(calls) == 1:
            raise RuntimeError("the broker is away")

    watcher = Watcher(connection, fails_once)
    _define(guest).start()
    calls.wait_for((guest.uuid, states.RUNNING))
    guest.unplug()
    calls.wait_for((guest.uuid, states.SHUTDOWN))
    watcher.stop()
