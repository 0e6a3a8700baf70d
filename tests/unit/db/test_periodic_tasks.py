"""The leases of periodic tasks, on each kind of database."""
import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite.db import clock, core, models, periodic_tasks
from tests.unit.db.databases import URLS, empty_database

T = models.periodic_tasks


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def db(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        made = core.Database(nova_conf.load([], config_files=[], database__connection=url))
        made.write(periodic_tasks.ensure, ["sweep", "purge"])
        yield made
        made.dispose()


def take(db, owner, **options):
    return db.write(periodic_tasks.take, "sweep", owner, 10, **options)


def end(db, seconds=0.0):
    """The lease of the sweep has been over for so long."""
    db.write(lambda conn: conn.execute(sa.update(T).where(T.c.name == "sweep").values(lease_until=clock.after(conn, -seconds))))


def test_a_task_has_one_owner_until_its_lease_is_over(db):
    assert take(db, "a")
    assert take(db, "a")
    assert not take(db, "b")
    assert db.write(periodic_tasks.take, "purge", "b", 10)      # another task
    end(db, 0.1)
    assert take(db, "b")
    assert not take(db, "a")


def test_a_renewal_keeps_the_lease_and_does_not_get_one_back(db):
    assert take(db, "a")
    end(db, 0.1)
    assert db.write(periodic_tasks.renew, "sweep", "a", 10)
    assert not take(db, "b")
    end(db, 0.1)
    assert take(db, "b")
    assert not db.write(periodic_tasks.renew, "sweep", "a", 10)
    assert not take(db, "a")


def test_who_stops_leaves_its_tasks_only(db):
    assert take(db, "a")
    assert db.write(periodic_tasks.take, "purge", "b", 10)
    db.write(periodic_tasks.release, "a")
    assert take(db, "b")
    assert not db.write(periodic_tasks.take, "purge", "a", 10)


def test_an_owner_that_is_not_fit_waits_longer(db):
    assert take(db, "a", over_for=5)        # of a new task
    db.write(periodic_tasks.release, "a")
    assert take(db, "b", over_for=5)        # of one that its owner has left
    db.write(periodic_tasks.release, "b")
    assert take(db, "a")
    assert not take(db, "a", over_for=5)
    end(db, 4)
    assert not take(db, "a", over_for=5)
    end(db, 6)
    assert take(db, "a", over_for=5)


def test_rows_are_made_once(db):
    assert take(db, "a")
    db.write(periodic_tasks.ensure, ["sweep", "confirm"])
    with db.read() as conn:
        rows = {row.name: row for row in conn.execute(sa.select(T))}
    assert set(rows) == {"sweep", "purge", "confirm"}
    assert rows["sweep"].owner == "a"
    assert rows["confirm"].owner is None
    assert db.write(periodic_tasks.take, "confirm", "b", 10)


def test_the_last_run_is_known(db):
    assert take(db, "a")
    assert not take(db, "b")
    with db.read() as conn:
        [began] = conn.scalars(sa.select(T.c.last_run_at).where(T.c.name == "sweep"))
        assert abs((clock.read(conn) - began).total_seconds()) < 60
