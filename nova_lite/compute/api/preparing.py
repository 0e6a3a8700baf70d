"""Actions at stage ``api``: a request has written them, and calls other services before it hands them over.

The duration of these calls is unknown, and only the process of the request shows that the request is alive. So a thread extends
the leases of its actions. The sweeper takes over the actions of a dead process as fast as those of any other worker.
"""
from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oslo_log import log

from nova_lite.db import actions
from nova_lite.db.core import Database

LOG = log.getLogger(__name__)


@contextmanager
def held(db: Database, action_ids: Sequence[int], lease_seconds: float) -> Iterator[None]:
    """Within the block no other worker takes these actions. An action that was handed over is left alone."""
    done = threading.Event()
    thread = threading.Thread(target=_lengthen, args=(db, action_ids, lease_seconds, done), name="preparing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()       # afterwards the leases are the caller's to set


def _lengthen(db: Database, action_ids: Sequence[int], lease_seconds: float, done: threading.Event) -> None:
    while not done.wait(lease_seconds / 3):
        try:
            db.write(actions.keep_prepared, action_ids, lease_seconds)
        except Exception:
            LOG.exception("the leases of actions %s were not lengthened", list(action_ids))
