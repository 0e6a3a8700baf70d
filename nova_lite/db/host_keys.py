"""The keys of compute hosts: which there are and which were revoked, never a key itself; and the nonces of signed messages."""
from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nova_lite import exception, units
from nova_lite.db import models
from nova_lite.db.core import Database

KEYS, NONCES = models.host_keys, models.rpc_nonces
_FRESH_SECONDS = 10.0      # for which the generations of a host's keys are not asked for again


def create(conn: sa.Connection, host: str) -> int:
    """Write down that a host has one more key; its generation. Those that it has already stay good."""
    newest = conn.scalar(sa.select(sa.func.max(KEYS.c.generation)).where(KEYS.c.host == host)) or 0
    conn.execute(sa.insert(KEYS).values(host=host, generation=newest + 1, created_at=units.utcnow()))
    return newest + 1


def list_all(conn: sa.Connection) -> list[dict[str, Any]]:
    """All keys, by host and generation."""
    return [dict(row._mapping) for row in conn.execute(sa.select(KEYS).order_by(KEYS.c.host, KEYS.c.generation))]


def revoke(conn: sa.Connection, host: str, generation: int | None = None) -> int:
    """A key of a host (None: all) is good no more; how many those were."""
    query = sa.update(KEYS).where(KEYS.c.host == host, KEYS.c.revoked_at.is_(None))
    if generation is not None:
        query = query.where(KEYS.c.generation == generation)
    return conn.execute(query.values(revoked_at=units.utcnow())).rowcount


def check(conn: sa.Connection, host: str, generation: int) -> None:
    """Raise HostNotAllowed for a key that was revoked, or never was."""
    if conn.scalar(sa.select(KEYS.c.generation).where(*_good(host, generation))) is None:
        raise _revoked(host, generation)


def to_sign_with(conn: sa.Connection, host: str) -> list[int]:
    """The keys that a host may have: those that are good, and the next one, which may have been made a moment ago."""
    found = conn.execute(sa.select(KEYS.c.generation, KEYS.c.revoked_at).where(KEYS.c.host == host)).all()
    newest = max((row.generation for row in found), default=0)
    return [*sorted(row.generation for row in found if row.revoked_at is None), newest + 1]


class Generations:
    """For ``rpc.sender.ToHosts``: what :func:`to_sign_with` answers, remembered for a moment."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: dict[str, tuple[float, list[int]]] = {}

    def __call__(self, host: str) -> list[int]:
        now = time.monotonic()
        asked, found = self._known.get(host, (float("-inf"), []))
        if now - asked > _FRESH_SECONDS:
            with self._db.read() as conn:
                found = to_sign_with(conn, host)
            self._known[host] = now, found
        return found


def spend(conn: sa.Connection, host: str | None, generation: int, nonce: str, until: float) -> None:
    """Store the nonce of a signed message; ``host`` None: of a control service. Raises HostNotAllowed for a key that is not
    valid, MessageReplayed when the message was received before."""
    try:
        with conn.begin_nested():
            if host is None:
                conn.execute(sa.insert(NONCES).values(nonce=nonce, expires_at=int(until)))
            else:
                values = sa.select(sa.literal(nonce), sa.literal(int(until), sa.BigInteger)).where(*_good(host, generation))
                made = conn.execute(sa.insert(NONCES).from_select(["nonce", "expires_at"], values))
                if not made.rowcount:
                    raise _revoked(host, generation)
    except exc.IntegrityError:
        raise exception.MessageReplayed(host=host or "(control)", reason="its message was received before") from None


def forget_nonces(conn: sa.Connection, before: float) -> None:
    """Those of messages that are too old by now to count."""
    conn.execute(sa.delete(NONCES).where(NONCES.c.expires_at < int(before)))


def _good(host: str, generation: int) -> tuple[sa.ColumnElement[bool], ...]:
    return KEYS.c.host == host, KEYS.c.generation == generation, KEYS.c.revoked_at.is_(None)


def _revoked(host: str, generation: int) -> exception.HostNotAllowed:
    return exception.HostNotAllowed(host=host, reason=f"its key {generation} was revoked, or never made")
