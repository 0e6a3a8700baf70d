"""Empty databases for tests: SQLite, and the servers named in NOVA_LITE_TEST_DATABASES (URLs, separated by blanks).

The databases behind such URLs are emptied after each test.
"""
from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite.db import core, migration


class Statements(dict[Any, Any]):
    """Compiled statements of all SQLite engines: each test makes engines of its own, and an engine of its own would compile
    each statement anew. SQLAlchemy's keys begin with the dialect of the engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_STATEMENTS = Statements()


def _share_statements(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.execution_options(compiled_cache=_STATEMENTS)


sa.event.listen(sa.Engine, "engine_connect", _share_statements)

URLS = ["sqlite", *os.environ.get("NOVA_LITE_TEST_DATABASES", "").split()]


@functools.cache
def _migrated_file() -> pathlib.Path:
    """A SQLite database that was migrated, one for each process: alembic takes a hundred times as long as a copy."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="nova-lite-database-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    migration.sync(nova_conf.load([], config_files=[], database__connection=f"sqlite:///{directory}/template"))
    assert not list(directory.glob("template-*")), "rows of the template are in another file of SQLite's"
    return directory / "template"


def make_tables(url: str) -> str:
    """Bring an empty database to the newest schema, as ``db sync`` does; the URL again. A file of SQLite that is there has it
    already."""
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite":
        migration.sync(nova_conf.load([], config_files=[], database__connection=url))
    elif made.database is not None and not os.path.exists(made.database):
        shutil.copyfile(_migrated_file(), made.database)
    return url


@contextmanager
def empty_database(url: str, directory: pathlib.Path, migrated: bool = True) -> Iterator[str]:
    """The URL of a database without rows (without tables unless ``migrated``), for one of :data:`URLS`."""
    on_server = url != "sqlite"
    url = url if on_server else f"sqlite:///{directory}/nova.sqlite"
    if migrated:
        make_tables(url)
    try:
        yield url
    finally:
        if on_server:
            engine = core.make_engine(url)
            tables = sa.MetaData()
            tables.reflect(engine)
            tables.drop_all(engine)
            engine.dispose()
