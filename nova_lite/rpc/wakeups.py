"""Messages without an answer. The database has all that must be done, so a late or lost message costs no more than the time
until the next sweep.

A thread sends them: a cast blocks while the broker is down, and no request may wait for that.
"""
from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from oslo_log import log

LOG = log.getLogger(__name__)
CAPACITY = 1000


class Wakeups:
    """A queue of casts, and the thread that sends them. The thread starts with the first cast of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.Queue(CAPACITY)
        self._pid: int | None = None

    def send(self, cast: Callable[..., None], *arguments: Any) -> None:
        """Call ``cast(*arguments)`` soon. When too many wait already it is dropped: the sweeper will see to the action."""
        self._start()
        try:
            self._queue.put_nowait((cast, arguments))
        except queue.Full:
            LOG.warning("%s messages wait for the broker: dropping one, the sweeper will do it", CAPACITY)

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():     # the first message of this process, perhaps a fork of another one
                self._queue = queue.Queue(CAPACITY)
                self._pid = os.getpid()
                threading.Thread(target=self._run, args=(self._queue,), name="wakeups", daemon=True).start()

    @staticmethod
    def _run(waiting: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        while True:
            cast, arguments = waiting.get()
            try:
                cast(*arguments)
            except Exception as error:   # whatever the bus raises, the next message has to go out
                LOG.warning("could not send %s, the sweeper will do it: %s", getattr(cast, "__name__", cast), error)
