"""Servers that wait for a worker which will never come end in ERROR, all others are left alone."""
import datetime

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.sweeper import Sweeper
from nova_lite.context import RequestContext
from nova_lite.db import actions, core, instances
from nova_lite.objects import states
from tests.support.servers import add_server
from tests.unit.db.databases import make_tables


@pytest.fixture
def db(tmp_path):
    made = core.Database(nova_conf.load([], config_files=[], database__connection=make_tables(f"sqlite:///{tmp_path}/db")))
    yield made
    made.dispose()


def settle(db):
    return Sweeper(db.conf, db, BusHealth(db.conf, db, lambda _seconds: None)).settle_orphans()


def server(db, vm_state, task_state, seconds=3600.0, verb=None):
    """A server that has not changed for so long, perhaps with an open action."""
    uuid = add_server(db).uuid
    if verb is not None:
        db.write(actions.create, RequestContext(user_id="u", project_id="p"), verb, [uuid], 30)
    db.write(instances.update, uuid, {"vm_state": vm_state, "task_state": task_state,
                                      "updated_at": units.utcnow() - datetime.timedelta(seconds=seconds)})
    return uuid


@pytest.mark.parametrize(("vm_state", "task_state"), [
    (states.BUILDING, states.SPAWNING), (states.BUILDING, None), (states.ACTIVE, states.REBOOTING)])
def test_a_server_without_a_worker_ends_in_error(db, vm_state, task_state):
    uuid = server(db, vm_state, task_state)
    assert (settle(db), settle(db)) == (1, 0)
    with db.read() as conn:
        found = instances.get(conn, uuid)
    assert (found.vm_state, found.task_state) == (states.ERROR, None)
    assert f"'{task_state}'" in found.fault["message"]


@pytest.mark.parametrize(("values", "settled"), [
    ({"verb": "reboot_hard"}, 0), ({"verb": "extend_volume"}, 1), ({"seconds": 1.0}, 0), ({}, 1)])
def test_a_server_that_has_a_worker_or_has_just_changed_is_left_alone(db, values, settled):
    """The extension of a volume waits until the server is idle, so it is no work on the server."""
    server(db, states.ACTIVE, states.REBOOTING, **values)
    assert settle(db) == settled


def test_no_server_at_rest_is_read(db):
    server(db, states.ACTIVE, None)
    asked, plan = [], []
    sa.event.listen(db.engine, "before_cursor_execute", lambda *a: asked.append((a[2], a[3])))
    assert settle(db) == 0
    [(text, parameters)] = [one for one in asked if one[0].startswith("SELECT")]
    with db.read() as conn:
        plan = [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)]
    looks = [step for step in plan if step.startswith(("SEARCH", "SCAN"))]
    assert {step.partition(" USING ")[2] for step in looks if " instances " in step} == {
        "INDEX ix_instances_task_state (deleted=? AND task_state>?)", "INDEX ix_instances_vm_state (deleted=? AND vm_state=?)"}
    assert not any(step.startswith("SCAN") for step in looks)
