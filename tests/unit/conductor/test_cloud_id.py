"""Which cloud is on the broker: conductors, schedulers and hosts say it, and a service of another cloud does not start."""
from __future__ import annotations

import pytest
import sqlalchemy as sa

from nova_lite import exception, rpc
from nova_lite.context import admin_context
from nova_lite.db import cloud as cloud_row
from nova_lite.db import models, services
from nova_lite.rpc import cloud_id
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.runtime import checks
from tests.unit.db.databases import make_tables


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


@pytest.mark.parametrize("topic", [rpc.CONDUCTOR, rpc.SCHEDULER])
def test_each_service_says_it(cloud, topic):
    found = cloud_id._Client(cloud.transport, topic).call(cloud.context, "cloud", timeout=5)
    assert found == {"cloud": _id(cloud), "host": "control"}


def test_its_own_cloud_is_let_in(cloud, conf):
    checks.check_cloud(conf)


@pytest.mark.parametrize("left", [rpc.CONDUCTOR, rpc.SCHEDULER])
def test_another_one_is_told_who_is_there(cloud, conf, tmp_path, left):
    gone = cloud._servers[left == rpc.CONDUCTOR]
    gone.stop()
    gone.wait()
    url = f"sqlite:///{tmp_path}/another.sqlite"
    make_tables(url)
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.update(models.cloud).values(uuid="another"))
    conf.set_override("connection", url, group="database")
    with pytest.raises(exception.ConfigError, match=rf"and the {left} on control, which answers .*is of cloud {_id(cloud)}\."):
        checks.check_cloud(conf)


def test_the_first_service_finds_nobody(cloud, conf):
    for server in cloud._servers:
        server.stop()
        server.wait()
    checks.check_cloud(conf)


def test_a_conductor_of_another_cloud_refuses_a_host_and_changes_nothing(cloud, caplog):
    conductor = cloud.hosts["h1"].conductor
    assert conductor.cloud == _id(cloud)
    conductor.cloud = "another"
    with cloud.db.read() as connection:
        before = services.get_by_host(connection, "h1", services.COMPUTE)
    with pytest.raises(exception.ConductorAway):
        conductor.host_started(admin_context(), "h1", "h1:1", [])
    assert f"host_started by host h1: The message is of cloud another, and this service is of cloud {_id(cloud)}" in caplog.text
    with cloud.db.read() as connection:
        assert services.get_by_host(connection, "h1", services.COMPUTE) == before


def test_a_host_that_no_conductor_has_told_names_no_cloud(cloud):
    cloud.hosts["h1"].conductor.cloud = None
    cloud.hosts["h1"].conductor.ping(5)


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
