"""Operations on one server come one after the other, those on different servers do not wait for each other."""
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite.compute.server_queues import ServerQueues


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as made:
        yield made


def test_turns_of_one_server_come_in_order_and_know_that_they_waited(pool):
    queues, seen, gate, done = ServerQueues(), [], threading.Event(), threading.Event()

    def first(waited):
        assert gate.wait(10)
        seen.append(("first", waited))
    queues.submit("a", pool, first)
    queues.submit("a", pool, lambda waited: seen.append(("second", waited)))
    queues.submit("a", pool, lambda waited: (seen.append(("third", waited)), done.set()))
    assert queues.is_busy("a")
    assert seen == []
    gate.set()
    assert done.wait(10)
    assert seen == [("first", False), ("second", True), ("third", True)]


def test_a_turn_that_fails_holds_up_nobody(pool):
    queues, done = ServerQueues(), threading.Event()

    def broken(_waited):
        raise ValueError("a mistake")
    queues.submit("a", pool, broken)
    queues.submit("a", pool, lambda _waited: done.set())
    assert done.wait(60)


def test_what_waits_holds_no_thread(pool):
    queues, gate, done = ServerQueues(), threading.Event(), threading.Event()
    queues.submit("a", pool, lambda _waited: gate.wait(10))
    for _ in range(20):
        queues.submit("a", pool, lambda _waited: None)
    queues.submit("b", pool, lambda _waited: done.set())
    assert done.wait(60)
    gate.set()


def test_a_turn_runs_in_the_pool_that_it_was_given(pool):
    queues, names, done = ServerQueues(), [], threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="builds") as builds:
        queues.submit("a", builds, lambda _waited: names.append(threading.current_thread().name))
        queues.submit("a", pool, lambda _waited: (names.append(threading.current_thread().name), done.set()))
        assert done.wait(10)
    assert names[0].startswith("builds")
    assert not names[1].startswith("builds")


def test_a_server_is_free_after_its_last_turn(pool):
    queues = ServerQueues()
    queues.submit("a", pool, lambda _waited: None)
    pool.shutdown(wait=True)
    assert not queues.is_busy("a")
    queues.submit("a", pool, lambda _waited: None)      # a pool that is shut down takes nothing, and nothing stays behind
    assert not queues.is_busy("a")
