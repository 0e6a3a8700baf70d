"""One queue per server: the operations on a server run one after the other. An operation in a queue holds no thread."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor

from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)

Task = Callable[[bool], None]
"""Called with True when something else was done with the server before it. What it raises is only logged."""


class ServerQueues:
    """A queue for each server with a running task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[tuple[Executor, Task]]] = {}

    def submit(self, instance_uuid: str, pool: Executor, task: Task) -> None:
        """Run ``task`` in ``pool`` after all that was submitted for this server before."""
        with self._lock:
            queue = self._queues.get(instance_uuid)
            if queue is not None:
                queue.append((pool, task))
                return
            self._queues[instance_uuid] = deque()
        self._start(instance_uuid, pool, task, False)

    def _start(self, instance_uuid: str, pool: Executor, task: Task, waited: bool) -> None:
        try:
            pool.submit(self._run, instance_uuid, pool, task, waited)
        except RuntimeError:        # the pool is shut down: the next daemon does the rest
            with self._lock:
                del self._queues[instance_uuid]

    def _run(self, instance_uuid: str, pool: Executor, task: Task, waited: bool) -> None:
        try:
            task(waited)
        except exception.Interrupted as error:
            LOG.warning("%s", error, extra={"instance_uuid": instance_uuid})
        except Exception:       # the next ones run all the same
            LOG.exception("a task failed", extra={"instance_uuid": instance_uuid})
        with self._lock:
            if not self._queues[instance_uuid]:
                del self._queues[instance_uuid]
                return
            pool, task = self._queues[instance_uuid].popleft()
        self._start(instance_uuid, pool, task, True)

    def is_busy(self, instance_uuid: str) -> bool:
        """True while something is done, or waits to be done, with the server."""
        with self._lock:
            return instance_uuid in self._queues
