"""Live migrations with their ports on a small Neutron: nothing of a move that did not take place stays at a port."""
import threading

import pytest

from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused
from tests.unit.compute.volumes.conftest import make_volume_cloud

__all__ = ["make_volume_cloud"]


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        yield fake


@pytest.fixture
def cloud(make_volume_cloud, neutron):  # noqa: F811
    neutron.new_port_status = "ACTIVE"
    return make_volume_cloud("h1", "h2", config=CREDENTIALS.format(url=neutron.url), network__driver="neutron",
                             service_user__retries=0, network__vif_plugging_timeout=1)


@pytest.fixture
def server(cloud, neutron):
    return cloud.running(networks=[{"uuid": neutron.add_network("one")}])


@pytest.fixture
def hosts(cloud, server):
    """Where the server is, and the other one."""
    return cloud.get(server).host, next(host for host in cloud.hosts if host != cloud.get(server).host)


def _migrate(cloud, server, to=None):
    asked = {"host": to, "block_migration": None, "disk_over_commit": None, "force": False}
    return cloud.operate(server, "live_migrate", asked)


def _port(neutron, server):
    """Its host, the hosts to which it has other bindings, and what of a move its profile says."""
    [port] = neutron.of(server)
    return port["binding:host_id"], port.get("waiting", []), port.get("binding:profile") or {}


def _is_left(neutron, server, there, says=True):
    """As a daemon that was killed leaves its port."""
    [port] = neutron.of(server)
    port["waiting"] = [there]
    if says:
        port["binding:profile"] = {"migrating_to": there}


class Away:
    """Neutron refuses what is said of bindings and ports from now on; ``asked``: it has."""

    def __init__(self, neutron, methods):
        self.neutron, self.methods, self.asked = neutron, methods, threading.Event()
        neutron.before = self._refuse

    def _refuse(self, method, what):
        if what == "ports" and method in self.methods:
            self.asked.set()
            raise Refused(503, "", "away")

    def is_back(self):
        self.neutron.before = lambda method, what: None


def test_a_port_goes_along(cloud, neutron, server, hosts):
    cloud.wait_action(_migrate(cloud, server), objects.DONE)
    assert _port(neutron, server) == (hosts[1], [], {})


def test_a_migration_that_failed_ends_when_neutron_has_taken_it_back(cloud, neutron, server, hosts, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "live_migration")
    action_id = _migrate(cloud, server)
    assert held.wait(30)
    assert _port(neutron, server) == (hosts[0], [hosts[1]], {"migrating_to": hosts[1]})
    away = Away(neutron, ("DELETE", "PUT"))
    cloud.fail("live_migration")
    go_on.set()
    cloud.wait_for(lambda: cloud.action(action_id).step == "settle")
    away.asked.clear()
    assert away.asked.wait(30)
    assert cloud.action(action_id).state != objects.ERROR
    away.is_back()
    cloud.wait_action(action_id, objects.ERROR)
    assert _port(neutron, server) == (hosts[0], [], {})
    assert cloud.get(server).vm_state == states.ACTIVE


def test_what_a_check_could_not_give_back_goes_when_no_host_takes_the_server(cloud, neutron, server, hosts):
    Away(neutron, ("DELETE",))
    cloud.wait_action(_migrate(cloud, server, hosts[1]), objects.ERROR)
    assert _port(neutron, server) == (hosts[0], [hosts[1]], {})
    nics = cloud.hosts[hosts[0]]._nics
    cloud.wait_for(lambda: nics._suspects)
    nics.run()                                          # Neutron is away
    cloud.wait_for(lambda: not nics._queued)
    neutron.before = lambda method, what: None
    cloud.wait_for(lambda: nics.run() or _port(neutron, server) == (hosts[0], [], {}))


def test_what_a_killed_migration_has_left_goes_within_a_minute(cloud, neutron, server, hosts):
    _is_left(neutron, server, hosts[1])
    cloud.hosts[hosts[0]]._nics.run()
    cloud.wait_for(lambda: _port(neutron, server) == (hosts[0], [], {}))


def test_the_marks_of_a_migration_that_is_under_way_stay(cloud, neutron, server, hosts, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "pre_live_migration")
    action_id = _migrate(cloud, server)
    assert held.wait(30)
    nics = cloud.hosts[hosts[0]]._nics
    nics.run()
    cloud.wait_for(lambda: not nics._queued)
    assert _port(neutron, server) == (hosts[0], [hosts[1]], {"migrating_to": hosts[1]})
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)


@pytest.mark.parametrize("says", [True, False])
def test_a_hard_reboot_takes_back_what_is_left(cloud, neutron, server, hosts, says):
    _is_left(neutron, server, hosts[1], says)
    cloud.wait_action(cloud.operate(server, "reboot_hard"), objects.DONE)
    assert _port(neutron, server) == (hosts[0], [], {})
    assert neutron.profiles[-1] == (hosts[0], {}, [])       # its agent has heard of it
