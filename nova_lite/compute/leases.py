"""What this process holds: the actions whose leases its heartbeats renew."""
from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable


class Leases:
    """``owner`` names this process as the holder of its leases."""

    def __init__(self, host: str) -> None:
        self.owner = f"{host}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._ids: set[int] = set()

    def in_flight(self) -> list[int]:
        """Ids of the actions that this process works on or is about to."""
        with self._lock:
            return sorted(self._ids)

    def take(self, action_ids: Iterable[int]) -> list[int]:
        """Note these as in flight; returns those that were not: a second wake-up for one needs nothing done."""
        with self._lock:
            new = sorted(set(action_ids) - self._ids)
            self._ids.update(new)
        return new

    def drop(self, action_ids: Iterable[int]) -> None:
        """Nothing is done with these any more."""
        with self._lock:
            self._ids.difference_update(action_ids)
