"""What the database server is set up for, and how much of it the tables need."""
from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

_MARIADB = sa.text(
    "SELECT @@global.max_connections, @@global.innodb_buffer_pool_size,"
    " (SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE())")
_POSTGRESQL = sa.text(
    "SELECT current_setting('max_connections')::int, pg_size_bytes(current_setting('shared_buffers')),"
    " pg_database_size(current_database())")


@dataclass(frozen=True)
class Capacity:
    """``cache_bytes``: memory for pages of tables and indexes. ``data_bytes``: the size of all tables and indexes."""

    max_connections: int
    cache_bytes: int
    data_bytes: int


def read(conn: sa.Connection) -> Capacity | None:
    """None: SQLite, which is part of the process."""
    if conn.dialect.name == "sqlite":
        return None
    row = conn.execute(_POSTGRESQL if conn.dialect.name == "postgresql" else _MARIADB).one()
    return Capacity(*(int(value or 0) for value in row))
