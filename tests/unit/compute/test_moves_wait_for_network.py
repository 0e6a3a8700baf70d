"""A guest that moves starts when its ports are wired, on a small Neutron."""
import pytest

from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.unit.compute.volumes.conftest import make_volume_cloud

__all__ = ["make_volume_cloud"]
BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)


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


def _unwired(neutron, server):
    for port in neutron.of(server):
        port["status"] = "DOWN"


def _tell(cloud, server, port, status="completed"):
    """As Neutron does, which knows nothing of hosts."""
    event = {"name": "network-vif-plugged", "server_uuid": server, "tag": port, "status": status}
    cloud.admin.post("/os-server-external-events", {"events": [event]})


def _resize(cloud, server):
    cloud.operate(server, "resize", {"flavor": BIGGER.to_primitive()})


def test_one_that_is_not_wired_at_its_new_host_comes_back(cloud, neutron, server, caplog):
    old = cloud.get(server).host
    _unwired(neutron, server)
    _resize(cloud, server)
    found = cloud.wait(server, states.ACTIVE)
    assert "is wired" in found.fault["message"]
    assert (found.host, cloud.guests(old)) == (old, {server: states.RUNNING})
    assert {p["binding:host_id"] for p in neutron.of(server)} == {old}
    assert "it starts all the same" in caplog.text       # at home it waits, too, but not for ever


@pytest.mark.parametrize("verb", ["resize", "evacuate"])
def test_neutrons_word_lets_it_run(cloud, neutron, server, verb):
    cloud.conf.set_override("vif_plugging_timeout", 60, group="network")
    old = cloud.get(server).host
    new = {"h1": "h2", "h2": "h1"}[old]
    _unwired(neutron, server)
    [port] = neutron.of(server)
    if verb == "resize":
        _resize(cloud, server)
    else:
        cloud.end_host(old)
        cloud.silence(old)
        cloud.operate(server, "evacuate", {"host": new, "force": False, "stopped": False})
    waits_in = {"resize": states.RESIZE_FINISH, "evacuate": states.REBUILD_SPAWNING}[verb]
    cloud.wait_for(lambda: cloud.get(server).task_state == waits_in)
    assert cloud.guests(new) == {}
    _tell(cloud, server, port["id"])
    cloud.wait(server, states.RESIZED if verb == "resize" else states.ACTIVE)
    assert cloud.guests(new) == {server: states.RUNNING}
    assert not cloud.get(server).fault


def test_neutrons_word_that_it_failed_is_heard_by_the_new_host(cloud, neutron, server):
    cloud.conf.set_override("vif_plugging_timeout", 60, group="network")
    _unwired(neutron, server)
    [port] = neutron.of(server)
    _resize(cloud, server)
    cloud.wait_for(lambda: cloud.get(server).task_state == states.RESIZE_FINISH)
    cloud.conf.set_override("vif_plugging_timeout", 1, group="network")     # of the way home
    _tell(cloud, server, port["id"], "failed")
    assert "Neutron says network-vif-plugged failed for port" in cloud.wait(server, states.ACTIVE).fault["message"]
