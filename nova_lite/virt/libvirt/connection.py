"""One connection to libvirt, which is opened again when the daemon restarts.

All calls of libvirt run in native threads: calls by :meth:`Connection.run`, events in one loop per process. Events reach the
rest of the process through a NativeQueue, so this module works with each kind of threads.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)

T = TypeVar("T")

RETURN = retry.every(0.5, timeout=15.0)     # a call waits for a daemon that is being restarted
ONCE_MORE = retry.Schedule((0.5,))      # a process that ends closes its sockets one by one
KEEPALIVE = (5, 3)      # seconds, count: a daemon that hangs counts as gone after their product

_loop_guard = threading.Lock()
_loop_runs = False


@dataclass(frozen=True)
class LifecycleEvent:
    """What happened to a guest, in libvirt's numbers."""

    uuid: str
    event: int
    detail: int


@dataclass(frozen=True)
class Disconnected:
    """The connection was lost."""

    reason: int


class ConnectionLost(exception.VirtDriverError):
    msg_fmt = "libvirt at %(uri)s went away during the call: %(reason)s"


def again(step: Callable[[], T], clock: retry.Clock) -> T:
    """``step``, and once more when libvirt went away under it: it must be one that can be run twice. Raises ConnectionLost when
    libvirt goes away a second time."""
    return retry.on_error(step, ConnectionLost, ONCE_MORE, clock,
                          before_pause=lambda error, _pause: LOG.warning("once more: %s", error))


def load_libvirt() -> Any:
    """The libvirt module; ConfigError with the remedy where it is not installed."""
    try:
        import libvirt
    except ImportError as error:
        raise exception.ConfigError(reason=f"the libvirt driver needs libvirt-python (pip install '.[libvirt]' in a "
                                           f"clone of nova_lite): {error}") from error
    return libvirt


class Connection:
    """``news`` receives LifecycleEvent and Disconnected objects, and other objects of the owner."""

    def __init__(self, uri: str, clock: retry.Clock = retry.SYSTEM) -> None:
        self.libvirt = load_libvirt()
        self.uri, self.clock = uri, clock
        self.news = concurrency.NativeQueue()
        self._guard = threading.Lock()
        self._connection: Any = None
        self._closed = False

    def open(self) -> None:
        """Connect; VirtDriverError when the daemon cannot be reached."""
        _start_event_loop(self.libvirt)
        with self._guard:
            self._closed = False
            self._connect()

    def close(self) -> None:
        """Let go of the daemon. A later call raises VirtDriverError."""
        with self._guard:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            concurrency.native(self._close, connection)

    def run(self, function: Callable[[Any], T], once: bool = False) -> T:
        """``function(virConnect)`` in a native thread; libvirt's errors become VirtDriverError. A dead connection is opened
        again first. When the connection breaks during the function, the function is run again. ``once``: the function must not
        be run again, since it is not known how much was done; then ConnectionLost is raised."""
        return self._run(function) if once else again(lambda: self._run(function), self.clock)

    def run_lasting(self, function: Callable[[Any], T], once: bool = False) -> T:
        """The same for calls that may take minutes, with a native thread and a connection of their own. libvirtd reads nothing
        more from a connection with five calls under way, not even keepalives (``max_client_requests``), so such calls would
        break the shared connection."""
        return self._run_lasting(function) if once else again(lambda: self._run_lasting(function), self.clock)

    def _run(self, function: Callable[[Any], T]) -> T:
        connection = self._alive()
        try:
            return concurrency.native(function, connection)
        except self.libvirt.libvirtError as error:
            if not self._is_broken(error, connection):
                raise exception.VirtDriverError(what="libvirt", reason=_text(error)) from error
            self._drop(connection)
            raise ConnectionLost(uri=self.uri, reason=_text(error)) from error

    def _run_lasting(self, function: Callable[[Any], T]) -> T:
        lib = self.libvirt
        self._alive()       # a daemon that is being restarted is waited for

        def work() -> T:
            try:
                connection = lib.open(self.uri)
            except lib.libvirtError as error:       # it went at this moment
                raise ConnectionLost(uri=self.uri, reason=_text(error)) from error
            try:
                self._keep_alive(connection)
                return function(connection)
            except lib.libvirtError as error:
                if self._is_broken(error, connection):
                    raise ConnectionLost(uri=self.uri, reason=_text(error)) from error
                raise
            finally:
                with contextlib.suppress(lib.libvirtError):     # it is dead already
                    connection.close()

        try:
            return concurrency.native_lasting(work)
        except lib.libvirtError as error:
            raise exception.VirtDriverError(what="libvirt", reason=_text(error)) from error

    def _alive(self) -> Any:
        return retry.on_error(self._opened, lambda error: isinstance(error, exception.VirtDriverError) and not self._closed,
                              RETURN, self.clock)

    def _opened(self) -> Any:
        with self._guard:
            if self._closed:
                raise exception.VirtDriverError(what="libvirt", reason="the connection was closed")
            if self._connection is None or not self._connection.isAlive():
                self._connect()
            return self._connection

    def _connect(self) -> None:
        try:
            self._connection = concurrency.native(self._open)
        except self.libvirt.libvirtError as error:
            raise exception.VirtDriverError(what=f"Connecting to libvirt at {self.uri}", reason=_text(error)) from error
        LOG.info("Connected to libvirt at %s", self.uri)

    def _open(self) -> Any:
        lib = self.libvirt
        connection = lib.open(self.uri)
        self._keep_alive(connection, self._on_close)
        connection.domainEventRegisterAny(None, lib.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_lifecycle, None)
        return connection

    def _keep_alive(self, connection: Any, on_close: Callable[..., None] | None = None) -> None:
        lib = self.libvirt
        try:
            connection.setKeepAlive(*KEEPALIVE)
            if on_close is not None:
                connection.registerCloseCallback(on_close, None)
        except lib.libvirtError as error:
            if error.get_error_code() != lib.VIR_ERR_NO_SUPPORT:    # a driver inside this process needs neither
                raise

    def _close(self, connection: Any) -> None:
        for step in (connection.unregisterCloseCallback, connection.close):
            try:
                step()
            except self.libvirt.libvirtError as error:      # it is dead already, or never had a callback
                LOG.debug("Closing the connection to libvirt: %s", error)

    def _drop(self, connection: Any) -> None:
        with self._guard:
            if self._connection is connection:
                self._connection = None

    def _is_broken(self, error: Any, connection: Any) -> bool:
        lib = self.libvirt
        if not connection.isAlive():
            return True
        return (error.get_error_domain() in (lib.VIR_FROM_RPC, lib.VIR_FROM_REMOTE)
                and error.get_error_code() in (lib.VIR_ERR_SYSTEM_ERROR, lib.VIR_ERR_INTERNAL_ERROR, lib.VIR_ERR_RPC,
                                               lib.VIR_ERR_NO_CONNECT))

    # called by libvirt in its event loop's native thread: hand over and return

    def _on_lifecycle(self, _connection: Any, domain: Any, event: int, detail: int, _opaque: Any) -> None:
        self.news.put(LifecycleEvent(domain.UUIDString(), event, detail))

    def _on_close(self, _connection: Any, reason: int, _opaque: Any) -> None:
        self.news.put(Disconnected(reason))


def _text(error: Any) -> str:
    return error.get_error_message() or str(error)


def _start_event_loop(libvirt: Any) -> None:
    """libvirt's event loop, once per process, for ever."""
    global _loop_runs
    with _loop_guard:
        if _loop_runs:
            return
        libvirt.registerErrorHandler(lambda _context, _error: None, None)     # else it writes each error to stderr too
        libvirt.virEventRegisterDefaultImpl()

        def loop() -> None:
            while True:
                libvirt.virEventRunDefaultImpl()

        concurrency.native_thread(loop, "libvirt-events")
        _loop_runs = True
