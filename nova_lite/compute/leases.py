"""The actions of this process, whose leases its heartbeats renew."""
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
        self._again: set[int] = set()

    def in_flight(self) -> list[int]:
        """Ids of the actions that this process works on or is about to."""
        with self._lock:
            return sorted(self._ids)

    def take(self, action_ids: Iterable[int]) -> list[int]:
        """Note these actions as in flight. Returns those that were not: the worker of the others claims them again when it
        ends."""
        asked = set(action_ids)
        with self._lock:
            new = asked - self._ids
            self._again |= asked & self._ids
            self._ids |= new
        return sorted(new)

    def drop(self, action_ids: Iterable[int]) -> list[int]:
        """These actions are no longer in flight. Returns those that were asked for again meanwhile: an action that this host
        has handed over to itself is back before its worker has dropped it."""
        dropped = set(action_ids)
        with self._lock:
            again = dropped & self._again
            self._ids -= dropped
            self._again -= dropped
        return sorted(again)
