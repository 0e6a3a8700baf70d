"""A page of a list costs as many rows in a large cloud as in a small one: MariaDB counts the rows that it reads."""
from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite import units
from nova_lite.db import instance_list, instances, migration, models, moves, quotas, usage
from nova_lite.db.core import Database
from nova_lite.db.instance_list import Query
from nova_lite.objects.flavor import Flavor
from tests.support.engines import MariaDB

T = models.instances
COUNT, PAGE = 2000, 50
COLUMNS = (T.c.uuid, T.c.display_name, T.c.metadata, T.c.network_info)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    engine = MariaDB(tmp_path_factory.mktemp("mariadb"))
    try:
        conf = conf_module.load([], config_files=[], database__connection=engine.start().new_database())
        migration.sync(conf)
        made = Database(conf)
        made.write(_fill)
        yield made
        made.dispose()
    finally:
        engine.close()


def _fill(conn: sa.Connection) -> None:
    began, flavor = units.utcnow() - datetime.timedelta(days=COUNT), Flavor("1", "f", 1, 1, 1)
    instances.create_many(conn, [
        {"uuid": str(uuid.uuid4()), "project_id": f"p{number % 4}", "user_id": "u", "hostname": "n", "display_name":
         f"server-{number % 100}", "flavor": flavor, "vm_state": "error" if number % 20 == 3 else "active", "host":
         f"host-{number // 20}", "created_at": (made := began + datetime.timedelta(days=number)), "launched_at": made,
         "network_info": [{"id": "v", "fixed_ips": [{"address": f"10.0.{number // 250}.{number % 250}", "version": 4}]}]}
        for number in range(COUNT)])
    conn.execute(sa.insert(models.migrations), [
        {"created_at": began, "uuid": str(uuid.uuid4()), "instance_uuid": str(number), "migration_type": "migration",
         "status": "done", "source_compute": f"host-{number % 100}", "dest_compute": "other"} for number in range(COUNT)])


def _read(conn: sa.Connection) -> dict[str, int]:
    return {name: int(value) for name, value in conn.exec_driver_sql(
        "SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%%'")}


def _query(**asked: Any) -> Query:
    """As the API asks for living servers."""
    return Query(**asked, limit=PAGE, soft_deleted=False)


def cost(db: Database, ask: Any) -> tuple[int, int]:
    """(rows of the answer, rows that the database read for it)"""
    with db.read() as conn:
        before = _read(conn)
        found = ask(conn)
        after = _read(conn)
    return len(found), sum(after[name] - before[name] for name in after)


def _middle(db: Database) -> str:
    with db.read() as conn:
        return conn.scalars(sa.select(T.c.uuid).order_by(T.c.created_at).offset(COUNT // 2 + 50).limit(1)).one()


@pytest.mark.parametrize("asked", [
    {}, {"exact": {"project_id": "p1"}}, {"exact": {"vm_state": "error"}}, {"exact": {"host": "host-7"}},
    {"states": [("error", None)]}, *({"sort": [(key, order)]} for key in ("created_at", "display_name", "host", "updated_at")
                                     for order in ("asc", "desc"))], ids=str)
@pytest.mark.parametrize("is_first", [True, False], ids=["first page", "middle page"])
def test_a_page_reads_its_rows_only(db, asked, is_first):
    marker = None if is_first or "project_id" in str(asked) else _middle(db)
    found, read = cost(db, lambda conn: instance_list.rows(conn, _query(**asked, marker=marker), COLUMNS))
    assert found == PAGE or (asked == {"exact": {"host": "host-7"}} and found in (0, 20))
    assert read < 6 * PAGE


SEARCHES = pytest.mark.parametrize(("asked", "count"), [
    ({"ip": {4: "^10.0.3.7$"}}, 1), ({"patterns": {"display_name": "ver-77"}}, 20),
    ({"patterns": {"display_name": "r-7[78]$"}}, 40)], ids=str)


@SEARCHES
def test_a_search_reads_each_entry_of_an_index_once(db, asked, count):
    found, read = cost(db, lambda conn: instance_list.rows(conn, _query(**asked), COLUMNS))
    assert found == count
    assert COUNT < read < COUNT + 10 * PAGE


@SEARCHES
def test_a_search_reads_no_row_that_it_does_not_show(db, asked, count):
    """MariaDB counts the reading of an entry and of its row as one."""
    plans = []

    def explain(conn: sa.Connection, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "FROM instances" in statement and not statement.startswith("EXPLAIN"):
            plans.append(conn.exec_driver_sql("EXPLAIN " + statement[statement.index("SELECT"):], parameters).mappings().all())

    with db.read() as conn:
        sa.event.listen(conn, "before_cursor_execute", explain)
        instance_list.rows(conn, _query(**asked), COLUMNS)
    searched = plans[0][-1]         # the subquery, or the statement that finds addresses
    assert searched["table"] == "instances"
    assert "Using index" in searched["Extra"].split("; "), searched


@pytest.mark.parametrize("sort", [[], [("display_name", "asc")]], ids=str)
def test_a_page_is_not_sorted_in_a_file(db, sort):
    with db.read() as conn:
        instance_list.rows(conn, Query(sort=sort, soft_deleted=False), list(T.c))
        files = conn.exec_driver_sql("SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'").one()[1]
    assert int(files) == 0


def test_usage_and_moves_of_a_host_read_their_rows_only(db):
    begin, end = units.utcnow() - datetime.timedelta(days=9999), units.utcnow()
    assert cost(db, lambda conn: usage.servers(conn, begin, end, limit=PAGE))[1] < 6 * PAGE
    assert cost(db, lambda conn: usage.servers(conn, begin, end, "p2", limit=PAGE))[1] < 6 * PAGE
    found, read = cost(db, lambda conn: moves.list_all(conn, host="host-7", limit=PAGE))
    assert found == 20
    assert read < 6 * PAGE


def test_quotas_count_in_an_index(db):
    with db.read() as conn:
        before = _read(conn)
        assert quotas.usage(conn, "p1")["instances"] == COUNT // 4
        after = _read(conn)
    assert sum(after[name] - before[name] for name in after) < COUNT // 4 + PAGE
