"""The schema of the database: upgrades it, and reads its revision.

The alembic scripts are in ``nova_lite/db/migrations``; no other module calls alembic, so there is no alembic.ini.
"""
from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command, util
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.db import core

LOG = log.getLogger(__name__)
LOCK_NAME = "nova_lite_db_sync"
LOCK_NUMBER = 6682082231      # the same name for PostgreSQL, whose advisory locks are numbers
LOCK_TIMEOUT = 300


def sync(conf: cfg.ConfigOpts, revision: str = "head") -> None:
    """Migrate the database to ``revision``. Several processes may call this at once: one works, the others wait."""
    with _file_lock(conf.database.connection), _engine(conf) as engine, engine.begin() as connection:
        _take_lock(connection)
        before = _current(connection)
        config = _config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except util.CommandError as error:
            raise exception.ConfigError(reason=f"revision {revision}: {error}") from None
        after = _current(connection)
    if before != after:
        LOG.info("database schema migrated from %s to %s", before or "nothing", after)


def version(conf: cfg.ConfigOpts) -> tuple[str | None, str | None]:
    """(revision of the database or None for an empty one, newest revision of this code)."""
    with _engine(conf) as engine, engine.connect().execution_options(read_only=True) as connection:
        return _current(connection), _head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _head() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def _current(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@contextmanager
def _engine(conf: cfg.ConfigOpts) -> Iterator[sa.Engine]:
    engine = core.make_engine(conf.database.connection, 1, no_time_limit=True)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _file_lock(url: str) -> Iterator[None]:
    """SQLite: even the switch of a new file to WAL must not happen twice at once, so a lock file stands before it. Only its
    owner and group can read a new file."""
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite" or made.database in (None, "", ":memory:"):
        yield
        return
    with open(f"{made.database}.sync-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.close(os.open(str(made.database), os.O_RDWR | os.O_CREAT, 0o640))
        yield


def _take_lock(connection: sa.Connection) -> None:
    """PostgreSQL gives the lock back with the transaction, MySQL with the connection: both after the commit."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_NUMBER)))
        return
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    if connection.scalar(sa.select(sa.func.get_lock(LOCK_NAME, LOCK_TIMEOUT))) != 1:
        raise exception.ServiceUnavailable(what="The lock for 'db sync'", reason="another process holds it")
