"""Empty databases for tests: SQLite, and the servers named in NOVA_LITE_TEST_DATABASES (URLs, separated by blanks).

The databases behind such URLs are emptied after each test.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite.db import core, migration

URLS = ["sqlite", *os.environ.get("NOVA_LITE_TEST_DATABASES", "").split()]


@contextmanager
def empty_database(url: str, directory: pathlib.Path, migrated: bool = True) -> Iterator[str]:
    """The URL of a database without rows (without tables unless ``migrated``), for one of :data:`URLS`."""
    on_server = url != "sqlite"
    url = url if on_server else f"sqlite:///{directory}/nova.sqlite"
    if migrated:
        migration.sync(nova_conf.load([], config_files=[], database__connection=url))
    try:
        yield url
    finally:
        if on_server:
            engine = core.make_engine(url)
            tables = sa.MetaData()
            tables.reflect(engine)
            tables.drop_all(engine)
            engine.dispose()
