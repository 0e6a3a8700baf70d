"""Limits how many guests leave a host at the same time. The others wait in the order in which they came."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from nova_lite import retry

ASKS = retry.every(1.0)
AT_A_TIME = 1       # for each host, as in Nova: several share its network, and memory that changes meanwhile is copied again


class CopySlots:
    """``limit`` copies at a time."""

    def __init__(self, limit: int = AT_A_TIME, clock: retry.Clock = retry.SYSTEM) -> None:
        self._limit, self._clock = limit, clock
        self._lock = threading.Lock()
        self._order: list[object] = []      # in the order in which they get a slot

    @contextlib.contextmanager
    def slot(self, ask: Callable[[], object], at_once: bool) -> Iterator[None]:
        """Hold a slot within the block. ``ask`` is called every second during the wait; its exception ends the wait.
        ``at_once``: the copy is under way already, and does not wait."""
        one = object()
        with self._lock:
            self._order.insert(0 if at_once else len(self._order), one)
        try:
            retry.poll(lambda: self._is_next(one), bool, ASKS, self._clock, before_pause=ask)
            yield
        finally:
            with self._lock:
                self._order.remove(one)

    def _is_next(self, one: object) -> bool:
        with self._lock:
            return self._order.index(one) < self._limit
