"""What this host works on: the actions whose leases its heartbeats renew, and one lock for each server."""
from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


class Leases:
    """``owner`` names this process as the holder of its leases."""

    def __init__(self, host: str) -> None:
        self.owner = f"{host}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._ids: set[int] = set()
        self._servers: dict[str, tuple[threading.Lock, int]] = {}

    def in_flight(self) -> list[int]:
        """Ids of the actions that this process works on or is about to."""
        with self._lock:
            return sorted(self._ids)

    @contextmanager
    def taking(self, action_id: int) -> Iterator[bool]:
        """False when this process has the action already: a second wake-up for it needs nothing done."""
        with self._lock:
            mine = action_id not in self._ids
            self._ids.add(action_id)
        try:
            yield mine
        finally:
            if mine:
                with self._lock:
                    self._ids.discard(action_id)

    @contextmanager
    def server(self, instance_uuid: str) -> Iterator[bool]:
        """Operations on one server take turns. True when somebody else was at it before us."""
        with self._lock:
            lock, users = self._servers.get(instance_uuid, (threading.Lock(), 0))
            self._servers[instance_uuid] = (lock, users + 1)
        try:
            waited = not lock.acquire(blocking=False)
            if waited:
                lock.acquire()
            try:
                yield waited
            finally:
                lock.release()
        finally:
            with self._lock:
                lock, users = self._servers[instance_uuid]
                if users == 1:
                    del self._servers[instance_uuid]
                else:
                    self._servers[instance_uuid] = (lock, users - 1)

    def is_busy(self, instance_uuid: str) -> bool:
        """True while an operation works on the server."""
        with self._lock:
            return instance_uuid in self._servers
