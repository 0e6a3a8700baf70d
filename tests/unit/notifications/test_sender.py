"""The way to the bus: what is sent where, and what becomes of it when the bus is not there."""
from __future__ import annotations

import subprocess
import sys
import uuid

import oslo_messaging as messaging
import pytest

from nova_lite import conf as conf_module
from nova_lite import exception
from nova_lite.db.core import Database
from nova_lite.notifications import attach, sender
from nova_lite.notifications.sender import Sender
from nova_lite.objects import action as objects

NOBODY = "rabbit://guest:guest@127.0.0.1:1/"


def _conf(directory, url="fake://", more="", **options):
    file = directory / "notifications.conf"
    file.write_text(f"[DEFAULT]\nhost = control\ntransport_url = {url}\n{more}")
    return conf_module.load([], config_files=[str(file)], **options)


def _listen(transport, exchange):
    """(topic, publisher, event type, priority) of all that arrives."""
    found = []

    def endpoint(topic, priority):
        def take(self, ctxt, publisher_id, event_type, payload, metadata):
            found.append((topic, publisher_id, event_type, priority))
        return take
    listeners = []
    for topic in ("versioned_notifications", "notifications"):
        kind = type("Endpoint", (), {p: endpoint(topic, p) for p in ("info", "error")})
        listener = messaging.get_notification_listener(transport, [messaging.Target(topic=topic, exchange=exchange)], [kind()],
                                                       executor="threading")
        listener.start()
        listeners.append(listener)
    return found, listeners


@pytest.mark.parametrize(("wanted", "topics"), [("versioned", ["versioned_notifications"]), ("unversioned", ["notifications"]),
                                                ("both", ["notifications", "versioned_notifications"])])
def test_each_format_has_its_topic(make_cloud, tmp_path, wanted, topics):
    exchange = str(uuid.uuid4())
    conf = _conf(tmp_path, more=f"control_exchange = {exchange}\n", notifications__format=wanted)
    cloud = make_cloud("h1")
    attach(conf, cloud.conductor.db, "conductor")
    listening = conf_module.load([], config_files=[str(tmp_path / "notifications.conf")])
    found, listeners = _listen(messaging.get_notification_transport(listening), exchange)
    server = cloud.active()
    cloud.fail("power_off")
    cloud.wait_action(cloud.operate(server, "stop"), objects.ERROR)
    for topic in topics:
        prefix, publisher = {"notifications": ("compute.instance", "compute.h1")}.get(topic, ("instance", "nova-compute:h1"))
        wanted_steps = [(publisher, f"{prefix}.create.start", "info"), (publisher, f"{prefix}.create.end", "info"),
                        (publisher, f"{prefix}.power_off.start", "info"), (publisher, f"{prefix}.power_off.error", "error")]

        def steps(topic=topic):
            """Errors have a queue of their own, so they may come before what was sent earlier."""
            of_topic = [f[1:] for f in list(found) if f[0] == topic and not f[2].endswith(".update")]
            return sorted(of_topic, key=lambda step: step[2] == "error")

        cloud.wait_for(lambda steps=steps, count=len(wanted_steps): len(steps()) >= count)
        assert steps() == wanted_steps
        assert [f for f in found if f[0] == topic and f[2] == f"{prefix}.update"]
    assert sorted({f[0] for f in found}) == topics
    for listener in listeners:
        listener.stop()
        listener.wait()


def test_the_exchange_is_novas(tmp_path):
    made = Sender(_conf(tmp_path, notifications__format="both"), "api")
    assert made._unversioned.transport._driver._default_exchange == "nova"
    made = Sender(_conf(tmp_path, more="control_exchange = mine\n", notifications__format="both"), "api")
    assert made._unversioned.transport._driver._default_exchange == "mine"


def test_no_operation_waits_for_a_broker_that_is_away(make_cloud, tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "CLOSE_SECONDS", 0.1)
    cloud = make_cloud("h1")
    attach(_conf(tmp_path, NOBODY, notifications__format="both"), cloud.conductor.db, "conductor")
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert cloud.conductor.db.listener._queue.unfinished_tasks >= 2        # of the build and of the deletion, at least one each


def test_what_waits_for_the_broker_is_bounded(make_cloud, tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(sender, "CAPACITY", 2)
    cloud = make_cloud("h1")
    attach(_conf(tmp_path, NOBODY, notifications__format="versioned"), cloud.conductor.db, "conductor")
    for _ in range(3):
        cloud.active()
    waiting = cloud.conductor.db.listener
    assert waiting._queue.qsize() <= 2
    assert waiting._dropped > 0


def test_a_payload_that_cannot_be_made_harms_nothing(make_cloud, tmp_path, monkeypatch):
    def broken(*_args):
        raise ValueError("a defect")
    monkeypatch.setattr(sender.versioned, "payload", broken)
    cloud = make_cloud("h1")
    attach(_conf(tmp_path, notifications__format="versioned"), cloud.conductor.db, "conductor")
    assert cloud.active()


def test_a_bus_that_does_not_exist_is_told_at_start(tmp_path):
    with pytest.raises(exception.ConfigError, match="notifications"):
        Sender(_conf(tmp_path, "nonsense://x", notifications__format="both"), "api")


def test_off_costs_nothing(tmp_path):
    conf = _conf(tmp_path, database__connection="sqlite://")
    db = Database(conf)
    attach(conf, db, "api")
    assert db.listener is None
    code = ("from nova_lite import conf\nfrom nova_lite.conductor.manager import ConductorManager\nfrom nova_lite import rpc\n"
            "c = conf.load([], config_files=[], database__connection='sqlite://')\n"
            "ConductorManager(c, rpc.get_transport(c))\nimport sys\nprint(*sys.modules)")
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "nova_lite.notifications" in loaded
    assert [name for name in loaded if name.startswith("nova_lite.notifications.")] == []
