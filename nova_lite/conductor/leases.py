"""The leases of a conductor on its own work, renewed while it works."""
from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oslo_config import cfg

from nova_lite.db import actions
from nova_lite.db.core import Database


class Leases:
    """``owner`` is this process; :meth:`renew` runs every third of a lease."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self.owner = f"{conf.host}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self.seconds = conf.conductor.lease_seconds
        self._db = db
        self._lock = threading.Lock()
        self._ids: Counter[int] = Counter()     # two messages may name one action

    @contextmanager
    def taking(self, ids: Sequence[int]) -> Iterator[None]:
        """Renew the leases of these actions (those of them that are ours) inside the block."""
        self.take(ids)
        try:
            yield
        finally:
            self.drop(ids)

    def take(self, ids: Sequence[int]) -> None:
        """Renew the leases of these actions (those of them that are ours) until they are dropped."""
        with self._lock:
            self._ids.update(ids)

    def drop(self, ids: Sequence[int]) -> None:
        """Once for each time that they were taken."""
        with self._lock:
            self._ids.subtract(ids)
            self._ids += Counter()          # removes the counts of zero

    def renew(self) -> None:
        """Lengthen all."""
        with self._lock:
            ids = list(self._ids)
        if ids:
            self._db.write(actions.renew, self.owner, ids, self.seconds)
