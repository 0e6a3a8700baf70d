"""Is the schema in the database the one that this code was made for? Asked at each start, without the weight of alembic.

The files of ``migrations/versions`` are numbered, and the number is the alembic revision; a test holds both together.
"""
from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from nova_lite import exception

VERSIONS = Path(__file__).parent / "migrations" / "versions"


def head() -> str:
    """The newest revision of this code."""
    return max(path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*_*.py"))


def current(connection: sa.Connection) -> str | None:
    """The revision of the database; None for one that ``db sync`` never saw."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(sa.text("SELECT version_num FROM alembic_version"))


def check(connection: sa.Connection) -> None:
    """Raise ConfigError, which names the command that helps, unless the database is at the head."""
    found, wanted = current(connection), head()
    if found != wanted:
        raise exception.ConfigError(reason=f"The database schema is at {found or 'nothing'}, this code needs {wanted}: "
                                           "run 'nova-lite-manage db sync'")
