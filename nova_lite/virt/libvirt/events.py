"""From libvirt's lifecycle events to "this guest changed its power state by itself".

The reported state is the one that libvirt shows when the event is handled, not that of the event: so late events cannot report
an old state. While the driver works on a guest (:meth:`Watcher.busy`), events of that guest wait until the work ends. Some
arrive later still, and show only what the driver itself has done.
"""
from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.objects import states
from nova_lite.virt.driver import PowerCallback
from nova_lite.virt.libvirt.connection import Connection, Disconnected, LifecycleEvent
from nova_lite.virt.libvirt.guest import Guest, all_power_states

LOG = log.getLogger(__name__)

RECONNECTS = retry.every(1.0)
# virDomainEventType -> the power state that it leads to; others (defined, undefined ...) say nothing about power
LEADS_TO = {2: states.RUNNING, 3: states.POWER_PAUSED, 4: states.RUNNING, 5: states.SHUTDOWN, 7: states.POWER_SUSPENDED,
            8: states.CRASHED}


class Watcher:
    """One thread that reads the events of a connection and calls back."""

    def __init__(self, connection: Connection, callback: PowerCallback) -> None:
        self._connection = connection
        self._callback = callback
        self._guard = threading.Lock()
        self._busy: dict[str, int] = {}
        self._works: dict[str, int] = {}    # the driver's last work on each, by number
        self._numbers = itertools.count()
        self._waiting: dict[str, int] = {}
        self._known: dict[str, int] = {}    # the state in which the driver left the guest, or the last reported one
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="libvirt-news", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No callback is made after this."""
        self._stopped = True
        self._connection.news.put(None)

    @contextlib.contextmanager
    def busy(self, uuid: str, expected: int | None) -> Iterator[None]:
        """While the driver works on a guest. ``expected``: the state of the guest after a success. When the last event during
        the work has another state, the guest has changed by itself, which is reported now."""
        with self._guard:
            self._busy[uuid] = self._busy.get(uuid, 0) + 1
            self._works[uuid] = next(self._numbers)
        done = False
        try:
            yield
            done = True
        finally:
            with self._guard:
                self._busy[uuid] -= 1
                last = None
                if not self._busy[uuid]:
                    del self._busy[uuid]
                    last = self._waiting.pop(uuid, None)
                self._know(uuid, expected if done else None)
                if expected is None:
                    self._works.pop(uuid, None)     # it may be gone for good
            if last is not None and expected is not None and last != expected:
                self._connection.news.put(uuid)

    def _know(self, uuid: str, state: int | None) -> None:
        if state is None:
            self._known.pop(uuid, None)
        else:
            self._known[uuid] = state

    def _work(self) -> None:
        while not self._stopped:
            item = self._connection.news.get()
            try:
                if isinstance(item, LifecycleEvent):
                    self._on_event(item)
                elif isinstance(item, Disconnected):
                    self._on_disconnect()
                elif isinstance(item, str):
                    self._tell(item)
            except Exception:       # the thread must go on: the periodic comparison of all guests finds what is lost here
                LOG.exception("Could not work on %s", item)

    def _on_event(self, event: LifecycleEvent) -> None:
        state = LEADS_TO.get(event.event)
        if state is None:
            return
        with self._guard:
            if event.uuid in self._busy:
                self._waiting[event.uuid] = state
                return
        self._tell(event.uuid)

    def _tell(self, uuid: str) -> None:
        works = self._works.get(uuid)
        state = Guest(self._connection, uuid).power_state()
        if state is None or self._stopped:
            return
        with self._guard:
            if uuid in self._busy:
                self._waiting[uuid] = state
                return
            if works != self._works.get(uuid):      # the state may have been read during the driver's work: read it again
                self._connection.news.put(uuid)
                return
            if state == self._known.get(uuid):
                return
            self._know(uuid, state)
        LOG.info("Guest is in power state %d now", state, extra={"instance_uuid": uuid})
        try:
            self._callback(uuid, state)
        except Exception:
            with self._guard:
                self._know(uuid, None)
            raise

    def _on_disconnect(self) -> None:
        """Connect again, and report the state of all guests: their events were lost."""
        LOG.warning("The connection to libvirt was lost")
        try:
            found = retry.on_error(
                lambda: all_power_states(self._connection),
                lambda error: isinstance(error, exception.VirtDriverError) and not self._stopped, RECONNECTS,
                self._connection.clock, before_pause=lambda error, _pause: LOG.warning("%s", error))
        except exception.VirtDriverError as error:
            LOG.info("stopped while libvirt is away: %s", error)
            return
        for uuid in found:
            with self._guard:
                self._know(uuid, None)
            self._connection.news.put(uuid)
