"""How compute hosts find a conductor, and how long they hold on to one that is gone."""
import dataclasses
import itertools
import threading
import time
import uuid

import oslo_messaging as messaging
import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception, rpc
from nova_lite.context import admin_context
from nova_lite.rpc import conductor as rpcapi
from tests.support.clock import ManualClock


class Conductor:
    """Answers pings only."""

    def ping(self, context):
        pass


@pytest.fixture
def transport(tmp_path, monkeypatch):
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    file = tmp_path / "conf"
    file.write_text(f"[DEFAULT]\ntransport_url = in-process:///{uuid.uuid4()}\n")
    made = rpc.get_transport(nova_conf.load([], config_files=[str(file)]))
    yield made
    made.cleanup()


def test_it_waits_until_a_conductor_comes(transport):
    found, stopping = [], threading.Event()
    thread = threading.Thread(target=lambda: found.append(rpcapi.ConductorAPI(transport).wait_until_there(stopping)))
    thread.start()
    time.sleep(1.5)
    assert not found
    server = rpc.get_server(transport, rpc.CONDUCTOR, "late", [Conductor()])
    server.start()
    thread.join(60)
    assert found == [True]
    server.stop()
    server.wait()


class Waiter(rpcapi.ConductorAPI):
    """Notes when it asks, by a clock of its own. No conductor answers before ``there`` seconds; a ping takes ``lasts`` of the
    time that it has for its answer."""

    def __init__(self, transport, there, lasts):
        self.now = ManualClock()
        super().__init__(transport, clock=self.now)
        self.there, self.lasts, self.asked, self.limits = there, lasts, [], []

    def ping(self, timeout):
        self.asked.append(self.now.now)
        self.limits.append(timeout)
        if self.now.now < self.there:
            self.now.now += self.lasts * timeout
            raise messaging.MessagingTimeout("no answer")


@pytest.mark.parametrize("lasts", [0.0, 1.0])
@pytest.mark.parametrize(("number", "longest"), [(0.0, 5.0), (0.999, 2.51)])
def test_a_new_daemon_notices_a_conductor_soon(transport, monkeypatch, lasts, number, longest):
    monkeypatch.setattr(rpcapi, "STARTING", dataclasses.replace(rpcapi.STARTING, random=lambda: number))
    waiter = Waiter(transport, 50, lasts)
    assert waiter.wait_until_there(threading.Event())
    pauses = [round(after - before, 6) for before, after in itertools.pairwise(waiter.asked)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1
    assert max(pauses) <= longest
    assert 50 <= waiter.now.now <= 50 + longest


def test_daemons_that_wait_for_long_ask_seldom_and_not_together(transport):
    asked = []
    for _ in range(20):
        waiter = Waiter(transport, 3600, 1.0)
        assert waiter.wait_until_there(threading.Event())
        assert waiter.now.now < 3620
        asked.append([moment for moment in waiter.asked if moment > 120])
        assert max(waiter.limits) == rpcapi.TIMEOUT
    assert max(len(one) for one in asked) < 3500 / 10
    assert len({one[0] for one in asked}) == 20


def test_a_stop_ends_the_wait(transport):
    stopping = threading.Event()
    timer = threading.Timer(0.3, stopping.set)
    timer.start()
    assert not rpcapi.ConductorAPI(transport).wait_until_there(stopping)


class Silent:
    """Lets each question run into its time-out: the third one when ``go_on`` is set, others at once."""

    def __init__(self):
        self.questions, self.third, self.go_on = [], threading.Event(), threading.Event()

    def get_instance(self, context, instance_uuid):
        self._hear("get_instance")

    def steps(self, context, calls):
        self._hear("steps")

    def _hear(self, question):
        self.questions.append(question)
        if len(self.questions) == 3:
            self.third.set()
            assert self.go_on.wait(60)
        raise messaging.MessagingTimeout("no answer")


def test_who_stops_asks_nobody_twice(transport):
    silent = Silent()
    server = rpc.get_server(transport, rpc.CONDUCTOR, "silent", [silent])
    server.start()
    api = rpcapi.ConductorAPI(transport)
    asked = threading.Thread(target=lambda: pytest.raises(exception.ConductorAway, api.get_instance, admin_context(), "x"))
    asked.start()
    assert silent.third.wait(60)    # it asks again and again
    api.disable_retries()
    silent.go_on.set()
    asked.join(60)
    assert not asked.is_alive()
    assert silent.questions == ["get_instance"] * 3
    with pytest.raises(exception.ConductorAway):     # a hundred calls are two messages, which fail for all calls
        api.claim_actions(list(range(100)), "h", "o")
    server.stop()
    server.wait()
    assert 1 <= silent.questions[3:].count("steps") == len(silent.questions) - 3 <= 2
