"""An agent that is late: whom nobody hears may have frozen all the same. The rest is tried on a real guest, in
tests/integration/test_libvirt_quiesce.py."""
import pytest

from nova_lite import exception
from nova_lite.objects import states
from nova_lite.virt.libvirt import quiesce
from nova_lite.virt.libvirt.connection import ConnectionLost
from nova_lite.virt.libvirt.files import GuestDirectory
from tests.support.clock import FastClock
from tests.unit.virt.libvirt.builders import UUID, instance

ASKED = {"hw_qemu_guest_agent": "yes", "os_require_quiesce": "true"}


class Guest:
    """Its agent is still freezing when libvirt gives up, and hears nothing ``deaf`` times after that."""

    uuid = UUID

    def __init__(self, error, deaf):
        self.error, self.deaf, self.frozen, self.clock = error, deaf, False, FastClock()

    def power_state(self):
        return states.RUNNING

    def do(self, function, **_named):
        return function(self)

    def isActive(self):
        return True

    def agentSetResponseTimeout(self, seconds, _flags):
        assert seconds >= 0

    def fsFreeze(self):
        self.frozen = True
        raise self.error

    def fsThaw(self):
        if self.deaf:
            self.deaf -= 1
            raise exception.VirtDriverError(what="libvirt", reason="the agent is not responding")
        self.frozen = False


@pytest.fixture
def files(tmp_path):
    made = GuestDirectory(tmp_path, UUID)
    made.make()
    return made


@pytest.mark.parametrize("error", [exception.VirtDriverError(what="libvirt", reason="it did not respond"),
                                   ConnectionLost(uri="test:///", reason="libvirtd was killed")])
def test_a_late_agent_is_waited_for_and_thaws(files, monkeypatch, error):
    monkeypatch.setattr(quiesce, "FREEZE_SECONDS", 60 if isinstance(error, ConnectionLost) else 0)
    guest = Guest(error, deaf=3)
    with pytest.raises(exception.InstanceQuiesceFailed), quiesce.quiet(guest, files, instance(properties=ASKED)):
        raise AssertionError("not reached")
    assert not guest.frozen
    assert not files.frozen.exists()


def test_one_that_is_too_late_is_asked_by_whoever_comes_next(files, monkeypatch):
    monkeypatch.setattr(quiesce, "FREEZE_SECONDS", 0)
    guest = Guest(exception.VirtDriverError(what="libvirt", reason="it did not respond"), deaf=1)
    monkeypatch.setattr(quiesce.thaw, "__defaults__", (0.0,))
    with pytest.raises(exception.InstanceQuiesceFailed):
        quiesce.freeze(guest, files, instance(properties=ASKED))
    assert guest.frozen
    assert files.frozen.exists()
    assert quiesce.thaw(guest, files)
    assert not guest.frozen
    assert not files.frozen.exists()


def test_what_is_done_in_the_quiet_moment_may_fail(files):
    guest = Guest(None, deaf=0)
    guest.fsFreeze = lambda: setattr(guest, "frozen", True)
    seen = []

    def fail():
        seen.append(guest.frozen)
        raise OSError("no room")
    with pytest.raises(OSError, match="no room"), quiesce.quiet(guest, files, instance(properties=ASKED)):
        fail()
    assert seen == [True]
    assert not guest.frozen
    assert not files.frozen.exists()
