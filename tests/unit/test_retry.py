"""Retries with an injected clock."""
import subprocess
import sys
import textwrap

import pytest

from nova_lite import exception, retry
from nova_lite.retry import Schedule
from tests.support.clock import ManualClock

AWAY = exception.ServiceUnavailable(what="Cinder", reason="it is away")


class Step:
    """Raises or returns one after the other; the last one again and again."""

    def __init__(self, *outcomes):
        self.outcomes, self.calls = list(outcomes), 0

    def __call__(self):
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def clock():
    return ManualClock()


def test_a_step_that_succeeds_is_run_once(clock):
    step = Step("done")
    assert retry.on_error(step, exception.ServiceUnavailable, Schedule((1.0,)), clock) == "done"
    assert (step.calls, clock.pauses) == (1, [])


def test_pauses_grow_and_the_last_one_is_used_again(clock):
    told = []
    step = Step(AWAY, AWAY, AWAY, AWAY, "done")
    assert retry.on_error(step, exception.ServiceUnavailable, Schedule((1.0, 2.0), endless=True), clock,
                          before_pause=lambda error, pause: told.append((error, pause))) == "done"
    assert clock.pauses == [1.0, 2.0, 2.0, 2.0]
    assert told == [(AWAY, pause) for pause in clock.pauses]


def test_the_last_error_is_raised_when_the_pauses_are_used_up(clock):
    step = Step(AWAY)
    with pytest.raises(exception.ServiceUnavailable) as raised:
        retry.on_error(step, exception.ServiceUnavailable, Schedule((1.0, 2.0)), clock)
    assert raised.value is AWAY
    assert (step.calls, clock.pauses) == (3, [1.0, 2.0])


def test_no_try_begins_after_the_timeout(clock):
    step = Step(AWAY)
    with pytest.raises(exception.ServiceUnavailable):
        retry.on_error(step, exception.ServiceUnavailable, retry.every(2.0, timeout=5.0), clock)
    assert (step.calls, clock.now) == (4, 6.0)


def test_a_backoff_grows_to_its_longest_pause_and_is_shortened_at_random(clock):
    for number, pauses in ((0.0, [1.0, 2.0, 4.0, 6.0, 6.0]), (0.5, [0.75, 1.5, 3.0, 4.5, 4.5]),
                           (1.0, [0.5, 1.0, 2.0, 3.0, 3.0])):
        clock.pauses.clear()
        step, backoff = Step(*[AWAY] * 5, "done"), retry.Backoff(1.0, 6.0, random=lambda number=number: number)
        assert retry.on_error(step, exception.ServiceUnavailable, backoff, clock) == "done"
        assert clock.pauses == pauses


def test_a_backoff_ends_after_its_tries_or_its_time(clock):
    for backoff, pauses in ((retry.Backoff(1.0, 2.0, tries=4, random=lambda: 0.0), [1.0, 2.0, 2.0]),
                            (retry.Backoff(1.0, 2.0, timeout=4.0, random=lambda: 0.0), [1.0, 2.0, 2.0])):
        clock.pauses.clear()
        with pytest.raises(exception.ServiceUnavailable):
            retry.on_error(Step(AWAY), exception.ServiceUnavailable, backoff, clock)
        assert clock.pauses == pauses


def test_a_backoff_without_end_stays_at_its_longest_pause():
    assert retry.Backoff(1.0, 5.0, random=lambda: 0.0).seconds(100_000) == 5.0


@pytest.mark.parametrize("error", [
    exception.LeaseLost(action_id=7, owner="h:1:a"), exception.ConductorAway(reason="x"), exception.Stopping(),
    exception.Conflict("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("errors", [exception.ServiceUnavailable, (OSError, exception.ServiceUnavailable),
                                    lambda error: isinstance(error, exception.ServiceUnavailable)])
def test_an_error_that_is_not_named_passes_at_once(clock, error, errors):
    step = Step(AWAY, error)
    with pytest.raises(type(error)) as raised:
        retry.on_error(step, errors, Schedule((1.0,), endless=True), clock)
    assert raised.value is error
    assert (step.calls, clock.pauses) == (2, [1.0])


@pytest.mark.parametrize("error", [exception.LeaseLost(action_id=7, owner="h:1:a"), exception.Stopping()])
def test_an_interruption_is_never_an_error_to_retry(clock, error):
    with pytest.raises(type(error)):
        retry.on_error(Step(error, "done"), lambda _error: True, Schedule((1.0,), endless=True), clock)
    with pytest.raises(type(error)):
        retry.poll(Step(error, "done"), lambda _found: False, Schedule((1.0,), endless=True), clock)
    assert clock.pauses == []


def test_what_the_pause_raises_ends_the_retries(clock):
    def stop(_seconds):
        raise exception.Stopping()
    step = Step(AWAY)
    with pytest.raises(exception.Stopping):
        retry.on_error(step, exception.ServiceUnavailable, retry.every(1.0), clock, sleep=stop)
    assert step.calls == 1


def test_a_poll_ends_with_what_is_looked_for(clock):
    looks = []
    assert retry.poll(Step("saving", "saving", "active"), lambda found: found == "active", Schedule((0.5, 1.0, 2.0)), clock,
                      before_pause=lambda: looks.append(clock.now)) == "active"
    assert (clock.pauses, looks) == ([0.5, 1.0], [0.0, 0.5])


def test_a_poll_that_is_over_returns_what_there_is(clock):
    assert retry.poll(Step("saving"), lambda found: found == "active", Schedule((0.5, 1.0)), clock) == "saving"
    assert clock.pauses == [0.5, 1.0]
    assert retry.poll(Step(None), bool, retry.every(1.0, timeout=3.0), clock) is None


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_other_threads_run_during_a_pause(mode):
    code = textwrap.dedent("""
        from nova_lite.runtime import concurrency
        concurrency.setup()
        import threading
        from nova_lite import retry
        ready = threading.Event()
        threading.Thread(target=ready.set).start()
        print(retry.poll(ready.is_set, bool, retry.every(0.05, timeout=30)))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={"NOVA_LITE_CONCURRENCY": mode, "PATH": "/usr/bin:/bin"})
    assert done.stdout.strip() == "True", done.stderr
