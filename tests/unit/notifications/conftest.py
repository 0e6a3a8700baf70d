"""A cloud of fake hosts whose conductor tells what it does."""
from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from nova_lite.notifications import events
from tests.unit.compute.volumes.conftest import make_volume_cloud
from tests.unit.conductor.conftest import cloud, make_cloud

__all__ = ["cloud", "heard", "make_cloud", "make_volume_cloud"]


class Heard:
    """A listener that keeps the events."""

    def __init__(self):
        self._all, self._writing, self._changed = [], 0, threading.Condition()

    @property
    def all(self):
        """All events of what is done by now: what is committed is told a moment later, and this waits for it."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._writing, 60)
            return list(self._all)

    def tell(self, journal):
        self._all += events.of(journal)

    def listen_to(self, db, monkeypatch):
        """Hear of all transactions of ``db``."""
        write = db.write

        def told(*args, **kwargs):
            with self._one_more():
                return write(*args, **kwargs)
        monkeypatch.setattr(db, "listener", self)
        monkeypatch.setattr(db, "write", told)

    @contextmanager
    def _one_more(self):
        with self._changed:
            self._writing += 1
        try:
            yield
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def close(self):
        """Nothing waits."""

    def of(self, server, updates=False):
        """``create.start`` and so on of one server, in order."""
        return [e.text for e in self.all if e.instance.uuid == server and (updates or e.name != "update")]

    def updates(self, server):
        """(old state, old task_state, state, task_state)."""
        return [(e.before and e.before.vm_state, e.before and e.before.task_state, e.instance.vm_state, e.instance.task_state)
                for e in self.all if e.instance.uuid == server and e.name == "update"]


@pytest.fixture
def heard(cloud, monkeypatch):
    """What the conductor of ``cloud`` tells; operations that the test begins are told as the API would tell them."""
    listener = Heard()
    for db in {cloud.conductor.db, cloud.db}:
        listener.listen_to(db, monkeypatch)
    return listener
