"""A RabbitMQ user and a key for each compute host, as docs/compute_hosts.md has it: builds and moves work, messages of other
hosts cannot be read."""
import amqp
import kombu
import pytest
from amqp.exceptions import AccessRefused

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.compute.manager import ComputeManager
from nova_lite.db import host_keys
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.rpc import sender
from tests.support.engines import RabbitMQ
from tests.unit.conductor.cloud import Cloud

HOSTS = ("h1", "h2")
MASTER = "0123456789abcdef" * 4


def permissions(host):
    """configure, write, read; then what may be sent to, and bound to, the exchange nova_lite."""
    name = host.replace(".", "\\.")
    own = rf"nova_lite\.compute\.{name}|nova_lite\.reply\.{name}\..*|compute\.{name}"
    there = f"^(nova_lite|{own})$"
    return (there, rf"^(nova_lite|amq\.default|{own})$", there), ("^conductor$", rf"^compute\.{name}$")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    made = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))

    try:
        made.start()
        made.control("await_startup")
        for host in HOSTS:
            plain, topics = permissions(host)
            made.control("add_user", host, "secret")
            made.control("set_permissions", host, *plain)
            made.control("set_topic_permissions", host, "nova_lite", *topics)
        yield made
    finally:
        made.close()


class BrokerCloud(Cloud):
    """Each host has its own user and key."""

    def __init__(self, directory, broker):
        self._directory, self._broker, self._transports = directory, broker, []
        super().__init__(directory, config=f"transport_url = {broker.url}\n",
                         rpc__master_key=MASTER, rpc__require_host_keys=True)

    def add_host(self, name):
        file = self._directory / f"{name}.conf"
        file.write_text(f"[DEFAULT]\ntransport_url = {url(self._broker, name)}\n")
        conf = nova_conf.load([], config_files=[str(file)], host=name, state_path=str(self._directory / name),
                              compute__driver="fake", network__driver="null", rpc__require_host_keys=True,
                              rpc__host_key=self._key(name))
        control, self.transport = self.transport, rpc.get_transport(conf)
        try:
            manager = self.hosts[name] = self._serve(rpc.COMPUTE, name, ComputeManager(conf, self.transport, name))
        finally:
            self._transports.append(self.transport)
            self.transport = control
        assert manager._ready.wait(60)
        self.report(name)
        return manager

    def _key(self, name):
        generation = self.db.write(host_keys.create, name)
        return f"{generation}:{sender.derive(MASTER, name, generation).hex()}"

    def close(self):
        super().close()
        for transport in self._transports:
            transport.cleanup()


def url(broker, user):
    return f"rabbit://{user}:secret@127.0.0.1:{broker.port}/"


@pytest.fixture
def cloud(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    made = BrokerCloud(tmp_path, broker)
    for host in HOSTS:
        made.add_host(host)
    yield made
    made.close()


def test_hosts_with_users_of_their_own_work_and_cannot_read_each_others_messages(cloud, broker):
    servers = cloud.build(2)
    assert {cloud.wait(server, states.ACTIVE).host for server in servers} == set(HOSTS)
    moved = cloud.operate(servers[0], "migrate")        # the hosts ask each other
    assert cloud.wait_action(moved, objects.DONE).state == objects.DONE
    assert cloud.get(servers[0]).vm_state == states.RESIZED

    cloud.wait_action(cloud.operate(cloud.active(), "live_migrate", {"block_migration": None}), objects.DONE)

    def refused(attempt):
        with kombu.Connection(url(broker, "h2").replace("rabbit:", "amqp:")) as connection, pytest.raises(AccessRefused):
            attempt(connection.default_channel)

    reply = f"reply.h1.{cloud.transport.conf.oslo_messaging_rabbit.processname}.1"
    for queue in (f"nova_lite.{name}" for name in ("compute.h1", "conductor", reply, "scheduler")):
        refused(lambda channel, queue=queue: channel.basic_get(queue))
        refused(lambda channel, queue=queue: channel.basic_consume(queue))
        refused(lambda channel, queue=queue: channel.queue_delete(queue))
        refused(lambda channel, queue=queue: channel.queue_purge(queue))
    for key in ("compute.h1", "conductor", "#", "compute.*"):       # a queue of its own that gets copies of all messages
        refused(lambda channel, key=key: channel.queue_bind("nova_lite.compute.h2", "nova_lite", key))


def test_a_host_cannot_send_to_another_one_or_to_the_scheduler(cloud, broker):
    def send(key):
        with kombu.Connection(url(broker, "h2").replace("rabbit:", "amqp:")) as connection:
            channel = connection.default_channel
            channel.basic_publish(amqp.Message("{}"), exchange="nova_lite", routing_key=key)
            channel.queue_declare("nova_lite.compute.h2", passive=True)       # the broker says only now that it has refused

    for key in ("compute.h1", "compute", "scheduler"):
        with pytest.raises(AccessRefused):
            send(key)
