"""A server that gets more calls than it can answer, on a real RabbitMQ."""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.context import admin_context
from tests.support.engines import RabbitMQ

CALLERS, THREADS, WORK, WAIT = 200, 4, 0.1, 2.0        # 40 calls a second can be answered
BEGIN, LONG = 6.0, 10.0     # seconds until all wait, and seconds that count


class Slow:
    """Counts the calls on which it works."""

    def __init__(self) -> None:
        self.lock, self.done = threading.Lock(), 0

    def work(self, context: Any) -> None:
        time.sleep(WORK)
        with self.lock:
            self.done += 1


class Client(rpc.Client):
    topic = rpc.CONDUCTOR


@pytest.fixture
def transport(tmp_path: Any, monkeypatch: Any) -> Iterator[messaging.RPCTransport]:
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    broker = RabbitMQ(tmp_path / "rabbitmq")
    file = tmp_path / "conf"
    file.write_text(f"[DEFAULT]\ntransport_url = {broker.url}\nexecutor_thread_pool_size = {THREADS}\n"
                    f"state_path = {tmp_path}\n")
    with contextlib.closing(broker):
        broker.start()
        made = rpc.get_transport(nova_conf.load([], config_files=[str(file)]))
        yield made
        made.cleanup()


def test_an_overloaded_server_works_on_calls_that_are_still_waited_for(transport: messaging.RPCTransport) -> None:
    slow, stop = Slow(), threading.Event()
    server = rpc.get_server(transport, rpc.CONDUCTOR, "c1", [slow])
    server.start()
    client, answered = Client(transport), [0] * CALLERS

    def call(number: int) -> None:
        while not stop.is_set():
            try:
                client.call(admin_context(), "work", timeout=WAIT)
                answered[number] += 1
            except messaging.MessagingTimeout:
                pass

    callers = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        time.sleep(BEGIN)
        before, done_before = sum(answered), slow.done
        time.sleep(LONG)
        useful, done = sum(answered) - before, slow.done - done_before
    finally:
        stop.set()
        for caller in callers:
            caller.join(60)
        server.stop()
        server.wait()
    assert done > 0
    assert useful >= 0.7 * done, f"{useful} callers got an answer, of {done} calls that were worked on"
