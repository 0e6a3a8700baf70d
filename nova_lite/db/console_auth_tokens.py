"""Tokens of consoles. Only their digests are stored, so that a reader of the database cannot open a console."""
from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models
from nova_lite.objects.console import ConsoleAuthToken

TOKENS, INSTANCES = models.console_auth_tokens, models.instances
_COLUMNS = ("instance_uuid", "compute_host", "console_type", "host", "port", "tls_port", "internal_access_path")


def create(conn: sa.Connection, token_digest: str, token: ConsoleAuthToken, ttl: float) -> None:
    """Keep a token for ``ttl`` seconds."""
    now = units.utcnow()
    conn.execute(sa.insert(TOKENS).values(
        created_at=now, expires_at=now + datetime.timedelta(seconds=ttl), token_hash=token_digest,
        **{name: getattr(token, name) for name in _COLUMNS}))


def find(conn: sa.Connection, token_digest: str) -> ConsoleAuthToken | None:
    """The console of a token; None for a token that is unknown or expired, or whose server is gone or on another host now."""
    there = sa.and_(INSTANCES.c.uuid == TOKENS.c.instance_uuid, INSTANCES.c.deleted == 0,
                    INSTANCES.c.host == TOKENS.c.compute_host)
    row = conn.execute(sa.select(*(TOKENS.c[name] for name in _COLUMNS)).join(INSTANCES, there).where(
        TOKENS.c.token_hash == token_digest, TOKENS.c.expires_at > units.utcnow())).mappings().one_or_none()
    return ConsoleAuthToken(**row) if row is not None else None


def forget(conn: sa.Connection, instance_uuids: Sequence[str]) -> None:
    """No token of these servers opens anything any more."""
    conn.execute(sa.delete(TOKENS).where(TOKENS.c.instance_uuid.in_(instance_uuids)))


def purge(conn: sa.Connection) -> int:
    """Remove what has expired; how many those were."""
    return conn.execute(sa.delete(TOKENS).where(TOKENS.c.expires_at <= units.utcnow())).rowcount
