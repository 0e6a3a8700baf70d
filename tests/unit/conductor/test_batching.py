"""What many threads say at once goes in few messages, in order, and the fault of one step is nobody else's."""
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging as messaging
import pytest

from nova_lite.rpc.batching import Batcher


class Line:
    """Answers each step with its number doubled; holds every message until ``open`` is set."""

    def __init__(self):
        self.open = threading.Event()
        self.came = threading.Semaphore(0)
        self.messages = []

    def send(self, steps):
        self.messages.append([arguments["n"] for _, arguments in steps])
        self.came.release()
        assert self.open.wait(10)
        if any(arguments["n"] < 0 for _, arguments in steps):
            raise ValueError("a step that cannot be stored")
        return [2 * arguments["n"] for _, arguments in steps]


def step(n):
    return ("double", {"n": n})


def test_one_step_goes_at_once():
    line = Line()
    line.open.set()
    assert Batcher(line.send).ask([step(21)]) == [42]
    assert line.messages == [[21]]


def test_what_comes_while_a_message_is_under_way_goes_together():
    line = Line()
    batcher = Batcher(line.send, senders=1)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(batcher.ask, [step(1)])
        assert line.came.acquire(timeout=10)
        others = [pool.submit(batcher.ask, [step(n)]) for n in range(2, 9)]
        while len(batcher._waiting) < 7:
            time.sleep(0.001)
        line.open.set()
        assert first.result(10) == [2]
        assert [f.result(10) for f in others] == [[2 * n] for n in range(2, 9)]
    assert line.messages[0] == [1]
    assert sorted(line.messages[1]) == list(range(2, 9))
    assert len(line.messages) == 2


def test_many_steps_are_cut_into_messages_and_answered_in_order():
    line = Line()
    line.open.set()
    batcher = Batcher(line.send, limit=10)
    assert batcher.ask([step(n) for n in range(35)]) == [2 * n for n in range(35)]
    assert all(len(message) <= 10 for message in line.messages)


def test_a_message_that_fails_is_sent_step_by_step():
    line = Line()
    line.open.set()
    batcher = Batcher(line.send, senders=1)
    with ThreadPoolExecutor(2) as pool:
        line.open.clear()
        first = pool.submit(batcher.ask, [step(1)])
        assert line.came.acquire(timeout=10)
        good = pool.submit(batcher.ask, [step(5)])
        while not batcher._waiting:
            time.sleep(0.001)
        bad = threading.Thread(target=lambda: errors.append(pytest.raises(ValueError, batcher.ask, [step(-1)])))
        errors: list = []
        bad.start()
        while len(batcher._waiting) < 2:
            time.sleep(0.001)
        line.open.set()
        assert first.result(10) == [2]
        assert good.result(10) == [10]
        bad.join(10)
    assert len(errors) == 1
    assert [5, -1] in line.messages
    assert [5] in line.messages


def test_nobody_to_send_to_is_found_out_once_for_a_message():
    messages = []

    def send(steps):
        messages.append(len(steps))
        raise messaging.MessagingTimeout("nobody")
    with pytest.raises(messaging.MessagingTimeout):
        Batcher(send, senders=1).ask([step(n) for n in range(40)])
    assert messages == [40]
