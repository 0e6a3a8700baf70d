"""The check at start agrees with alembic."""
from __future__ import annotations

import pytest

from nova_lite import conf, exception
from nova_lite.db import core, migration, schema
from nova_lite.runtime import checks


@pytest.fixture
def config(tmp_path):
    return conf.load([], config_files=[], database__connection=f"sqlite:///{tmp_path}/db.sqlite")


def test_head_is_alembics(config):
    assert migration.version(config) == (None, schema.head())


@pytest.mark.parametrize("url", ["rabbit://cloud:secret@127.0.0.1:1/", "", "fake://"])
def test_a_service_with_a_broker_needs_a_connection(url, tmp_path):
    """One that forgot it would take the cloud's messages and look for its servers in a file of its own."""
    path = tmp_path / "nova-lite.conf"
    path.write_text(f"[DEFAULT]\n{f'transport_url = {url}' if url else ''}\n")
    config = conf.load([], config_files=[str(path)])
    reason = "no such table|unable to open|at nothing" if url == "fake://" else "connection is not set"
    with pytest.raises(exception.NovaLiteError, match=reason):
        checks.check_database(config)


def test_only_a_synced_database_passes(config):
    database = core.Database(config)
    with database.read() as c, pytest.raises(exception.ConfigError, match="at nothing.*db sync"):
        schema.check(c)
    migration.sync(config)
    checks.check_database(config)
    database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(exception.ConfigError, match="at 9999"):
        checks.check_database(config)
