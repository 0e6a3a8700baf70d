"""Operations on one server take turns, without a thread for those that wait."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor

from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)

Turn = Callable[[bool], None]
"""Called with True when something else was done with the server before it. What it raises is only logged."""


class Turns:
    """A queue for each server that something is done with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[tuple[Executor, Turn]]] = {}

    def submit(self, instance_uuid: str, pool: Executor, turn: Turn) -> None:
        """Run ``turn`` in ``pool`` after all that was submitted for this server before."""
        with self._lock:
            queue = self._queues.get(instance_uuid)
            if queue is not None:
                queue.append((pool, turn))
                return
            self._queues[instance_uuid] = deque()
        self._start(instance_uuid, pool, turn, False)

    def _start(self, instance_uuid: str, pool: Executor, turn: Turn, waited: bool) -> None:
        try:
            pool.submit(self._run, instance_uuid, pool, turn, waited)
        except RuntimeError:        # the pool is shut down: whoever starts next takes up what is left
            with self._lock:
                del self._queues[instance_uuid]

    def _run(self, instance_uuid: str, pool: Executor, turn: Turn, waited: bool) -> None:
        try:
            turn(waited)
        except exception.Interrupted as error:
            LOG.warning("%s", error, extra={"instance_uuid": instance_uuid})
        except Exception:       # the next ones have their turn all the same
            LOG.exception("a turn failed", extra={"instance_uuid": instance_uuid})
        with self._lock:
            if not self._queues[instance_uuid]:
                del self._queues[instance_uuid]
                return
            pool, turn = self._queues[instance_uuid].popleft()
        self._start(instance_uuid, pool, turn, True)

    def is_busy(self, instance_uuid: str) -> bool:
        """True while something is done, or waits to be done, with the server."""
        with self._lock:
            return instance_uuid in self._queues
