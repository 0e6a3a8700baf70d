"""The clock of the database. Leases and the times of reports, which several machines compare, are written and read by it: a
machine with a wrong clock takes no work away from others. SQLite has the clock of the machine, which all its users share.
"""
from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import units
from nova_lite.db.core import Database

LOG = log.getLogger(__name__)
INTERVAL = 60.0         # seconds between two checks of the clock of this machine
TOLERATED = 3.0         # seconds that it may be wrong
WRONG = 10.0            # seconds from which on hosts that live may seem to be down, and others be believed too long


def after(conn: sa.Connection, seconds: float = 0.0) -> Any:
    """The time ``seconds`` from now, as a value for a statement."""
    kind = conn.dialect.name
    if kind in ("mysql", "mariadb"):
        now = sa.func.utc_timestamp(6, type_=sa.DateTime())
        return now if not seconds else sa.func.timestampadd(sa.text("MICROSECOND"), round(seconds * 1e6), now,
                                                            type_=sa.DateTime())
    if kind == "postgresql":
        return sa.func.timezone("UTC", sa.func.statement_timestamp(), type_=sa.DateTime()) + datetime.timedelta(seconds=seconds)
    return units.utcnow() + datetime.timedelta(seconds=seconds)


def read(conn: sa.Connection) -> datetime.datetime:
    """What the clock of the database shows."""
    if conn.dialect.name == "sqlite":
        return datetime.datetime.fromisoformat(conn.scalars(sa.select(sa.func.strftime("%Y-%m-%d %H:%M:%f", "now"))).one())
    return conn.scalars(sa.select(after(conn))).one()


def ahead(conn: sa.Connection) -> float:
    """Seconds that our own clock is ahead of the database's, negative: behind, without what the way may have taken."""
    before, there, now = units.utcnow(), read(conn), units.utcnow()
    if before <= there <= now:
        return 0.0
    return ((before if there < before else now) - there).total_seconds()


def watch(db: Database) -> None:
    """Log a warning or an error when the clock of this machine is wrong."""
    with db.read() as conn:
        seconds = ahead(conn)
    if abs(seconds) > TOLERATED:
        LOG.log(log.ERROR if abs(seconds) > WRONG else log.WARNING, "the clock of this machine is %s; is NTP running?",
                describe(seconds))


def describe(seconds: float) -> str:
    """What :func:`ahead` answered, in words."""
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the database's"
