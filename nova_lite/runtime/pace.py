"""When a loop runs next. Loops of many processes that started together, or failed together, do not run together for ever."""
from __future__ import annotations

import random
from collections.abc import Callable

from nova_lite import retry

FIRST, LONGEST = 1.0, 5.0
"""Seconds after a run that failed, at least. The longest pause is short: when the conductors are back, a host has two
report_intervals to report again before it counts as dead."""


class Pace:
    """A run each ``seconds``. The second run is at a random time within the first interval."""

    def __init__(self, seconds: float, clock: retry.Clock = retry.SYSTEM, random: Callable[[], float] = random.random) -> None:
        self._seconds, self._clock, self._random = seconds, clock, random
        self._backoff = retry.Backoff(FIRST, LONGEST, random=random)
        self._due: float | None = None      # of the run that has just ended; None: the first one
        self._failures = 0

    def after_success(self) -> float:
        """Seconds until the next run."""
        self._failures = 0
        return self._next(0.0)

    def after_failure(self) -> float:
        """Seconds until the next run: at least some that grow with the failures in a row."""
        self._failures += 1
        return self._next(self._backoff.seconds(self._failures))

    def _next(self, least: float) -> float:
        now = self._clock.monotonic()
        due = now + self._random() * self._seconds if self._due is None else self._due + self._seconds
        # a slow run delays the next one, but later runs keep their interval
        self._due = max(due, now + least)
        return self._due - now
