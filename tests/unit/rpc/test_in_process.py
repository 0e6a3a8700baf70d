"""The bus of services in one process."""
from __future__ import annotations

import gc
import queue
import uuid

import oslo_messaging as messaging
import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception, rpc
from nova_lite.context import RequestContext, admin_context


class Manager:
    """Puts what it hears into a queue."""

    def __init__(self, heard):
        self.heard = heard

    def tell(self, context, what):
        self.heard.put(what)

    @rpc.expected
    def ask(self, context, what):
        if what is None:
            raise exception.FlavorExists(name="x")
        return (what, context.user_id)


class Client(rpc.Client):
    topic = rpc.COMPUTE


class AnyClient(rpc.Client):
    topic = rpc.CONDUCTOR


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes a transport; those with one name share a bus."""
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    own = uuid.uuid4()

    def transport(name="one"):
        file = tmp_path / name
        file.write_text(f"[DEFAULT]\ntransport_url = in-process:///{own}-{name}\n")
        return rpc.get_transport(nova_conf.load([], config_files=[str(file)]))
    return transport


@pytest.fixture
def serve():
    """Starts a server; what it hears goes into the queue."""
    servers = []

    def start(transport, name, topic=rpc.COMPUTE):
        heard = queue.Queue()
        server = rpc.get_server(transport, topic, name, [Manager(heard)])
        server.start()
        servers.append(server)
        return server, heard
    yield start
    for server in servers:
        server.stop()
        server.wait()


def test_a_message_reaches_the_server_that_is_named_over_another_transport(make, serve):
    here, there = make(), make()
    _, first = serve(here, "h1")
    _, second = serve(here, "h2")
    Client(there).cast(admin_context(), "tell", server="h2", what="x")
    assert second.get(timeout=60) == "x"
    assert first.empty()


def test_those_of_a_topic_take_turns(make, serve):
    transport = make()
    heard = [serve(transport, name, rpc.CONDUCTOR)[1] for name in ("h1", "h2")]
    for _ in range(4):
        AnyClient(transport).cast(admin_context(), "tell", what="x")
    for one in heard:
        assert [one.get(timeout=60), one.get(timeout=60)] == ["x", "x"]


def test_a_message_waits_for_its_server_and_for_the_next_one_after_a_stop(make, serve):
    transport = make()
    client = Client(transport)
    client.cast(admin_context(), "tell", server="h1", what="early")
    server, heard = serve(transport, "h1")
    assert heard.get(timeout=60) == "early"
    server.stop()
    server.wait()
    client.cast(admin_context(), "tell", server="h1", what="late")
    assert heard.empty()
    assert serve(transport, "h1")[1].get(timeout=60) == "late"


def test_what_crosses_is_json(make, serve):
    transport = make()
    _, heard = serve(transport, "h1")
    sent = {"list": [1]}
    Client(transport).cast(admin_context(), "tell", server="h1", what=sent)
    got = heard.get(timeout=60)
    assert got == sent
    assert got["list"] is not sent["list"]
    context = RequestContext(user_id="joe", overwrite=False)
    assert Client(transport).call(context, "ask", server="h1", what=("a", 1)) == [["a", 1], "joe"]
    with pytest.raises(TypeError):
        Client(transport).cast(admin_context(), "tell", server="h1", what={(1, 2): "no key of JSON"})


def test_errors_cross_with_their_type_and_fields(make, serve):
    transport = make()
    serve(transport, "h1")
    with pytest.raises(exception.FlavorExists) as caught:
        Client(transport).call(admin_context(), "ask", server="h1", what=None)
    assert caught.value.kwargs == {"name": "x"}


def test_a_server_that_is_not_there_is_silent(make):
    with pytest.raises(messaging.MessagingTimeout):
        Client(make()).call(admin_context(), "ask", server="h1", timeout=0.05, what="x")


def test_other_urls_are_other_buses(make, serve):
    _, heard = serve(make("one"), "h1")
    Client(make("two")).cast(admin_context(), "tell", server="h1", what="x")
    Client(make("one")).cast(admin_context(), "tell", server="h1", what="y")
    assert heard.get(timeout=60) == "y"


def test_what_nobody_took_is_gone_with_the_last_transport(make, serve):
    transport = make()
    Client(transport).cast(admin_context(), "tell", server="h1", what="x")
    del transport
    gc.collect()
    again = make()
    _, heard = serve(again, "h1")
    Client(again).cast(admin_context(), "tell", server="h1", what="y")
    assert heard.get(timeout=60) == "y"


def test_a_fanout_is_refused(make):
    client = messaging.get_rpc_client(make(), messaging.Target(topic=rpc.COMPUTE, fanout=True, version=rpc.VERSION))
    with pytest.raises(NotImplementedError, match="fanout"):
        client.cast({}, "tell", what="x")
