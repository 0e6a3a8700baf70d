"""Whether a conductor hears its hosts at all."""
import pytest

from nova_lite import conf as nova_conf
from nova_lite.conductor import heartbeats


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(heartbeats, "time", made)
    return made


def test_hosts_have_two_reports_of_time_after_a_start_and_after_each_outage(clock):
    answers = []

    def ping(timeout):
        assert timeout == 10
        if answers:
            raise answers.pop()
    bus_health = heartbeats.BusHealth(nova_conf.load([], config_files=[]), ping)
    assert bus_health.grace() == 21
    for _ in range(3):
        clock.now += 10
        bus_health.check()
    assert bus_health.grace() == 0
    answers += [TimeoutError(), TimeoutError()]
    for _ in range(2):
        clock.now += 10
        with pytest.raises(TimeoutError):
            bus_health.check()
    assert bus_health.grace() == 21        # deaf
    clock.now += 10
    bus_health.check()
    clock.now += 5
    assert bus_health.grace() == 16
