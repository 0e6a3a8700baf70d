"""Periodic tasks of the cluster: one of several conductors runs each."""
import datetime

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.conductor.manager import ConductorManager
from nova_lite.conductor.periodic import PeriodicTasks, Task
from nova_lite.db import core, models
from tests.support.clock import ManualClock
from tests.unit.db.databases import make_tables

T = models.periodic_tasks
INTERVAL = 100.0


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "conf").write_text("[DEFAULT]\ntransport_url = in-process:///periodic\n")
    made = nova_conf.load([], config_files=[str(tmp_path / "conf")], state_path=str(tmp_path),
                          database__connection=f"sqlite:///{tmp_path}/db", network__driver="null", compute__driver="fake")
    make_tables(made.database.connection)
    return made


@pytest.fixture
def db(conf):
    made = core.Database(conf)
    yield made
    made.dispose()


def pass_time(db, seconds, clock=None):
    """All leases end so much earlier."""
    with db.read() as conn:
        leases = conn.execute(sa.select(T.c.name, T.c.lease_until)).all()
    for name, until in leases:
        earlier = sa.update(T).where(T.c.name == name).values(lease_until=until - datetime.timedelta(seconds=seconds))
        db.write(lambda conn, earlier=earlier: conn.execute(earlier))
    if clock is not None:
        clock.now += seconds


class Conductors:
    """Conductors that share one task; ``turn`` is what the loop of one does each interval."""

    def __init__(self, db, run=lambda name: None, **options):
        self.db, self.run, self.options = db, run, options
        self.clock, self.runs, self.parts, self._turns = ManualClock(), [], {}, {}
        for name in "ab":
            self.start(name)

    def start(self, name):
        def work():
            self.runs.append(name)
            self.run(name)
        options = {key: (lambda value=value: value(name)) if callable(value) else value for key, value in self.options.items()}
        part = self.parts[name] = PeriodicTasks(self.db, name, [Task("work", INTERVAL, work, **options)], self.clock)
        part.start()
        [(_, renew), (interval, self._turns[name])] = part.loops()
        assert renew == part.renew
        assert interval == INTERVAL

    def turn(self, *names):
        """The runs that the turns of these conductors make."""
        before = len(self.runs)
        for name in names:
            self._turns[name]()
        return "".join(self.runs[before:])

    def pass_time(self, intervals):
        pass_time(self.db, intervals * INTERVAL, self.clock)


def test_of_two_conductors_one_runs_the_task(db):
    cluster = Conductors(db)
    assert cluster.turn("a", "b") == "a"
    for _ in range(3):
        cluster.pass_time(0.5)
        assert cluster.turn("b") == ""
        cluster.pass_time(0.5)
        assert cluster.turn("b", "a") == "b"        # whoever looks first when the interval is over
        cluster.pass_time(1)
        assert cluster.turn("a", "b") == "a"


def test_a_dead_conductor_holds_up_nothing(db):
    cluster = Conductors(db)
    assert cluster.turn("a") == "a"
    cluster.pass_time(1)
    assert cluster.turn("b") == "b"


def test_a_task_that_remembers_its_runs_stays_until_its_conductor_is_dead(db):
    cluster = Conductors(db, stays=True)
    assert cluster.turn("a", "b") == "a"
    for _ in range(3):
        cluster.pass_time(1)
        assert cluster.turn("b", "a") == "a"
    cluster.pass_time(1)
    assert cluster.turn("b") == ""
    cluster.pass_time(1.1)
    assert cluster.turn("b", "a") == "b"


def test_a_conductor_that_stops_leaves_its_tasks_at_once(db):
    cluster = Conductors(db, stays=True)
    assert cluster.turn("a", "b") == "a"
    cluster.parts["a"].stop()
    assert cluster.turn("a", "b") == "b"
    cluster.start("a")      # again
    assert cluster.turn("a") == ""


def test_a_run_that_takes_long_keeps_its_lease_but_not_for_ever(db):
    turns = []

    def work(name):
        if name == "b":
            return
        for _ in range(12):
            cluster.pass_time(0.8)
            cluster.parts["a"].renew()
            cluster.pass_time(0.8)
            turns.append(cluster.turn("b"))
    cluster = Conductors(db, work)
    assert cluster.turn("a")[0] == "a"
    assert turns.index("b") == 6        # after ten intervals


def test_a_run_that_failed_is_done_again_by_any_conductor(db):
    def work(name):
        if name == "a":
            raise OSError("the network is down")
    cluster = Conductors(db, work)
    with pytest.raises(OSError, match="network"):
        cluster.turn("a")
    cluster.parts["a"].renew()      # not under way any more
    cluster.pass_time(1)
    assert cluster.turn("b") == "b"


def test_a_conductor_that_is_not_fit_lets_others_go_first(db):
    sick = {"a"}
    cluster = Conductors(db, is_fit=lambda name: name not in sick)
    assert cluster.turn("a") == "a"     # nobody has ever run it
    cluster.pass_time(1)
    assert cluster.turn("a", "b") == "b"
    for _ in range(3):
        cluster.pass_time(1)
        assert cluster.turn("a", "b") == "b"
    sick.add("b")
    cluster.pass_time(1)
    assert cluster.turn("a", "b") == ""
    cluster.pass_time(1)
    assert cluster.turn("a", "b") == "a"


def test_what_is_once_per_cluster_and_what_each_conductor_does(conf, db, monkeypatch):
    ran = []
    transport = rpc.get_transport(conf)
    managers = {name: ConductorManager(conf, transport) for name in ("a", "b")}
    for name, manager in managers.items():
        manager.start()
        manager.bus_health.since -= 1000
        for what, method in (("reconciler", "run"), ("reconciler", "purge"), ("confirmer", "run"), ("leaked_resources", "run"),
                             ("deferred_cleanup", "run"), ("expiry", "run"), ("limits", "run"), ("sweeper", "sweep"),
                             ("sweeper", "settle_orphans"), ("leases", "renew")):
            real = getattr(getattr(manager, what), method)
            note = f"{what}.{method}"

            def run(*args, name=name, note=note, real=real):
                ran.append((note, name))
                return real(*args)
            monkeypatch.setattr(getattr(manager, what), method, run)
    for manager in managers.values():
        # the loops hold the functions of before
        manager.periodic_tasks = PeriodicTasks(db, manager.leases.owner, manager._cluster_tasks())
        for _, function in manager.periodics():
            if "_show_life" not in getattr(function, "__qualname__", ""):
                function()
    for manager in managers.values():
        manager.stop()
    transport.cleanup()
    each = {note for note, name in ran if name == "b"}
    assert each == {"leases.renew"}
    assert {note for note, name in ran if name == "a"} - each == {
        "reconciler.run", "reconciler.purge", "confirmer.run", "leaked_resources.run", "deferred_cleanup.run", "expiry.run",
        "limits.run", "sweeper.sweep", "sweeper.settle_orphans"}
