"""What a conductor writes when many hosts report at once."""
import datetime
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import retry, units
from nova_lite.conductor import heartbeats
from nova_lite.context import RequestContext
from nova_lite.db import actions, core, hosts, models, services
from nova_lite.objects.action import COMPUTE
from tests.unit.db.databases import make_tables

HOUR = datetime.timedelta(hours=1)
NODE = {"hypervisor_type": "fake", "hypervisor_version": 1, "vcpus": 8, "memory_mb": 1024, "local_gb": 10}


@pytest.fixture
def db(tmp_path):
    made = core.Database(nova_conf.load([], config_files=[], database__connection=make_tables(f"sqlite:///{tmp_path}/db")))
    yield made
    made.dispose()


def known(db, *names):
    """Hosts that reported an hour ago."""
    for name in names:
        db.write(services.heard_from, name, services.COMPUTE)
        db.write(hosts.upsert_node, name, {**NODE, "hypervisor_hostname": name})
    db.write(lambda c: c.execute(sa.update(models.services).values(last_seen_at=units.utcnow() - HOUR)))


def seen(db):
    """The hosts that reported just now."""
    with db.read() as conn:
        return {row["host"] for row in services.list_all(conn) if row["last_seen_at"] > units.utcnow() - HOUR / 2}


def begin(db, host, owner=None, count=1):
    """Actions on a host that wait, or that ``owner`` works on and whose lease has just run out."""
    ids = db.write(actions.create, RequestContext(user_id="u", project_id="p"), "stop",
                   [str(uuid.uuid4()) for _ in range(count)], -1, COMPUTE, host)
    if owner is not None:
        db.write(actions.claim, ids, owner, -1, COMPUTE, host)
    return ids


def report(host, *in_flight, owner="worker", **more):
    return {"host": host, "owner": owner, "actions": list(in_flight), **more}


class UntilFull(retry.Clock):
    """However slow the threads of a test are, all of them get into one batch."""

    def wait(self, event, seconds):
        assert seconds == heartbeats.GATHER_SECONDS
        return event.wait(60)


def take(db, *reports):
    """The answers and errors of hosts that report at the same moment."""
    taker = heartbeats.Heartbeats(db.conf, db, lambda: len(reports), UntilFull())

    def one(values):
        try:
            return taker.take(values)
        except Exception as error:
            return error
    with ThreadPoolExecutor(len(reports)) as pool:
        return list(pool.map(one, reports))


def statements(db):
    """The statements from now on, and the ends of transactions."""
    found = []
    sa.event.listen(db.engine, "before_cursor_execute", lambda *a: found.append(a[2]))
    sa.event.listen(db.engine, "commit", lambda _conn: found.append("COMMIT"))
    return found


def is_leased(db, action_id):
    with db.read() as conn:
        return actions.get(conn, action_id).lease_until > units.utcnow()


def test_hosts_that_report_together_cost_one_transaction_of_few_statements(db):
    names = [f"h{n}" for n in range(30)]
    known(db, *names)
    asked = statements(db)
    assert take(db, *(report(name) for name in names)) == [{"actions": []}] * 30
    assert [text.split()[0] for text in asked if not text.startswith("BEGIN")] == ["UPDATE", "SELECT", "SELECT", "COMMIT"]
    assert seen(db) == set(names)


def test_each_host_is_told_of_its_own_actions_and_keeps_what_it_works_on(db):
    known(db, "h1", "h2", "h3")
    waiting, working = begin(db, "h1", count=2), begin(db, "h2", "two") + begin(db, "h3", "three")
    asked = statements(db)
    assert take(db, report("h1"), report("h2", working[0], owner="two"), report("h3", working[1], owner="three")) == [
        {"actions": waiting}, {"actions": []}, {"actions": []}]
    assert [is_leased(db, one) for one in working] == [True, True]
    assert len([text for text in asked if text.startswith("UPDATE instance_actions")]) == 1
    with db.read() as conn:
        counts = dict(conn.execute(sa.select(models.compute_nodes.c.host, models.compute_nodes.c.io_ops)).all())
    assert counts == {"h1": 0, "h2": 1, "h3": 1}


def test_no_host_renews_what_another_one_holds(db):
    known(db, "h1", "h2")
    [mine], [theirs] = begin(db, "h1", "one"), begin(db, "h2", "two")
    take(db, report("h1", mine, theirs, owner="one"), report("h2", owner="two"))
    assert (is_leased(db, mine), is_leased(db, theirs)) == (True, False)


def test_a_report_that_is_refused_costs_the_others_nothing(db):
    known(db, "h1", "h2", "h3")
    [action_id] = begin(db, "h1", "one")
    [waiting] = begin(db, "h3")
    answers = take(db, report("h1", action_id, owner="one"), report("h2", 1 << 70), report("h3"))
    assert (answers[0], answers[2]) == ({"actions": []}, {"actions": [waiting]})
    assert isinstance(answers[1], OverflowError)
    assert is_leased(db, action_id)
    assert seen(db) == {"h1", "h3"}


def test_an_inventory_that_is_refused_costs_the_others_nothing(db):
    known(db, "h1")
    inventories = [{"inventory": {**NODE, **wrong, "hypervisor_hostname": "n"}, "ratios": {}, "reserved": {}}
                   for wrong in ({"vcpus": None}, {})]
    answers = take(db, report("h1"), report("h2", **inventories[0]), report("h3", **inventories[1]))
    assert (answers[0], answers[2]) == ({"actions": []}, {"actions": []})
    assert isinstance(answers[1], sa.exc.IntegrityError)
    assert seen(db) == {"h1", "h2", "h3"}
    with db.read() as conn:
        assert set(conn.scalars(sa.select(models.compute_nodes.c.host))) == {"h1", "h3"}


def test_hosts_that_nobody_knows_get_their_record_beside_those_that_are_known(db):
    known(db, "h1")
    assert take(db, report("h1"), report("new"), report("unseen", seen=False)) == [{"actions": []}] * 3
    assert seen(db) == {"h1", "new"}


def test_two_processes_of_one_host_are_both_answered(db):
    known(db, "h1")
    [old], [new], [waiting] = begin(db, "h1", "old"), begin(db, "h1", "new"), begin(db, "h1")
    assert take(db, report("h1", old, owner="old"), report("h1", new, owner="new")) == [{"actions": [waiting]}] * 2
    assert (is_leased(db, old), is_leased(db, new)) == (True, True)


def test_an_error_of_the_database_is_told_to_every_host_of_the_batch(db):
    known(db, "h1", "h2", "h3")
    db.write(lambda conn: models.services.drop(conn))
    asked = statements(db)
    answers = take(db, *(report(f"h{n}") for n in range(1, 4)))
    assert [type(answer) for answer in answers] == [sa.exc.OperationalError] * 3
    assert len([text for text in asked if text.startswith("UPDATE services")]) == 1     # not once more for each host
