"""How a receiver waits for messages, and for the tasks of other threads."""
from __future__ import annotations

import threading

from oslo_messaging._drivers import common

from nova_lite.rpc import rabbit_receiver
from nova_lite.rpc.rabbit_receiver import Receiver


class Connection:
    """Gives what ``messages`` says, wait for wait: True is a message, False none. Then it is silent."""

    def __init__(self, messages: list[bool]) -> None:
        self._messages, self.waits = messages, list[float]()
        self.all_given, self._closed = threading.Event(), threading.Event()

    def consume(self, timeout: float) -> None:
        self.waits.append(timeout)
        if len(self.waits) <= len(self._messages):
            if self._messages[len(self.waits) - 1]:
                return
        else:
            self.all_given.set()
            self._closed.wait(0.001)
        raise common.Timeout

    def close(self) -> None:
        self._closed.set()


def test_a_message_makes_the_next_wait_no_shorter() -> None:
    connection = Connection([False] * 12 + [True, False])
    receiver = Receiver(connection)
    share = receiver.share()
    assert share is not None
    assert connection.all_given.wait(10)
    share.close()
    assert connection.waits[0] == rabbit_receiver.SHORTEST_WAIT
    assert connection.waits[12:14] == [rabbit_receiver.LONGEST_WAIT] * 2


def test_tasks_are_looked_for_often_after_a_task() -> None:
    connection = Connection([False] * 12)
    receiver = Receiver(connection)
    share = receiver.share()
    assert share is not None
    assert connection.all_given.wait(10)
    receiver.declare(lambda _connection: None)
    connection.all_given.clear()
    assert connection.all_given.wait(10)
    assert rabbit_receiver.SHORTEST_WAIT in connection.waits[12:]
    share.close()
