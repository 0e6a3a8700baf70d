"""How compute hosts find a conductor, and how long they hold on to one that is gone."""
import threading
import time
import uuid

import oslo_messaging as messaging
import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception, rpc
from nova_lite.context import admin_context
from nova_lite.rpc import conductor as rpcapi


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
