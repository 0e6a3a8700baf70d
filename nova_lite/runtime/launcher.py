"""Processes and signals: runs a service in this process, or in several forked workers that this process looks after.

============ ==========================================================================
SIGTERM, INT graceful stop, bounded by ``graceful_shutdown_timeout``; again: stop at once
SIGHUP       read the configuration files again (see ``reload.py``)
SIGUSR2      a state report (see ``reports.py``)
============ ==========================================================================

One worker needs no second process, whatever kind of threads it has: memory is what we are careful with, which is why this
is not oslo.service's launcher (it forks where threads are native, and restarts the workers on SIGHUP).
"""
from __future__ import annotations

import functools
import gc
import logging
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency, reload, reports, systemd

LOG = log.getLogger(__name__)

STOP = (signal.SIGTERM, signal.SIGINT)
HANDLED = (*STOP, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
RESPAWN_PAUSE = 1.0
FAILED = 1
GC_THRESHOLD = 30_000


class Runnable(Protocol):
    """What the launcher runs."""

    name: str

    def start(self) -> None:
        """Begin to work, in the background."""

    def stop(self) -> None:
        """Finish what is in flight, begin nothing new."""


class Signals:
    """Signals as numbers read from a pipe: handled between two steps of our own, never in the middle of one."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, _noted)

    def wait(self, timeout: float | None = None, other: int | None = None) -> list[int]:
        """The signals that came; [] after ``timeout`` seconds or when the descriptor ``other`` can be read."""
        watched = [self.reader] if other is None else [self.reader, other]
        ready, _, _ = select.select(watched, [], [], timeout)
        return list(os.read(self.reader, 4096)) if self.reader in ready else []

    def close(self) -> None:
        """Give the descriptors back (in a worker, before it makes its own)."""
        signal.set_wakeup_fd(-1)
        os.close(self.reader)
        os.close(self._writer)


def _noted(_number: int, _frame: object) -> None:
    """Only the byte in the pipe matters."""


def launch(conf: cfg.ConfigOpts, make_service: Callable[[], Runnable], name: str, workers: int = 1,
           checks: reload.Checks = ()) -> int:
    """Run the service until it is stopped; returns the exit status of the process. ``make_service`` is called in the process
    that will serve, so its connections belong to that process alone. ``checks``: see ``reload.reread``."""
    react = functools.partial(_react, conf, checks)
    if workers == 1:
        return _serve(conf, make_service, Signals(), None, react)
    return _Parent(conf, make_service, name, workers, react).run()


def _serve(conf: cfg.ConfigOpts, make_service: Callable[[], Runnable], signals: Signals, parent: int | None,
           react: Callable[[str, int], None]) -> int:
    """Start, handle signals until one means stop (or the parent dies), stop."""
    service = make_service()
    service.start()
    # what is there now stays: the collector need not look at it again, and forks need not copy it; what comes later is mostly
    # the many small parts of a long list, which die together: looking for cycles among them took half of its time
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    if parent is None:
        systemd.notify("READY=1")
    LOG.info("%s is ready", service.name)
    stopping = False
    while not stopping:
        numbers = signals.wait(other=parent)
        if not numbers and parent is not None:
            LOG.warning("the parent of this worker died")
            break
        for number in numbers:
            stopping = stopping or number in STOP
            if parent is None:
                _tell_and_react(react, service.name, number)
            else:
                react(service.name, number)
    if parent is None:
        systemd.notify("STOPPING=1")
    _stop(conf, service)
    return 0


def _react(conf: cfg.ConfigOpts, checks: reload.Checks, name: str, number: int) -> None:
    """SIGHUP and SIGUSR2, the same in workers and in their parent."""
    if number == signal.SIGHUP:
        reload.reread(conf, checks)
    elif number == signal.SIGUSR2:
        reports.write(conf, name)


def _tell_and_react(react: Callable[[str, int], None], name: str, number: int) -> None:
    """In the process that systemd watches: it wants to know when a reload begins and ends."""
    if number == signal.SIGHUP:
        systemd.notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
    react(name, number)
    if number == signal.SIGHUP:
        systemd.notify("READY=1")


def _stop(conf: cfg.ConfigOpts, service: Runnable) -> None:
    """A graceful stop; a second signal or the time limit makes it a hard one."""
    for number in STOP:
        signal.signal(number, lambda *_: os._exit(FAILED))
    signal.signal(signal.SIGALRM, lambda *_: _too_slow(service.name))
    signal.alarm(conf.graceful_shutdown_timeout)
    LOG.info("%s is stopping", service.name)
    service.stop()
    signal.alarm(0)
    LOG.info("%s has stopped", service.name)


def _too_slow(name: str) -> None:
    # no logging here: the signal may have come while a lock of the logging is held
    os.write(2, f"{name}: not all work was done within graceful_shutdown_timeout; stopped at once\n".encode())
    os._exit(FAILED)


def one_line(error: BaseException) -> str | None:
    """The line for an error that the operator can correct; None for an error of nova_lite."""
    if isinstance(error, exception.NovaLiteError | cfg.Error):
        return " ".join(str(error).split())
    # a path that the operator has named, such as the state directory
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename is not None else None


def _make_own_log_locks() -> None:
    """The lock that oslo.log gives to green threads is a pipe, which a forked worker shares with its parent and the other
    workers: a worker that was killed while it wrote a line would keep all of them from logging for ever."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for handler in {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}:
        handler.createLock()


class _Parent:
    """Forks the workers, starts those that died again, passes signals on."""

    def __init__(self, conf: cfg.ConfigOpts, make_service: Callable[[], Runnable], name: str, workers: int,
                 react: Callable[[str, int], None]) -> None:
        self.conf, self.make_service, self.name, self.workers, self.react = conf, make_service, name, workers, react
        self.children: set[int] = set()
        self.signals = Signals()
        # a worker sees the end of this pipe when its parent dies
        self._alive_reader, self._alive_writer = os.pipe()

    def run(self) -> int:
        gc.collect()
        gc.freeze()
        for _ in range(self.workers):
            self._fork()
        systemd.notify("READY=1")
        stopping = False
        while not stopping:
            for number in self.signals.wait():
                if number in STOP:
                    stopping = True
                elif number == signal.SIGCHLD:
                    self._replace_dead()
                else:
                    _tell_and_react(self.react, self.name, number)
                    self._send(number)
        systemd.notify("STOPPING=1")
        return self._stop()

    def _fork(self) -> None:
        pid = os.fork()
        if pid:
            self.children.add(pid)
            return
        status = FAILED
        try:
            status = self._work()
        except BaseException as error:
            line = one_line(error)
            if line is None:
                LOG.exception("%s: a worker failed", self.name)
            else:
                LOG.error("%s: %s", self.name, line)
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _work(self) -> int:
        if concurrency.is_green():
            from eventlet import hubs

            hubs.use_hub()      # the parent's poll descriptor is not ours to share
        os.close(self._alive_writer)
        _make_own_log_locks()
        self.signals.close()
        random.seed()
        return _serve(self.conf, self.make_service, Signals(), self._alive_reader, self.react)

    def _reap(self) -> int:
        """Collect the children that ended; how many."""
        ended = 0
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid in self.children:
                self.children.discard(pid)
                ended += 1
                LOG.info("worker %d ended with status %d", pid, os.waitstatus_to_exitcode(status))
        return ended

    def _replace_dead(self) -> None:
        for _ in range(self._reap()):
            time.sleep(RESPAWN_PAUSE)       # a worker that dies at its start must not keep the machine busy
            self._fork()

    def _send(self, number: int) -> None:
        for pid in self.children:
            os.kill(pid, number)

    def _stop(self) -> int:
        self._send(signal.SIGTERM)
        # the workers keep the same time limit themselves; the second more is for their last words
        deadline = time.monotonic() + (self.conf.graceful_shutdown_timeout or 86400) + 1
        self._reap()
        while self.children and time.monotonic() < deadline:
            if any(number in STOP for number in self.signals.wait(1.0)):
                break
            self._reap()
        if not self.children:
            return 0
        self._send(signal.SIGKILL)
        return FAILED
