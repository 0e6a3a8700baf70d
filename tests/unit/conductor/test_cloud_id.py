"""Which cloud is on the broker: conductors, schedulers and hosts say it, and a service of another cloud does not start."""
from __future__ import annotations

import oslo_messaging as messaging
import pytest

from nova_lite import exception, rpc
from nova_lite.db import cloud as cloud_row
from nova_lite.db import models
from nova_lite.rpc import cloud_id
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.runtime import checks


class Old:
    """A service of a version that knows no clouds."""

    def ping(self, context):
        return "old"


@pytest.fixture
def conf(cloud, monkeypatch):
    """The options of a service on the same broker, which the checks take for a real one."""
    monkeypatch.setattr(checks, "_is_alone", lambda conf: False)
    return cloud.conf


def _id(cloud):
    with cloud.db.read() as connection:
        return cloud_row.find_id(connection)


def _leave_hosts_alone(cloud):
    """Conductor and scheduler are away. A host calls a conductor, and its call waits."""
    for server in cloud._servers[:2]:
        server.stop()
        server.wait()
    with pytest.raises(messaging.MessagingTimeout):
        cloud.hosts["h1"].conductor.ping(0.01)


def _another(cloud):
    """The database becomes another cloud's; what hosts have heard stays."""
    cloud.run(models.cloud.update().values(uuid="another"))


@pytest.mark.parametrize("topic", [rpc.CONDUCTOR, rpc.SCHEDULER])
def test_each_service_says_it(cloud, topic):
    found = cloud_id._Client(cloud.transport, topic).call(cloud.context, "cloud", timeout=5)
    assert found == {"cloud": _id(cloud), "host": "control"}


def test_its_own_cloud_is_let_in(cloud, conf):
    checks.check_cloud(conf)


def test_another_one_is_told_who_is_there(cloud, conf):
    mine = _id(cloud)
    _leave_hosts_alone(cloud)
    _another(cloud)
    with pytest.raises(exception.ConfigError, match=rf"of cloud another, and the compute on h1,.*is of cloud {mine}\."):
        checks.check_cloud(conf)


def test_the_first_service_finds_nobody(cloud, conf):
    for server in cloud._servers:
        server.stop()
        server.wait()
    checks.check_cloud(conf)


def test_a_host_that_no_conductor_has_told_says_nothing(cloud, conf):
    cloud.hosts["h1"].conductor.cloud = None
    _leave_hosts_alone(cloud)
    assert cloud_id.find(cloud.transport) is None


def test_an_older_version_holds_up_nothing(cloud):
    for server in cloud._servers:
        server.stop()
        server.wait()
    servers = [rpc.get_server(cloud.transport, topic, "old", [Old()]) for topic in (rpc.CONDUCTOR, rpc.SCHEDULER)]
    for server in servers:
        server.start()
    try:
        ConductorAPI(cloud.transport).ping(5)
        assert cloud_id.find(cloud.transport) is None
    finally:
        for server in servers:
            server.stop()
            server.wait()


def test_a_database_without_the_row_is_told(cloud, conf):
    cloud.run(models.cloud.delete())
    with pytest.raises(exception.ConfigError, match="no row in its table 'cloud'"):
        checks.check_cloud(conf)
