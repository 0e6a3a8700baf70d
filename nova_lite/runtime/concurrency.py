"""The one switch between green and native threads: ``NOVA_LITE_CONCURRENCY=eventlet|threading`` (default eventlet).

:func:`setup` runs first thing in every process (``nova_lite.cmd`` calls it when it is imported). All other code is plain
blocking code on ``threading`` and ``concurrent.futures``, which eventlet's monkey patching turns green; only a long C call
(libvirt, hashing of large files) must go through :func:`native`, or it would stop every green thread of the process.
"""
from __future__ import annotations

import collections
import contextlib
import os
import queue
import selectors
import threading
import warnings
from collections.abc import Callable, Collection
from typing import Any, TypeVar

T = TypeVar("T")

VARIABLE = "NOVA_LITE_CONCURRENCY"
_green = False      # a process that never called setup (a test, a script) has native threads


def mode() -> str:
    """``eventlet`` or ``threading``; raises ValueError for any other value of the variable."""
    value = os.environ.get(VARIABLE, "eventlet")
    if value not in ("eventlet", "threading"):
        raise ValueError(f"{VARIABLE} must be eventlet or threading, not {value!r}")
    return value


def is_green() -> bool:
    """True where :func:`setup` has switched this process to green threads."""
    return _green


def setup() -> None:
    """Choose the threads of this process. Call it before anything else is imported."""
    warnings.filterwarnings("ignore", message="(?s).*Eventlet is deprecated.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="oslo_.*")
    # eventlet's own resolver costs 15 MiB, without a benefit for addresses of the local network
    os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
    global _green
    _green = mode() == "eventlet"
    if _green:
        import eventlet

        # psycopg2 is patched when it is used (see green_postgresql): patching loads it, into processes that never need it
        eventlet.monkey_patch(psycopg=False)
    # oslo.messaging is built on oslo.service, which would take eventlet for its own threads whatever we say above
    from oslo_service import backend

    backend.init_backend(backend.BackendType.EVENTLET if is_green() else backend.BackendType.THREADING)


def green_postgresql() -> None:
    """Let psycopg2, which is C, wait for PostgreSQL without stopping other green threads. Call it before connecting."""
    if not is_green():
        return
    from eventlet import patcher
    from eventlet.support import psycopg2_patcher

    if patcher.is_monkey_patched("socket"):     # not where setup() never ran, as in unit tests
        psycopg2_patcher.make_psycopg_green()


def native(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a long C call in a native thread and wait for it without stopping other green threads."""
    if not is_green():
        return function(*args, **kwargs)
    from eventlet import tpool

    return tpool.execute(function, *args, **kwargs)


def native_lasting(function: Callable[[], T]) -> T:
    """As :func:`native`, for a call that may take minutes: the few threads of that must not all wait for such calls."""
    if not is_green():
        return function()
    from eventlet import patcher
    from eventlet.hubs import trampoline

    answers, failures = list[T](), list[BaseException]()
    write, (read_end, write_end) = patcher.original("os").write, os.pipe()

    def work() -> None:
        try:
            answers.append(function())
        except BaseException as error:      # raised where it is waited for
            failures.append(error)
        write(write_end, b"x")

    native_thread(work, "lasting")
    trampoline(read_end, read=True)
    for end in (read_end, write_end):       # not if the wait was interrupted: the thread may still write
        os.close(end)
    if failures:
        raise failures[0]
    return answers[0]


def ready(readers: Collection[Any], writers: Collection[Any], timeout: float | None = None) -> tuple[list[Any], list[Any]]:
    """The files that can be read, and those that can be written (or have failed): as ``select.select``, which raises ValueError
    for a file number above 1023. ``timeout``: seconds."""
    # where threads are green there is no poll, but a select of eventlet's own, which knows no such limit
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        for file in {*readers, *writers}:
            selector.register(file, selectors.EVENT_READ * (file in readers) | selectors.EVENT_WRITE * (file in writers))
        found = selector.select(timeout)
    return ([key.fileobj for key, events in found if events & selectors.EVENT_READ],
            [key.fileobj for key, events in found if events & selectors.EVENT_WRITE])


def native_thread(target: Callable[[], None], name: str) -> Any:
    """Start a daemon thread of the operating system, with both kinds of threads: for loops that run in C code. ``target`` must
    not use green objects (locks, queues, sockets, logging): it passes its results to a NativeQueue."""
    module: Any = threading
    if is_green():
        from eventlet import patcher

        module = patcher.original("threading")
    thread = module.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


class NativeQueue:
    """A queue filled by any thread (native ones too) and emptied by the service's own threads, green or not."""

    def __init__(self) -> None:
        self._green = is_green()
        self._plain: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._items: collections.deque[Any] = collections.deque()
        if self._green:
            from eventlet import patcher

            self._os = patcher.original("os")
            self._read_end, self._write_end = os.pipe()
            os.set_blocking(self._read_end, False)
            os.set_blocking(self._write_end, False)

    def put(self, item: Any) -> None:
        """Add an item; never blocks."""
        if not self._green:
            self._plain.put(item)
            return
        self._items.append(item)
        with contextlib.suppress(BlockingIOError):      # the pipe is full of wake-ups: the reader will come
            self._os.write(self._write_end, b"x")

    def get(self) -> Any:
        """The next item; waits for it."""
        if not self._green:
            return self._plain.get()
        from eventlet.hubs import trampoline

        while not self._items:
            trampoline(self._read_end, read=True)
            try:
                self._os.read(self._read_end, 4096)
            except BlockingIOError:
                continue
        return self._items.popleft()
