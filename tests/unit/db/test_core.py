"""What databases say when something is wrong."""
import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite.db import core


def test_errors_do_not_tell_the_values_of_a_statement(tmp_path):
    engine = core.make_engine(f"sqlite:///{tmp_path}/db")
    with pytest.raises(sa.exc.OperationalError) as raised, engine.begin() as conn:
        conn.execute(sa.text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "top-secret"})
    engine.dispose()
    assert "nowhere" in str(raised.value)
    assert "top-secret" not in str(raised.value)


class Asked(Exception):
    """Raised instead of connecting."""


def connection_arguments(url, **options):
    """What the driver is given when an engine for ``url`` connects."""
    engine, seen = core.make_engine(url, **options), {}

    @sa.event.listens_for(engine, "do_connect")
    def note(_dialect, _record, _arguments, named):
        seen.update(named)
        raise Asked
    with pytest.raises(Asked):
        engine.connect()
    return seen


def test_no_database_is_waited_for_for_ever():
    given = connection_arguments("mysql+pymysql://nova:secret@db/nova?charset=utf8mb4")
    assert (given["connect_timeout"], given["read_timeout"], given["write_timeout"]) == (5, 25, 25)
    assert "innodb_lock_wait_timeout" in given["init_command"]      # the server gives up first, and says so
    given = connection_arguments("postgresql+psycopg2://nova:secret@db/nova")
    assert (given["connect_timeout"], given["tcp_user_timeout"]) == (5, 15000)
    assert given["keepalives_idle"] + given["keepalives_interval"] * given["keepalives_count"] <= 15


def test_the_url_says_it_otherwise():
    given = connection_arguments("mysql+pymysql://nova@db/x?connect_timeout=9&read_timeout=77&init_command=SET+NAMES+utf8mb4")
    assert (given["connect_timeout"], given["read_timeout"], given["write_timeout"]) == (9, 77, 25)
    assert given["init_command"] == "SET NAMES utf8mb4"
    given = connection_arguments("postgresql+psycopg2://nova@db/nova?keepalives_idle=60&connect_timeout=30")
    assert (int(given["keepalives_idle"]), int(given["connect_timeout"]), given["keepalives_count"]) == (60, 30, 3)


@pytest.mark.parametrize(("url", "limit"), [("mysql+pymysql://nova@db/nova", "read_timeout"),
                                            ("postgresql+psycopg2://nova@db/nova", "tcp_user_timeout")])
def test_a_migration_may_take_its_time(url, limit):
    assert limit in connection_arguments(url)
    assert limit not in connection_arguments(url, no_time_limit=True)


@pytest.mark.parametrize(("seconds", "times"), [(30.0, len(core.WRITES.pauses) + 1), (0.0, 1)])
def test_what_lost_its_connection_is_tried_again_unless_that_took_long(tmp_path, monkeypatch, seconds, times):
    monkeypatch.setattr(core, "RECONNECT_SECONDS", seconds)
    conf = nova_conf.load([], config_files=[], database__connection=f"sqlite:///{tmp_path}/db")
    db, tries = core.Database(conf), []

    def hang(_conn):
        tries.append(1)
        raise sa.exc.OperationalError("SELECT 1", {}, Exception("lost"), connection_invalidated=True)
    with pytest.raises(sa.exc.OperationalError):
        db.write(hang)
    db.dispose()
    assert len(tries) == times
