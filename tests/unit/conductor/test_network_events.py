"""Servers on a Neutron that speaks HTTP: what a build asks of it, what it waits for, and what events change."""
import threading
import time

import pytest

from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.network import NetworkRequest
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        yield fake


@pytest.fixture
def cloud(make_cloud, neutron):
    return make_cloud("h1", "h2", config=CREDENTIALS.format(url=neutron.url), network__driver="neutron",
                      service_user__retries=0)


@pytest.fixture
def wanted(neutron):
    """A request for one nic as the API leaves it."""
    return [NetworkRequest(neutron.add_network(), network_name="private", mtu=1450).to_primitive()]


def _until(check):
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _waiting(cloud, neutron, **values):
    """A server whose build waits for its port; (server, host, port id)."""
    [server] = cloud.build(**values)
    _until(lambda: cloud.get(server).task_state == states.SPAWNING)
    return server, cloud.get(server).host, neutron.of(server)[0]["id"]


def _tell(cloud, host, server, name, tag, status="completed"):
    event = {"name": name, "server_uuid": server, "tag": tag, "status": status}
    cloud.conductor.compute.external_instance_event(admin_context(), host, [event])


def test_a_build_asks_neutron_three_times_and_waits_for_its_word(cloud, neutron, wanted):
    server, host, port = _waiting(cloud, neutron, network_request=wanted)
    assert cloud.get(server).task_state == states.SPAWNING
    _tell(cloud, host, server, "network-vif-plugged", port)
    cloud.wait(server, states.ACTIVE)
    assert neutron.calls == ["GET ports", "POST ports", "GET subnets"]
    assert neutron.ports[port]["device_owner"] == "compute:nova"


def test_a_port_that_is_wired_at_once_is_not_waited_for(cloud, neutron, wanted):
    neutron.new_port_status = "ACTIVE"
    cloud.active(network_request=wanted)


def test_a_failed_port_is_the_fault_of_the_server(cloud, neutron, wanted):
    server, host, port = _waiting(cloud, neutron, network_request=wanted)
    _tell(cloud, host, server, "network-vif-plugged", port, "failed")
    cloud.wait(server, states.ERROR)
    assert f"Neutron says network-vif-plugged failed for port {port}" in cloud.get(server).fault["message"]
    _until(lambda: not neutron.ports)
    assert cloud.guests(host) == {}


def test_a_delete_does_not_wait_for_the_network(cloud, neutron, wanted):
    server, host, port = _waiting(cloud, neutron, network_request=wanted)
    cloud.operate(server, "delete")
    _until(lambda: cloud.get(server).deleted)
    assert not neutron.ports
    assert cloud.guests(host) == {}


def test_network_changed_brings_the_nics_up_to_date(cloud, neutron, wanted):
    neutron.new_port_status = "ACTIVE"
    server = cloud.active(network_request=[*wanted, *wanted])
    first, second = cloud.get(server).network_info
    neutron.add_floating_ip(first.id, first.fixed_ips[0].address, "203.0.113.7")
    _tell(cloud, cloud.get(server).host, server, "network-changed", None)
    _until(lambda: cloud.get(server).network_info[0].fixed_ips[0].floating_ips == ["203.0.113.7"])
    del neutron.ports[second.id]
    _tell(cloud, cloud.get(server).host, server, "network-vif-deleted", second.id)
    _until(lambda: [v.id for v in cloud.get(server).network_info] == [first.id])


@pytest.mark.parametrize("fails", [False, True])
def test_the_nic_of_a_deleted_port_is_taken_from_the_guest(cloud, neutron, wanted, monkeypatch, caplog, fails):
    """While the record knows it: a detach finds no nic after that."""
    neutron.new_port_status = "ACTIVE"
    server = cloud.active(network_request=[*wanted, *wanted])
    first, second = cloud.get(server).network_info
    host, taken = cloud.hosts[cloud.get(server).host].host, []
    for part, name in ((host.driver, "detach_interface"), (host.network, "unplug")):
        def note(instance, vif, name=name, real=getattr(part, name)):
            taken.append((name, vif.id, len(cloud.get(instance.uuid).network_info)))
            real(instance, vif)
        monkeypatch.setattr(part, name, note)
    if fails:
        cloud.fail("detach_interface")
    del neutron.ports[second.id]
    _tell(cloud, host.name, server, "network-vif-deleted", second.id)
    _until(lambda: [v.id for v in cloud.get(server).network_info] == [first.id])
    assert taken == [("detach_interface", second.id, 2), ("unplug", second.id, 2)]
    told = [r for r in caplog.records if r.levelname == "ERROR" and second.id in r.getMessage()]
    assert [r.instance_uuid for r in told] == [server] * fails


def test_many_events_are_few_looks(cloud, neutron, wanted):
    neutron.new_port_status = "ACTIVE"
    server = cloud.active(network_request=wanted)
    host = cloud.get(server).host
    neutron.calls.clear()
    hold = threading.Event()
    cloud.hosts[host]._queues.submit(server, cloud.hosts[host]._pool, lambda _waited: hold.wait(10) and None)
    for _ in range(20):
        cloud.hosts[host].external_instance_event(admin_context(), [
            {"name": "network-changed", "server_uuid": server, "status": "completed"}])
    hold.set()
    _until(lambda: not cloud.hosts[host]._queues.is_busy(server))
    assert neutron.calls.count("GET ports") == 1


def test_what_the_comparison_of_ports_finds(cloud, neutron, wanted):
    """A server that the record knows as the network does costs no question of its own, one whose events were lost does."""
    neutron.new_port_status = "ACTIVE"
    servers = [cloud.active(network_request=wanted) for _ in range(2)]
    [vif] = cloud.get(servers[0]).network_info
    neutron.add_floating_ip(vif.id, vif.fixed_ips[0].address, "203.0.113.7")
    neutron.calls.clear()
    for daemon in cloud.hosts.values():
        daemon._nics.run()
    _until(lambda: not any(daemon._queues.is_busy(s) for daemon in cloud.hosts.values() for s in servers))
    assert cloud.get(servers[0]).network_info[0].fixed_ips[0].floating_ips == ["203.0.113.7"]
    rounds = 2 * ["GET ports", "GET floatingips"]
    assert sorted(neutron.calls) == sorted([*rounds, "GET ports", "GET floatingips", "GET subnets"])


def test_no_more_addresses_is_said_as_it_is(cloud, neutron):
    network = neutron.add_network(cidr="10.0.0.0/30")
    neutron.add_port(network)
    [server] = cloud.build(network_request=[NetworkRequest(network, network_name="private").to_primitive()])
    cloud.wait(server, states.ERROR)
    assert cloud.get(server).fault["message"] == (
        f"No fixed IP addresses available for network: {network} "
        f"(Neutron: No more IP addresses available on network {network}.)")


def test_a_broken_neutron_is_named_and_nothing_stays(cloud, neutron, wanted):
    def break_subnets(method, what):
        if what == "subnets":
            raise Refused(500, "Oops", "out of order")
    neutron.before = break_subnets
    [server] = cloud.build(network_request=wanted)
    cloud.wait(server, states.ERROR)
    assert "Neutron is unavailable: it answered 500" in cloud.get(server).fault["message"]
    assert not neutron.ports
