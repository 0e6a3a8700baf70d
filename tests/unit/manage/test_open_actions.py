"""What is under way, as `nova-lite-manage action list` shows it."""
import datetime

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import manage, units
from nova_lite.context import admin_context
from nova_lite.db import actions, core, instances, models
from nova_lite.manage import open_actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from tests.unit.db.databases import make_tables

SERVERS = [f"{n}0000000-0000-0000-0000-000000000000" for n in (1, 2)]


@pytest.fixture
def db(tmp_path):
    url = f"sqlite:///{tmp_path}/nova.sqlite"
    make_tables(url)
    made = core.Database(nova_conf.load([], config_files=[], database__connection=url))
    yield made
    made.dispose()


@pytest.fixture
def both(db):
    """A build that waits for a scheduler, and a stop that a host has held for ten minutes; their ids."""
    flavor = Flavor(flavorid="1", name="small", vcpus=1, memory_mb=1024, root_gb=10)

    def write(conn):
        common = {"display_name": "one", "project_id": "p", "user_id": "u", "flavor": flavor}
        instances.create_many(conn, [
            {"uuid": SERVERS[0], "vm_state": states.BUILDING, "task_state": states.SCHEDULING, "host": None,
             **common},
            {"uuid": SERVERS[1], "vm_state": states.ACTIVE, "task_state": states.POWERING_OFF, "host": "h1", **common}])
        build = actions.create(conn, admin_context(), "build", SERVERS[:1], 60, objects.CONDUCTOR)[0]
        stop = actions.create(conn, admin_context(), "stop", SERVERS[1:], 60, host="h1")[0]
        actions.claim(conn, [stop], "h1:4711:abcdef", 60, objects.COMPUTE, "h1")
        table, early = models.instance_actions, units.utcnow() - datetime.timedelta(minutes=10)
        conn.execute(sa.update(table).where(table.c.id == stop).values(start_time=early, attempts=1))
        actions.add_events(conn, [(build, actions.event("schedule", "c1", units.utcnow(), error=text))
                                  for text in ("no answer", "no scheduler\nanswers")])
        return build, stop
    return db.write(write)


def _words(line):
    """The columns: two blanks at least are between them."""
    return [word.strip() for word in line.split("  ") if word.strip()]


def test_says_that_there_is_none(db):
    assert list(open_actions.lines(db)) == ["No action is open."]
    assert list(open_actions.lines(db, host="h1")) == ["No such action is open."]


def test_shows_what_is_done_by_whom_and_for_how_long_oldest_first(db, both):
    build, stop = both
    heading, first, second = open_actions.lines(db)
    assert heading.split() == ["id", "server", "verb", "step", "host", "holder", "age", "lease", "attempts", "last", "error"]
    assert _words(first)[:8] == [str(stop), SERVERS[1], "stop", "compute: powering-off", "h1", "h1:4711", "10m", "60s"]
    assert _words(first)[8:] == ["1"]
    assert _words(second)[:6] == [str(build), SERVERS[0], "build", "conductor: scheduling", "-", "nobody yet"]
    assert _words(second)[-1] == "no scheduler answers"


def test_shows_the_step_of_what_goes_from_host_to_host(db, both):
    [move] = db.write(actions.create, admin_context(), "migrate", SERVERS[1:], 60, host="h1")
    db.write(actions.hand_over, [move], 60, objects.COMPUTE, "h2", {"undo": "no disk"}, "undo")
    [shown] = [_words(line) for line in open_actions.lines(db, host="h2")][1:]
    assert shown[:5] == [str(move), SERVERS[1], "migrate", "compute: undo", "h2"]


def test_leaves_out_what_has_ended(db, both):
    db.write(actions.finish, [both[1]])
    assert [_words(line)[0] for line in open_actions.lines(db)] == ["id", str(both[0])]


@pytest.mark.parametrize(("question", "found"), [
    ({"host": "h1"}, [1]), ({"host": "h2"}, []), ({"min_age": 300}, [1]), ({"min_age": 3600}, []),
    ({"host": "h1", "min_age": 300}, [1])])
def test_filters_by_host_and_age(db, both, question, found):
    shown = [_words(line)[0] for line in open_actions.lines(db, **question)][1:]
    assert shown == [str(both[n]) for n in found]


def test_the_host_of_the_server_counts_while_a_conductor_works_on_it(db, both):
    db.write(actions.hand_over, [both[1]], 60, objects.CONDUCTOR)
    assert len(list(open_actions.lines(db, host="h1"))) == 2


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (99, "99s"), (100, "2m"), (5940, "99m"), (6000, "2h"),
                                               (360000, "4d"), (-30, "-30s")])
def test_duration(seconds, text):
    assert open_actions.duration(seconds) == text


def test_is_a_command():
    command = next(c for c in manage.COMMANDS if (c.area, c.name) == ("action", "list"))
    assert [flag for flag, _ in command.arguments] == ["--host", "--older-than"]
