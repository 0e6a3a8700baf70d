"""Wake-ups are sent in order by a thread of their own, and neither a broken nor a silent broker holds up the caller."""
from __future__ import annotations

import logging
import threading
import time

from nova_lite.rpc import wakeups


def test_messages_go_out_in_order_although_one_fails(caplog):
    sender, sent, done = wakeups.Wakeups(), [], threading.Event()

    def broken() -> None:
        raise ConnectionError("no broker")

    with caplog.at_level(logging.WARNING):
        sender.send(sent.append, 1)
        sender.send(broken)
        sender.send(sent.append, 2)
        sender.send(done.set)
        assert done.wait(60)
    assert sent == [1, 2]
    assert "could not send broken, the sweeper will do it: no broker" in caplog.text


def test_a_caller_never_waits_and_what_is_too_much_is_dropped(caplog, monkeypatch):
    monkeypatch.setattr(wakeups, "CAPACITY", 3)
    sender, release, sent = wakeups.Wakeups(), threading.Event(), []
    done = threading.Event()
    started = threading.Event()

    def stuck() -> None:
        started.set()
        assert release.wait(60)

    sender.send(stuck)
    assert started.wait(60)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            sender.send(sent.append, number)
    assert caplog.text.count("dropping one, the sweeper will do it") == 2
    release.set()
    for _ in range(50):
        if sent == [0, 1, 2]:
            break
        time.sleep(0.1)
    assert sent == [0, 1, 2]
    sender.send(done.set)
    assert done.wait(60)
