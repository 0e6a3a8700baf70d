"""The periodic tasks of the cluster. Each is run by one conductor, that which holds the lease of the task.

The lease saves work, and protects nothing: each task is one that several conductors may run at the same time. So an owner that
comes back late, after it lost its lease in a long pause, does no harm. The reason stands with each task (``manager.py``).
"""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oslo_log import log

from nova_lite import retry
from nova_lite.db import periodic_tasks
from nova_lite.db.core import Database

LOG = log.getLogger(__name__)
SHARE, STAYS = 0.9, 2.0         # leases, in intervals
RENEWED_FOR, AT_LEAST = 10, 60.0        # intervals, seconds: a run that hangs loses its lease after the longer of both


@dataclass(frozen=True)
class Task:
    """``interval``: seconds between two runs. ``stays``: a living owner keeps the task, for a task that remembers its earlier
    runs; all other tasks are run by the conductor that looks first. ``is_fit``: whether this conductor can run the task well;
    if not, it leaves the task to others for a further interval."""

    name: str
    interval: float
    run: Callable[[], object]
    stays: bool = False
    is_fit: Callable[[], bool] = lambda: True

    @property
    def lease(self) -> float:
        """Seconds. Less than the interval where any conductor may do the next run."""
        return self.interval * (STAYS if self.stays else SHARE)


class PeriodicTasks:
    """The part of one conductor, which is ``owner``."""

    def __init__(self, db: Database, owner: str, tasks: Sequence[Task], clock: retry.Clock = retry.SYSTEM) -> None:
        self._db, self._owner, self._tasks, self._clock = db, owner, tasks, clock
        self._lock = threading.Lock()
        self._running: dict[Task, float] = {}       # and when each began
        self._stopped = False

    def start(self) -> None:
        """Make the rows of the tasks."""
        self._db.write(periodic_tasks.ensure, [task.name for task in self._tasks])

    def stop(self) -> None:
        """Leave the tasks to other conductors."""
        self._stopped = True
        self._db.write(periodic_tasks.release, self._owner)

    def loops(self) -> list[tuple[float, Callable[[], None]]]:
        """(seconds, function) of the tasks, and of the renewal of the leases of runs that take long."""
        return [(min(task.lease for task in self._tasks) / 3, self.renew), *(
            (task.interval, self._loop(task)) for task in self._tasks)]

    def _loop(self, task: Task) -> Callable[[], None]:
        @functools.wraps(task.run)      # logs name the task
        def run_if_owner() -> None:
            over_for = None if task.is_fit() else task.interval
            if self._stopped or not self._db.write(periodic_tasks.take, task.name, self._owner, task.lease, over_for):
                return
            with self._lock:
                self._running[task] = self._clock.monotonic()
            try:
                task.run()
            finally:
                with self._lock:
                    del self._running[task]
        return run_if_owner

    def renew(self) -> None:
        """Keep the leases of the runs that are under way."""
        now = self._clock.monotonic()
        with self._lock:
            kept = [task for task, began in self._running.items() if now - began < max(RENEWED_FOR * task.interval, AT_LEAST)]
        for task in kept:
            if not self._db.write(periodic_tasks.renew, task.name, self._owner, task.lease):
                LOG.info("another conductor has taken over the task %s, which still runs here", task.name)
