"""Loops of many processes drift apart, and those that fail are slow to ask again, with an injected clock and random."""
import itertools
import random

import pytest

from nova_lite.runtime.pace import Pace
from tests.support.clock import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def runs(clock, pace, outcomes, lasts=0.0):
    """The pauses after runs that succeed (True) or fail."""
    pauses = []
    for ended_well in outcomes:
        clock.now += lasts
        pauses.append(round(pace.after_success() if ended_well else pace.after_failure(), 6))
        clock.now += pauses[-1]
    return pauses


@pytest.mark.parametrize(("number", "first"), [(0.0, 0.0), (0.25, 2.5), (0.999, 9.99)])
def test_the_second_run_is_anywhere_in_the_first_interval(clock, number, first):
    assert runs(clock, Pace(10.0, clock, lambda: number), [True] * 4) == [first, 10.0, 10.0, 10.0]


def test_loops_that_start_together_do_not_stay_together(clock):
    numbers = random.Random(7)
    seconds = sorted(Pace(10.0, clock, numbers.random).after_success() for _ in range(1000))
    assert max(sum(second <= one < second + 1 for one in seconds) for second in range(10)) < 150


def test_a_wait_in_the_first_run_leaves_the_random_time(clock):
    """As of many daemons that wait for the same conductor."""
    assert runs(clock, Pace(10.0, clock, lambda: 0.5), [True, True], lasts=60.0) == [5.0, 0.0]


def test_a_slow_run_delays_the_next_one_only(clock):
    pace = Pace(10.0, clock, lambda: 0.0)
    assert runs(clock, pace, [True, True]) == [0.0, 10.0]
    assert runs(clock, pace, [True], lasts=12.0) == [0.0]
    assert runs(clock, pace, [True], lasts=1.0) == [9.0]


def test_pauses_grow_while_runs_fail(clock):
    """A loop with a long interval keeps it: it asks seldom as it is."""
    assert runs(clock, Pace(0.1, clock, lambda: 0.0), [False] * 5 + [True, False]) == [1.0, 2.0, 4.0, 5.0, 5.0, 0.1, 1.0]
    assert runs(clock, Pace(60.0, clock, lambda: 0.0), [True, False, False, True]) == [0.0, 60.0, 60.0, 60.0]


def test_a_run_that_failed_by_its_time_limit_is_not_begun_again_at_once(clock):
    pace = Pace(10.0, clock, lambda: 0.5)
    runs(clock, pace, [True])
    assert runs(clock, pace, [False] * 4, lasts=10.0) == [0.75, 1.5, 3.0, 3.75]


def test_a_host_reports_again_before_conductors_sweep(clock):
    """Conductors sweep two intervals after the broker is back (``BusHealth.is_steady``). A report that is lost just before
    fails after 10 s."""
    for number in itertools.chain((0.0, 0.999), (random.Random(3).random() for _ in range(50))):
        pace = Pace(10.0, clock, lambda number=number: number)
        runs(clock, pace, [True] + [False] * 9, lasts=10.0)
        clock.now += 10.0
        assert 10.0 + pace.after_failure() < 2 * 10.0
