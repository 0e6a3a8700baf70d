"""Calls that nobody waits for any more are not done."""
from __future__ import annotations

import threading
import uuid

import oslo_messaging as messaging
import pytest

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.context import admin_context


class Busy:
    """Has one thread, which works until the test lets it go on."""

    def __init__(self):
        self.heard, self.works, self.go_on = [], threading.Event(), threading.Event()

    def work(self, context):
        self.works.set()
        assert self.go_on.wait(60)

    def note(self, context, what):
        self.heard.append(what)


class Client(rpc.Client):
    topic = "busy"


@pytest.fixture
def transport(tmp_path, monkeypatch):
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    file = tmp_path / "conf"
    file.write_text(f"[DEFAULT]\ntransport_url = in-process:///{uuid.uuid4()}\nexecutor_thread_pool_size = 1\n"
                    "rpc_response_timeout = 50\n")
    made = rpc.get_transport(nova_conf.load([], config_files=[str(file)]))
    yield made
    made.cleanup()


@pytest.fixture
def busy(transport):
    made = Busy()
    server = rpc.get_server(transport, "busy", "here", [made])
    server.start()
    yield made
    made.go_on.set()
    server.stop()
    server.wait()


def test_a_call_that_waited_too_long_for_a_thread_is_dropped(transport, busy, caplog):
    client, answers = Client(transport), []
    client.cast(admin_context(), "work")
    assert busy.works.wait(60)
    with pytest.raises(messaging.MessagingTimeout):
        client.call(admin_context(), "note", timeout=0.05, what="late")
    client.cast(admin_context(), "note", what="cast")
    in_time = threading.Thread(target=lambda: answers.append(client.call(admin_context(), "note", what="in time")))
    in_time.start()
    busy.go_on.set()
    in_time.join(60)
    assert answers == [None]
    assert busy.heard == ["cast", "in time"]
    assert "dropped a call of note" in caplog.text


@pytest.mark.parametrize("waits", ["soon", None, True])
def test_what_a_caller_says_of_its_wait_breaks_nothing(transport, busy, monkeypatch, waits):
    """The message may be of another version."""
    busy.go_on.set()
    client = Client(transport)
    monkeypatch.setattr(rpc.Client, "_signed", lambda self, context, *_: {**context.to_rpc(), rpc.WAITS: waits})
    client.cast(admin_context(), "note", what="x")
    assert client.call(admin_context(), "note", what="y") is None
    assert busy.heard == ["x", "y"]
