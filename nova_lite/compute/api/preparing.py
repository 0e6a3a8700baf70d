"""Actions at stage ``api``: a request has written them down and asks neighbours before it hands them over.

How long that takes nobody knows; that the request still lives, only its process. So while it does, a thread lengthens the
leases of its actions, and the sweeper takes over what a dead process has left as fast as what any other worker has.
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
    """Inside of the block nobody else takes these actions; what was handed over in it is left alone."""
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
