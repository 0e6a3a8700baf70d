"""Which conductor runs each periodic task of the cluster: a row for each task, with its owner and a lease."""
from __future__ import annotations

import datetime
from collections.abc import Collection

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import exc

from nova_lite.db import clock, models

LOG = log.getLogger(__name__)
T = models.periodic_tasks
LONG_AGO = datetime.datetime(2000, 1, 1)


def ensure(conn: sa.Connection, names: Collection[str]) -> None:
    """Make the rows that are missing; their leases are over. Several conductors may do so at once."""
    for name in sorted(set(names) - set(conn.scalars(sa.select(T.c.name)))):
        try:
            with conn.begin_nested():
                conn.execute(sa.insert(T).values(name=name, lease_until=LONG_AGO))
        except exc.IntegrityError:
            LOG.debug("the row of task %s was made by another conductor just now", name)


def take(conn: sa.Connection, name: str, owner: str, seconds: float, over_for: float | None = None) -> bool:
    """Get the lease of a task for ``seconds`` from now; False: another owner has it. ``over_for``: not even the owner gets the
    lease before it has been over for so long."""
    if over_for is None:
        is_free = sa.or_(T.c.owner == owner, T.c.lease_until <= clock.after(conn))
    else:
        is_free = T.c.lease_until <= clock.after(conn, -over_for)
    return bool(conn.execute(sa.update(T).where(T.c.name == name, is_free).values(
        owner=owner, lease_until=clock.after(conn, seconds), last_run_at=clock.after(conn))).rowcount)


def renew(conn: sa.Connection, name: str, owner: str, seconds: float) -> bool:
    """Keep the lease for ``seconds`` from now; False: another owner has it."""
    return bool(conn.execute(sa.update(T).where(T.c.name == name, T.c.owner == owner).values(
        lease_until=clock.after(conn, seconds))).rowcount)


def release(conn: sa.Connection, owner: str) -> None:
    """End all leases of an owner, so that anybody may have them at once."""
    conn.execute(sa.update(T).where(T.c.owner == owner).values(lease_until=LONG_AGO))
