"""Whether a conductor hears its hosts at all."""
import datetime

import pytest
import sqlalchemy as sa

from nova_lite.conductor import bus_health as module
from nova_lite.db import clock as db_clock
from nova_lite.db import models, services


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_hosts_have_the_time_of_service_down_time_after_a_start_and_after_each_outage(clock, cloud):
    answers = []

    def ping(timeout):
        assert timeout == 10
        if answers:
            raise answers.pop()
    cloud.conf.set_override("service_down_time", 60, group="compute")
    bus_health = module.BusHealth(cloud.conf, cloud.db, ping)
    assert (bus_health.grace(), bus_health.is_steady()) == (60, False)
    for left, is_steady in ((50, False), (40, False), (30, True), (20, True), (10, True), (0, True)):
        clock.now += 10
        bus_health.check()
        assert (bus_health.grace(), bus_health.is_steady()) == (left, is_steady)
    answers += [TimeoutError(), TimeoutError()]
    for _ in range(2):
        clock.now += 10
        with pytest.raises(TimeoutError):
            bus_health.check()
    assert (bus_health.grace(), bus_health.is_steady()) == (60, False)      # it receives nothing
    clock.now += 10
    bus_health.check()
    clock.now += 5
    assert (bus_health.grace(), bus_health.is_steady()) == (55, False)


def _listening(cloud, since=None):
    """Seconds since the beginning and the end of the time in which conductors received reports, which may be moved."""
    table = models.services
    of_conductor = table.c.binary == services.CONDUCTOR
    if since is not None:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        began, ended = (now - datetime.timedelta(seconds=seconds) for seconds in since)
        cloud.run(sa.update(table).where(of_conductor).values(listening_since=began, listened_until=ended))
    with cloud.db.read() as conn:
        row = conn.execute(sa.select(table).where(of_conductor)).one()
        now = db_clock.read(conn)
    return [round((now - moment).total_seconds()) for moment in (row.listening_since, row.listened_until)]


def _dead(cloud, host="h1", down_time=30, interval=10):
    with cloud.db.read() as conn:
        return services.is_dead(conn, services.get_by_host(conn, host, services.COMPUTE), down_time, interval)


def test_the_time_of_listening_is_written_down(clock, cloud):
    health = module.BusHealth(cloud.conf, cloud.db, lambda _timeout: None)
    for _ in range(5):
        clock.now += 10
        health.check()
    assert _listening(cloud) == [50, 0]


@pytest.mark.parametrize(("before", "after"), [([600, 14], [600, 0]), ([600, 16], [10, 0]), ([5, 3], [10, 0])],
                         ids=["goes on", "a break", "began later"])
def test_a_worker_that_starts_continues_the_time_of_the_others(clock, cloud, before, after):
    health = module.BusHealth(cloud.conf, cloud.db, lambda _timeout: None)
    _listening(cloud, before)
    clock.now += 10
    health.check()
    assert _listening(cloud) == after


def test_a_silent_host_is_dead_only_when_somebody_listened(cloud):
    cloud.silence("h1")
    cloud.run(sa.update(models.services).values(listening_since=None, listened_until=None))
    assert not _dead(cloud)
    for listening in ([29, 0], [600, 16]):
        _listening(cloud, listening)
        assert not _dead(cloud)
    _listening(cloud, [31, 14])
    assert _dead(cloud)
    assert not _dead(cloud, "h2")
    cloud.force_down("h2")
    assert _dead(cloud, "h2")
