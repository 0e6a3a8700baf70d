"""What services have on a real RabbitMQ: few queues and connections, none of them another cloud's, and nothing left behind."""
from __future__ import annotations

import contextlib
import queue
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import kombu
import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.context import admin_context
from tests.support.cloud import Services
from tests.support.engines import RabbitMQ
from tests.support.process import wait_for

TTL = 8         # seconds after which queues go that nobody uses


class Broker(RabbitMQ):
    """With what rabbitmqctl says."""

    def new_vhost(self, name: str) -> str:
        """The transport_url of a virtual host of its own."""
        self.control("add_vhost", name)
        self.control("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        return f"{self.url}{name}"

    def queues(self, vhost: str) -> dict[str, tuple[str, int]]:
        """Queue -> its type, and how many receive from it."""
        lines = self.control("--no-table-headers", "list_queues", "-p", vhost, "name", "type", "consumers").splitlines()
        return {name: (kind, int(consumers)) for name, kind, consumers in (line.split("\t") for line in lines)}

    def connections(self, vhost: str) -> Counter[str]:
        """Program -> its connections."""
        lines = self.control("--no-table-headers", "list_connections", "vhost", "client_properties").splitlines()
        return Counter(line.partition('"connection_name","')[2].partition(":")[0] for line in lines
                       if line.split("\t")[0] == vhost)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: Any) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        made.start()
        made.control("await_startup")
        yield made
    finally:
        made.close()


def _services(directory: Any, url: str, mode: str = "eventlet", **options: object) -> Services:
    return Services(directory, url, f"sqlite:///{directory}/nova.sqlite", {"NOVA_LITE_CONCURRENCY": mode},
                    compute__report_interval=1, compute__service_down_time=30, **options)


def _start(services: Services) -> None:
    services.start()
    services.add_image()


def _end(services: Services) -> None:
    for process in services.processes.values():
        process.send(signal.SIGKILL)


def _boot(services: Services, count: int = 1) -> None:
    client = services.client()
    flavor = client.flavor()
    made = [client.boot(flavor=flavor, networks="none")["id"] for _ in range(count)]
    for server in made:
        client.wait(server, "ACTIVE", 120)


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_restarts_leave_nothing_behind(broker: Broker, tmp_path: Any, mode: str) -> None:
    url = broker.new_vhost(mode)
    services = _services(tmp_path, url, mode, conductor__workers=2)
    wanted = {"nova_lite.conductor": ("quorum", 2), "nova_lite.scheduler": ("quorum", 1),
              "nova_lite.compute.node": ("classic", 1), "nova_lite.reply.node.nova-lite-compute.1": ("classic", 1),
              **{f"nova_lite.reply.node.nova-lite-{name}": ("classic", 1) for name in ("conductor.1", "conductor.2")}}
    # those call only now and then
    optional = {f"nova_lite.reply.node.nova-lite-{name}.1" for name in ("scheduler", "api", "api-metadata")}

    def look() -> None:
        seen: dict[str, tuple[str, int]] = {}

        def as_wanted() -> bool:
            seen.clear()
            seen.update((name, what) for name, what in broker.queues(mode).items() if name not in optional)
            return seen == wanted
        with contextlib.suppress(AssertionError):
            wait_for("the queues", as_wanted, 30, 0.5)
        assert seen == wanted
        assert broker.connections(mode)["nova-lite-compute"] == 2

    try:
        _start(services)
        _boot(services, 10)
        look()
        for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            for name in services.processes:
                services.restart(name, sig)
            services.wait_ready()
            _boot(services)
            look()
        services.stop()
        assert set(broker.connections(mode)) == set()
    finally:
        _end(services)


def test_queues_of_a_host_that_is_gone_expire(broker: Broker, tmp_path: Any) -> None:
    services = _services(tmp_path, broker.new_vhost("gone"), oslo_messaging_rabbit__rabbit_transient_queues_ttl=TTL)
    mine = {"nova_lite.compute.node", "nova_lite.reply.node.nova-lite-compute.1"}
    try:
        _start(services)
        assert mine <= set(broker.queues("gone"))
        services.processes["compute"].kill()
        wait_for("its queues to go", lambda: not mine & set(broker.queues("gone")), 10 * TTL, 1)
        assert {"nova_lite.conductor", "nova_lite.scheduler"} <= set(broker.queues("gone"))
        services.processes["compute"].start()
        services.wait_ready()
        _boot(services)
    finally:
        _end(services)


def test_classic_or_quorum_queues_as_the_operator_says(broker: Broker, tmp_path: Any) -> None:
    services = _services(tmp_path, broker.new_vhost("kinds"), oslo_messaging_rabbit__rabbit_transient_quorum_queue=True)
    try:
        services.start()
        assert {kind for kind, _ in broker.queues("kinds").values()} == {"quorum"}
    finally:
        _end(services)


class Foreign:
    """Services as Nova has them, on oslo.messaging's own driver: names as old as Nova."""

    def __init__(self, url: str, exchange: str, quorum: bool = False) -> None:
        self.heard: queue.Queue[str] = queue.Queue()
        self._conf = cfg.ConfigOpts()
        self._conf([], project="foreign")
        rpc._register_hidden_options(self._conf)
        self.transport = messaging.get_rpc_transport(self._conf, url)
        for name in ("rabbit_quorum_queue", "rabbit_transient_quorum_queue", "amqp_durable_queues"):
            self._conf.set_override(name, quorum, group="oslo_messaging_rabbit")
        self._exchange = exchange
        self._servers: list[Any] = []

    def serve(self, topic: str, server: str) -> Foreign:
        target = messaging.Target(exchange=self._exchange, topic=topic, server=server)
        made = messaging.get_rpc_server(self.transport, target, [self], executor="threading")
        made.start()
        self._servers.append(made)
        return self

    def tell(self, context: dict[str, Any], what: str) -> str:
        self.heard.put(what)
        return what

    def client(self, topic: str, **target: Any) -> Any:
        return messaging.get_rpc_client(self.transport, messaging.Target(exchange=self._exchange, topic=topic, **target))

    def close(self) -> None:
        for server in self._servers:
            server.stop()
            server.wait()
        self.transport.cleanup()


def test_two_clouds_and_nova_share_a_virtual_host(broker: Broker, tmp_path: Any) -> None:
    url = broker.new_vhost("shared")
    with contextlib.ExitStack() as stack:
        foreign = []
        for exchange in ("nova", "openstack"):
            one = Foreign(url, exchange)
            stack.callback(one.close)
            foreign.append(one.serve("conductor", "node").serve("scheduler", "node").serve("compute", "node"))
        clouds = [_services(tmp_path / "one", url), _services(tmp_path / "two", url, rpc__exchange="nova_lite_two")]
        for cloud in clouds:
            stack.callback(_end, cloud)
            _start(cloud)
        for number, cloud in enumerate(clouds):
            _boot(cloud, 3 + number)
        time.sleep(3)                   # reports of the hosts
        for number, cloud in enumerate(clouds):
            assert len(cloud.client().ok("GET", "/servers")["servers"]) == 3 + number
            assert len(cloud.client().ok("GET", "/os-services?binary=nova-compute")["services"]) == 1
        assert all(one.heard.empty() for one in foreign)
        # and the other way round: what Nova's services tell each other, to one and to all
        for one in foreign:
            for topic in ("conductor", "scheduler", "compute"):
                for target in ({}, {"server": "node"}, {"fanout": True}):
                    one.client(topic, **target).cast({}, "tell", what=f"{topic} {target}")
        for one, other in (foreign, foreign[::-1]):
            # two clouds of Nova do have one queue for each topic
            wait_for("the messages", lambda one=one, other=other: one.heard.qsize() + other.heard.qsize() >= 2 * 9, 60)
        for cloud in clouds:
            logs = "".join(process.log.read_text() for process in cloud.processes.values())
            assert "does not support RPC method" not in logs
            assert "Traceback" not in logs


class Manager:
    """Of one topic of this release."""

    def __init__(self) -> None:
        self.heard: queue.Queue[str] = queue.Queue()

    def tell(self, context: Any, what: str) -> str:
        self.heard.put(what)
        return what


class Present:
    """A process of this release."""

    def __init__(self, url: str, directory: Any, host: str = "node") -> None:
        file = directory / f"{host}.conf"
        file.write_text(f"[DEFAULT]\ntransport_url = {url}\n")
        self.transport = rpc.get_transport(nova_conf.load([], config_files=[str(file)], host=host))
        self._servers: list[Any] = []

    def serve(self, topic: str, server: str) -> queue.Queue[str]:
        manager = Manager()
        made = rpc.get_server(self.transport, topic, server, [manager])
        made.start()
        self._servers.append(made)
        return manager.heard

    def client(self, topic: str) -> rpc.Client:
        return type("Client", (rpc.Client,), {"topic": topic})(self.transport)

    def close(self) -> None:
        for server in self._servers:
            server.stop()
            server.wait()
        self._servers.clear()
        self.transport.cleanup()


@pytest.fixture
def native_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")


def test_services_of_the_release_before_run_beside_these(broker: Broker, tmp_path: Any, native_threads: None) -> None:
    url = broker.new_vhost("upgrade")
    old, new = Foreign(url, "nova_lite", quorum=True), Present(url, tmp_path)
    try:
        old.serve("conductor", "old").serve("compute", "h1").serve("compute", "h2")
        # an old host, and an old conductor where there is no other one yet
        assert new.client("compute").call(admin_context(), "tell", server="h1", what="to an old host") == "to an old host"
        assert new.client("conductor").call(admin_context(), "tell", what="to an old conductor") == "to an old conductor"
        # now there are new ones
        conductor, host = new.serve("conductor", "new"), new.serve("compute", "h2")
        for client in (old.client("conductor"), old.client("compute", server="h2")):
            assert client.call({}, "tell", what="from an old one") == "from an old one"
        assert [conductor.get(timeout=9), host.get(timeout=9)] == ["from an old one"] * 2
        assert new.client("compute").call(admin_context(), "tell", server="h2", what="x") == "x"
        assert host.get(timeout=9) == "x"
        time.sleep(1)
        # each message came to one of them
        assert [old.heard.get(timeout=9) for _ in range(2)] == ["to an old host", "to an old conductor"]
        assert old.heard.empty()
        assert conductor.empty()
        assert host.empty()
    finally:
        new.close()
        old.close()


def test_a_queue_that_another_machine_uses_is_left_to_it(broker: Broker, tmp_path: Any, native_threads: None) -> None:
    url = broker.new_vhost("twins")
    one = Present(url, tmp_path)
    try:
        one.serve("conductor", "c")
        process = one.transport.conf.oslo_messaging_rabbit.processname
        mine = [f"nova_lite.reply.node.{process}.{number}" for number in (1, 2)]
        with kombu.Connection(url.replace("rabbit:", "amqp:")) as connection:
            channel = connection.default_channel
            channel.queue_declare(mine[0], arguments={"x-expires": 1800000}, auto_delete=False)
            channel.basic_consume(mine[0])
            assert one.client("conductor").call(admin_context(), "tell", what="x") == "x"
            used = {name: what for name, what in broker.queues("twins").items() if "reply" in name}
            assert used == dict.fromkeys(mine, ("classic", 1))
    finally:
        one.close()
