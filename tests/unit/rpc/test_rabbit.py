"""The driver for RabbitMQ on kombu's broker in memory. These fail when oslo.messaging changes what our driver needs of it."""
from __future__ import annotations

import itertools
import queue
import threading
import time

import amqp
import kombu
import oslo_messaging as messaging
import pytest
from kombu.transport import memory
from oslo_config import cfg
from oslo_messaging._drivers import common

from nova_lite import conf as nova_conf
from nova_lite import exception, rpc
from nova_lite.context import admin_context
from nova_lite.rpc import rabbit
from nova_lite.rpc.rabbit_queues import Place

NUMBERS = itertools.count()


class Manager:
    """Puts what it hears into a queue."""

    def __init__(self):
        self.heard = queue.Queue()

    def tell(self, context, what):
        self.heard.put(what)

    @rpc.expected
    def ask(self, context, what):
        if what is None:
            raise exception.FlavorExists(name="x")
        return f"{what} to you"


class Busy(Manager):
    """Works on the first message until the test lets it go on."""

    def __init__(self):
        super().__init__()
        self.works, self.go_on = threading.Event(), threading.Event()

    def tell(self, context, what):
        self.works.set()
        assert self.go_on.wait(60)
        super().tell(context, what)


class HostClient(rpc.Client):
    topic = rpc.COMPUTE


class AnyClient(rpc.Client):
    topic = rpc.CONDUCTOR


class Bus:
    """Transports, and servers on them, of one cloud."""

    def __init__(self, tmp_path):
        self.exchange, self._path, self._transports, self.servers = f"cloud{next(NUMBERS)}", tmp_path, [], []

    def conf(self, **options):
        return nova_conf.load([], config_files=[], rpc__exchange=self.exchange, **{"host": "me", **options})

    def transport(self, **options):
        conf = self.conf(**options)
        rabbit.use_few_connections(conf, 1)
        conf.set_override("processname", "nova-lite-some", rabbit.GROUP)
        url = messaging.TransportURL.parse(conf, "kombu+memory://")
        made = messaging.transport.RPCTransport(rabbit.Driver(conf, url, self.exchange, exception.MODULES))
        rpc._register_hidden_options(conf)
        self._transports.append(made)
        return made

    def serve(self, transport, topic, name, manager=None, threads=8):
        made = manager or Manager()
        server = rpc.get_server(transport, topic, name, [made])
        transport.conf.set_override("executor_thread_pool_size", threads)
        server.start()
        self.servers.append(server)
        return made.heard if manager is None else manager

    def queues(self):
        return {name for name in memory.Channel.queues if name.startswith(f"{self.exchange}.")}

    def close(self):
        for server in self.servers:
            server.stop()
            server.wait()
        self.servers.clear()
        for transport in self._transports:
            transport.cleanup()


@pytest.fixture
def bus(tmp_path, monkeypatch):
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    made = Bus(tmp_path)
    yield made
    made.close()


def test_a_server_has_one_queue_and_a_process_one_for_answers(bus):
    here, there = bus.transport(), bus.transport(host="h1")
    bus.serve(there, rpc.COMPUTE, "h1")
    bus.serve(here, rpc.CONDUCTOR, "c1")
    assert HostClient(here).call(admin_context(), "ask", server="h1", what="good day") == "good day to you"
    assert AnyClient(there).call(admin_context(), "ask", what="hello") == "hello to you"
    assert bus.queues() == {f"{bus.exchange}.{name}" for name in (
        "compute.h1", "conductor", "reply.h1.nova-lite-some.1", "reply.me.nova-lite-some.1")}


def test_errors_cross_with_their_type(bus):
    transport = bus.transport()
    bus.serve(transport, rpc.COMPUTE, "h1")
    with pytest.raises(exception.FlavorExists):
        HostClient(transport).call(admin_context(), "ask", server="h1", what=None)


@pytest.mark.parametrize(("client_class", "server", "connections"), [
    (HostClient, "h1", ["listen", "send"]), (AnyClient, None, ["listen", "listen", "send"])])
def test_few_connections_of_a_process_receive_and_one_of_a_host_sends(bus, monkeypatch, client_class, server, connections):
    made = []
    plain = rabbit.impl_rabbit.Connection.__init__

    def count(self, conf, url, purpose, **options):
        made.append(purpose)
        plain(self, conf, url, purpose, **options)
    monkeypatch.setattr(rabbit.impl_rabbit.Connection, "__init__", count)
    transport = bus.transport()
    bus.serve(transport, client_class.topic, "h1")
    call = client_class(transport).call
    threads = [threading.Thread(target=call, args=(admin_context(), "ask", server), kwargs={"what": n}) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(made) == connections


def test_retries_are_prepared_only_for_a_message_whose_first_attempt_failed(bus, monkeypatch):
    transport = bus.transport()
    heard, client = bus.serve(transport, rpc.COMPUTE, "h1"), HostClient(transport)
    client.cast(admin_context(), "tell", server="h1", what="first")     # opens the connection
    prepared, attempts = [], []
    retry, publish = rabbit.impl_rabbit.Connection.ensure, kombu.Producer.publish

    def prepare(self, *arguments, **named):
        if self.purpose == common.PURPOSE_SEND:
            prepared.append(self)
        return retry(self, *arguments, **named)

    def fail_once(self, *arguments, **named):
        attempts.append(self)
        if len(attempts) == 2:
            raise amqp.ConnectionForced("the test breaks it")
        return publish(self, *arguments, **named)
    monkeypatch.setattr(rabbit.impl_rabbit.Connection, "ensure", prepare)
    monkeypatch.setattr(kombu.Producer, "publish", fail_once)
    client.cast(admin_context(), "tell", server="h1", what="second")
    assert (len(attempts), len(prepared)) == (1, 0)
    client.cast(admin_context(), "tell", server="h1", what="third")
    assert (len(attempts), len(prepared)) == (3, 1)
    assert [heard.get(timeout=60) for _ in range(3)] == ["first", "second", "third"]
    assert heard.empty()


def test_an_error_that_no_retry_mends_is_raised_after_one_attempt(bus, monkeypatch):
    transport = bus.transport()
    client, attempts = HostClient(transport), []
    client.cast(admin_context(), "tell", server="h1", what="first")

    def fail(self, *arguments, **named):
        attempts.append(self)
        raise messaging.MessageUndeliverable(None, "cloud", "compute.h1", "second")
    monkeypatch.setattr(kombu.Producer, "publish", fail)
    with pytest.raises(messaging.MessageUndeliverable):
        client.cast(admin_context(), "tell", server="h1", what="second")
    assert len(attempts) == 1


def test_the_time_out_of_a_socket_is_set_when_it_changes(bus, monkeypatch):
    transport = bus.transport()
    bus.serve(transport, rpc.COMPUTE, "h1")
    client, told = HostClient(transport), []
    client.cast(admin_context(), "tell", server="h1", what="first")
    monkeypatch.setattr(rabbit.impl_rabbit.Connection, "set_transport_socket_timeout",
                        lambda self, timeout=None: told.append(timeout))
    client.cast(admin_context(), "tell", server="h1", what="second")
    assert told == []
    client.call(admin_context(), "ask", server="h1", timeout=20, what="hello")
    assert [timeout for timeout in told if timeout is not None] == [20]
    assert told[-1] is None


def test_what_a_busy_server_has_no_thread_for_is_left_to_others(bus):
    busy, other = bus.transport(), bus.transport()
    first, client = bus.serve(busy, rpc.CONDUCTOR, "c1", Busy(), threads=1), AnyClient(other)
    client.cast(admin_context(), "tell", what="first")
    assert first.works.wait(60)
    for number in range(20):
        client.cast(admin_context(), "tell", what=number)
    time.sleep(0.5)     # the busy one takes what it takes
    second = bus.serve(other, rpc.CONDUCTOR, "c2", threads=1)
    taken = [second.get(timeout=60) for _ in range(16)]
    first.go_on.set()
    assert taken == sorted(taken)
    bus.close()
    assert first.heard.qsize() + second.qsize() + len(taken) == 21


def test_a_server_that_has_stopped_takes_nothing_and_calls_are_still_answered(bus):
    here, there = bus.transport(), bus.transport()
    bus.serve(there, rpc.CONDUCTOR, "c1")
    first = bus.serve(here, rpc.COMPUTE, "h1")
    server = bus.servers.pop()
    server.stop()
    HostClient(there).cast(admin_context(), "tell", server="h1", what="late")
    assert AnyClient(here).call(admin_context(), "ask", what="hello") == "hello to you"
    server.wait()
    assert first.empty()
    assert bus.serve(there, rpc.COMPUTE, "h1").get(timeout=60) == "late"
    assert AnyClient(here).call(admin_context(), "ask", what="again") == "again to you"


def test_a_transport_without_a_user_may_be_used_again(bus):
    transport = bus.transport()
    for name in ("h1", "h2"):
        heard = bus.serve(transport, rpc.COMPUTE, name)
        HostClient(transport).cast(admin_context(), "tell", server=name, what="x")
        assert heard.get(timeout=60) == "x"
        server = bus.servers.pop()
        server.stop()
        server.wait()       # the connection goes with its last user


def test_answers_have_a_queue_of_their_own_for_each_process(bus):
    bus.serve(bus.transport(), rpc.CONDUCTOR, "c1")
    transports = [bus.transport() for _ in range(3)]
    for transport in transports:
        AnyClient(transport).call(admin_context(), "ask", what="x")
    replies = {f"{bus.exchange}.reply.me.nova-lite-some.{number}" for number in (1, 2, 3)}
    assert bus.queues() == replies | {f"{bus.exchange}.conductor"}
    transports[0].cleanup()                             # its place is the next one's
    AnyClient(bus.transport()).call(admin_context(), "ask", what="x")
    assert bus.queues() == replies | {f"{bus.exchange}.conductor"}


def test_a_number_that_is_used_elsewhere_is_left_out():
    places = [Place(f"{NUMBERS}", lambda number: number == 2) for _ in range(3)]
    assert [place.number for place in places] == [1, 3, 4]
    places[1].release()
    assert Place(f"{NUMBERS}", lambda number: number == 2).number == 3


def test_the_operators_own_settings_win(tmp_path):
    file = tmp_path / "conf"
    file.write_text("[oslo_messaging_rabbit]\nrabbit_quorum_queue = false\nconn_pool_min_size = 3\n"
                    "kombu_reconnect_delay = 2.5\nuse_queue_manager = true\nhostname = here\nprocessname = some\n")
    conf = nova_conf.load([], config_files=[str(file)], state_path=str(tmp_path))
    rabbit.use_few_connections(conf, 1)
    rabbit.register(conf)
    assert (conf[rabbit.GROUP].rabbit_quorum_queue, conf[rabbit.GROUP].kombu_reconnect_delay) == (False, 2.5)
    assert (conf[rabbit.GROUP].conn_pool_min_size, conf[rabbit.GROUP].rpc_conn_pool_size) == (3, 3)
    driver = rabbit.Driver(conf, messaging.TransportURL.parse(conf, "kombu+memory://"), "cloud", [])
    assert driver._get_reply_queue_name().startswith("cloud.reply_here:some:")


@pytest.mark.parametrize("name", ["", "two words", "a.b", "*"])
def test_an_exchange_is_one_word(tmp_path, name):
    file = tmp_path / "conf"
    file.write_text(f"[rpc]\nexchange = {name}\n")
    with pytest.raises(cfg.ConfigFileValueError):
        _ = nova_conf.load([], config_files=[str(file)]).rpc.exchange
