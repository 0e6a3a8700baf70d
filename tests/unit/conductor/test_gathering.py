"""What many threads ask at once is answered once, and each gets its own answer or error."""
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite.conductor.gathering import Gatherer, one_by_one_after_error
from tests.support.clock import ManualClock

LONG = 600.0        # seconds: a batch of these tests is answered because it is full


class Doubler:
    """Answers each number with its double, negative ones with an error."""

    def __init__(self):
        self.batches = []

    def __call__(self, numbers):
        self.batches.append(sorted(numbers))
        return [2 * n if n >= 0 else ValueError(n) for n in numbers]


def ask_all(gatherer, numbers):
    """The answers and errors of as many threads, in the order of the numbers."""
    def ask(number):
        try:
            return gatherer.ask(number)
        except Exception as error:
            return error
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(ask, numbers))


def test_a_full_batch_is_answered_at_once_and_has_no_more_than_its_limit():
    doubler = Doubler()
    answers = ask_all(Gatherer(doubler, LONG, limit=lambda: 4), range(12))
    assert answers == [2 * n for n in range(12)]
    assert [len(batch) for batch in doubler.batches] == [4, 4, 4]


def test_one_that_comes_alone_waits_its_time():
    clock, doubler = ManualClock(), Doubler()
    gatherer = Gatherer(doubler, 0.1, lambda: 4, clock)
    assert [gatherer.ask(1), gatherer.ask(2)] == [2, 4]
    assert doubler.batches == [[1], [2]]
    assert clock.pauses == [0.1, 0.1]


def test_an_error_of_one_is_raised_for_that_one():
    found = ask_all(Gatherer(Doubler(), LONG, limit=lambda: 3), [1, -1, 3])
    assert (found[0], found[2]) == (2, 6)
    assert isinstance(found[1], ValueError)


def test_an_error_of_all_is_raised_for_each_and_the_next_batch_is_asked_again():
    errors = [OSError("away")]

    def answer(numbers):
        if errors:
            raise errors.pop()
        return numbers
    gatherer = Gatherer(answer, LONG, limit=lambda: 3)
    assert [str(error) for error in ask_all(gatherer, [1, 2, 3])] == ["away"] * 3
    assert ask_all(gatherer, [1, 2, 3]) == [1, 2, 3]


def test_nobody_waits_for_a_thread_that_was_ended():
    def answer(_numbers):
        raise SystemExit
    with ThreadPoolExecutor(2) as pool:
        gatherer = Gatherer(answer, LONG, limit=lambda: 2)
        raised = {type(one.exception(60)) for one in [pool.submit(gatherer.ask, n) for n in range(2)]}
    assert raised == {SystemExit, RuntimeError}


def test_a_wait_that_is_interrupted_leaves_no_batch_behind():
    class Interrupted(ManualClock):
        def wait(self, event, seconds):
            if not self.pauses:
                self.sleep(seconds)
                raise KeyboardInterrupt
            return True
    doubler = Doubler()
    gatherer = Gatherer(doubler, 0.1, lambda: 3, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        gatherer.ask(1)
    assert gatherer.ask(2) == 4
    assert doubler.batches == [[2]]


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_green_and_native_threads_are_gathered(mode):
    code = textwrap.dedent("""
        from nova_lite.runtime import concurrency
        concurrency.setup()
        import threading
        from nova_lite.conductor.gathering import Gatherer
        batches, answers = [], []
        def answer(numbers):
            batches.append(len(numbers))
            return [2 * n for n in numbers]
        full, alone = Gatherer(answer, 600.0, lambda: 40), Gatherer(answer, 0.05, lambda: 40)
        threads = [threading.Thread(target=lambda n=n: answers.append(full.ask(n))) for n in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        print(str(batches), sorted(answers) == [2 * n for n in range(80)], alone.ask(21))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={"NOVA_LITE_CONCURRENCY": mode, "PATH": "/usr/bin:/bin"})
    assert done.stdout.strip() == "[40, 40] True 42", done.stderr


def test_an_error_over_one_question_is_that_questions_alone():
    asked = []

    def halve(numbers):
        asked.append(sorted(numbers))
        if any(n % 2 for n in numbers):
            raise ValueError("odd")
        return [n // 2 for n in numbers]
    answers = ask_all(Gatherer(one_by_one_after_error(halve, lambda error: False), LONG, limit=lambda: 4), [2, 4, 7, 8])
    assert answers[:2] + answers[3:] == [1, 2, 4]
    assert isinstance(answers[2], ValueError)
    assert sorted(asked) == [[2], [2, 4, 7, 8], [4], [7], [8]]


def test_an_error_for_all_is_raised_for_all_at_once():
    asked = []

    def fail(numbers):
        asked.append(sorted(numbers))
        raise ConnectionError
    answers = ask_all(Gatherer(one_by_one_after_error(fail, lambda error: isinstance(error, ConnectionError)), LONG,
                               limit=lambda: 3), range(3))
    assert [type(answer) for answer in answers] == [ConnectionError] * 3
    assert asked == [[0, 1, 2]]
