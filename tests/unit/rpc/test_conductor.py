"""How compute hosts find a conductor, and how long they hold on to one that is gone."""
import threading
import time
import uuid

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


def test_who_stops_asks_nobody_twice(transport, monkeypatch):
    monkeypatch.setattr(rpcapi, "TIMEOUT", 0.3)
    api = rpcapi.ConductorAPI(transport)
    asked = threading.Thread(target=lambda: pytest.raises(exception.ConductorAway, api.get_instance, admin_context(), "x"))
    asked.start()
    time.sleep(0.7)
    assert asked.is_alive()         # it asks again and again
    api.disable_retries()
    asked.join(60)
    assert not asked.is_alive()
    with pytest.raises(exception.ConductorAway):     # and what many have to tell fails for all of them at once
        api.claim_actions(list(range(100)), "h", "o")
