"""A clock that differs from the database's is told of."""
import datetime

import pytest

from nova_lite import conf as nova_conf
from nova_lite import status, units
from nova_lite.db import clock, core
from tests.unit.db.databases import make_tables


@pytest.fixture
def conf(tmp_path):
    made = nova_conf.load([], config_files=[], database__connection=f"sqlite:///{tmp_path}/db")
    make_tables(made.database.connection)
    return made


@pytest.mark.parametrize(("seconds", "level", "words"), [
    (0, None, ""), (2, None, ""), (5, "WARNING", "5.0 s ahead of"), (-5, "WARNING", "5.0 s behind"), (60, "ERROR", "60.0 s")])
def test_a_wrong_clock_is_told_of(conf, monkeypatch, caplog, seconds, level, words):
    now = units.utcnow
    monkeypatch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(seconds=seconds))
    db = core.Database(conf)
    clock.watch(db)
    db.dispose()
    assert [one.levelname for one in caplog.records if "NTP" in one.message] == ([level] if level else [])
    assert words in caplog.text


@pytest.mark.parametrize(("seconds", "result"), [(0, status.SUCCESS), (-5, status.WARNING), (60, status.FAILURE)])
def test_the_upgrade_check_looks_at_the_clock(conf, monkeypatch, seconds, result):
    now = units.utcnow
    monkeypatch.setattr(units, "utcnow", lambda: now() + datetime.timedelta(seconds=seconds))
    assert dict(status.CHECKS)["Clock"](conf)[0] == result
