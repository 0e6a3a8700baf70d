"""Notifications of five services on RabbitMQ, read from both topics as billing and monitoring read them."""
from __future__ import annotations

import threading

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for

TOPICS = {"versioned_notifications": "instance.", "notifications": "compute.instance."}
STEPS = ["create.start", "create.end", "power_off.start", "power_off.end", "power_on.start", "power_on.end", "reboot.start",
         "reboot.end", "delete.start", "shutdown.start", "shutdown.end", "delete.end"]


class Bus:
    """A listener with oslo.messaging's own defaults, as other services have them."""

    def __init__(self, url: str) -> None:
        self._lock, self.messages = threading.Lock(), []
        self._listeners = []
        for topic in TOPICS:
            conf = cfg.ConfigOpts()
            conf([], default_config_files=[], default_config_dirs=[])
            transport = messaging.get_notification_transport(conf, url=url)
            target = messaging.Target(topic=topic, exchange="nova")
            listener = messaging.get_notification_listener(transport, [target], [self._endpoint(topic)], executor="threading")
            listener.start()
            self._listeners.append((listener, transport))

    def _endpoint(self, topic):
        def take(priority):
            def method(_self, ctxt, publisher_id, event_type, payload, metadata):
                with self._lock:
                    self.messages.append((topic, priority, publisher_id, event_type, payload, ctxt))
            return method
        return type("Endpoint", (), {"info": take("info"), "error": take("error")})()

    def of(self, topic, server):
        """(priority, publisher, name, data) of one server, in order, updates left out."""
        found = []
        for where, priority, publisher, event_type, payload, _ in list(self.messages):
            data = payload.get("nova_object.data", payload)
            if where == topic and data.get("uuid", data.get("instance_id")) == server and not event_type.endswith(".update"):
                assert event_type.startswith(TOPICS[topic])
                found.append((priority, publisher, event_type.removeprefix(TOPICS[topic]), data))
        return found

    def close(self):
        for listener, transport in self._listeners:
            listener.stop()
            listener.wait()
            transport.cleanup()


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory):
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    engine = MariaDB(tmp_path_factory.mktemp("mariadb")).start()
    yield engine
    engine.close()


@pytest.fixture
def bus(rabbit):
    made = Bus(rabbit.url)
    yield made
    made.close()


@pytest.fixture
def make_cloud(rabbit, database, tmp_path):
    made = []

    def make(**options):
        services = Services(tmp_path / "cloud", rabbit.url, database.new_database(), **options)
        made.append(services)
        services.start()
        services.add_image()
        return services
    yield make
    for services in made:
        services.stop()


def test_both_topics_tell_the_life_of_a_server(make_cloud, bus, rabbit):
    cloud = make_cloud(notifications__format="both")
    client = cloud.client()
    server = client.boot("billed", metadata={"team": "blue"})["id"]
    client.wait(server, "ACTIVE")
    for action, argument, status in (("os-stop", None, "SHUTOFF"), ("os-start", None, "ACTIVE"),
                                     ("reboot", {"type": "HARD"}, "ACTIVE")):
        client.action(server, action, argument)
        client.wait(server, status)
    client.delete(server)
    client.wait_gone(server)
    for topic in TOPICS:
        wait_for(f"the end on {topic}", lambda topic=topic: [m for m in bus.of(topic, server) if m[2] == "delete.end"], 20)
        told = bus.of(topic, server)
        assert [name for _, _, name, _ in told] == STEPS
        publisher = "nova-compute:node" if topic.startswith("versioned") else "compute.node"
        assert {(priority, who) for priority, who, _, _ in told} == {("info", publisher)}
        end = told[-1][3]
        assert (end["tenant_id"], end["user_id"], end["display_name"], end["state"]) == ("demo", "admin", "billed", "deleted")
        assert end["metadata"] == {"team": "blue"}
        assert end["launched_at"]
        assert end["deleted_at"]
    states = {m[4]["new_task_state"] for m in bus.messages
              if m[3] == "compute.instance.update" and m[4]["instance_id"] == server}
    assert states >= {"scheduling", "spawning", "powering-off", "powering-on", "rebooting_hard", "deleting", None}
    assert "auth_token" not in str([m[5] for m in bus.messages])

    # a broker that is away for a while costs nothing but time
    rabbit.stop()
    rabbit.start()
    cloud.wait_ready()
    again = client.boot()["id"]
    client.wait(again, "ACTIVE", 120)
    wait_for("notifications after the broker's return",
             lambda: [m for m in bus.of("notifications", again) if m[2] == "create.end"], 60)


def test_a_build_that_fails_is_told_as_an_error(make_cloud, bus):
    cloud = make_cloud(notifications__format="versioned", fake__fail="spawn")
    client = cloud.client()
    server = client.boot()["id"]
    client.wait(server, "ERROR")
    topic = "versioned_notifications"
    wait_for("the error", lambda: [m for m in bus.of(topic, server) if m[2] == "create.error"], 20)
    [start, error] = bus.of(topic, server)
    assert (start[2], error[0], error[1]) == ("create.start", "error", "nova-compute:node")
    assert "[fake] fail = spawn" in error[3]["fault"]["nova_object.data"]["exception_message"]
    assert bus.of("notifications", server) == []


def test_none_sends_nothing(make_cloud, bus):
    cloud = make_cloud()
    client = cloud.client()
    server = client.boot()["id"]
    client.wait(server, "ACTIVE")
    client.delete(server)
    client.wait_gone(server)
    assert bus.messages == []
