"""What a host finds by itself of the changes of its servers' ports, on a small Neutron over HTTP."""
import pathlib
from types import SimpleNamespace

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.compute.nic_comparison import NicComparison
from nova_lite.network.neutron import NeutronNetwork
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused
from tests.unit.virt.libvirt.builders import instance, vif

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
CHANGED, DELETED = "network-changed", "network-vif-deleted"


class World:
    """A host "here" with two servers, each with a nic; ``told`` are the events that a round takes the place of."""

    def __init__(self, neutron: FakeNeutron, directory: pathlib.Path) -> None:
        file = directory / "nova-lite.conf"
        file.write_text(CREDENTIALS.format(url=neutron.url))
        network = NeutronNetwork(nova_lite.conf.load([], config_files=[str(file)]), None)
        self.neutron, self.told = neutron, []
        made = neutron.add_network()

        def port(server, owner="compute:nova", host="here"):
            return neutron.add_port(made, device_id=server, device_owner=owner, **{"binding:host_id": host})
        self.one, self.two = port(ONE), port(TWO)
        port("dhcp", "network:dhcp")
        port("other", host="elsewhere")
        self.records = {ONE: instance(uuid=ONE, host="here", network_info=[vif(id=self.one)]),
                        TWO: instance(uuid=TWO, host="here", network_info=[vif(id=self.two)])}
        self.unplugged, self.plugged = set(), []
        conductor = SimpleNamespace(get_instance=self._record)
        driver = SimpleNamespace(unplugged=lambda: self.unplugged, plug=self._plug)
        self._comparison = NicComparison(
            SimpleNamespace(name="here", network=network, conductor=conductor, driver=driver), self._tell, self._later)

    def _record(self, _context, server):
        if server not in self.records:
            raise exception.InstanceNotFound(instance_id=server)
        return self.records[server].to_primitive()

    def _tell(self, server, event, port, ports=None):
        """What the network says of all the server's ports is told along with a change."""
        assert (set(ports) == {p for p, known in self.neutron.ports.items() if known["device_id"] == server}
                if event == CHANGED else ports is None)
        self.told.append((server, event, port))

    def _later(self, server, function):
        assert self.unplugged, f"a port of {server} leaves, which nobody said"
        function(False)

    def _plug(self, server, nics):
        self.plugged.append((server.uuid, [nic.id for nic in nics]))
        self.unplugged.discard(server.uuid)

    def round(self):
        """The events that it takes the place of."""
        self.told.clear()
        self.neutron.calls.clear()
        self._comparison.run()
        self._comparison.plug_again()
        return sorted(self.told, key=str)


@pytest.fixture
def world(tmp_path):
    with FakeNeutron() as neutron:
        made = World(neutron, tmp_path)
        assert made.round() == [(ONE, CHANGED, None), (TWO, CHANGED, None)]     # it may have missed anything before
        yield made


def test_a_quiet_round_asks_twice_and_tells_nothing(world):
    assert world.round() == []
    assert world.neutron.calls == ["GET ports", "GET floatingips"]


@pytest.mark.parametrize("change", [
    {"mac_address": "fa:16:3e:00:00:09"}, {"fixed_ips": []}, {"binding:vif_type": "binding_failed"}])
def test_a_change_is_found_once(world, change):
    world.neutron.ports[world.one].update(change)
    assert world.round() == [(ONE, CHANGED, None)]
    assert world.round() == []


def test_the_status_of_a_port_is_no_news(world):
    """Each build changes it, and no user sees it."""
    world.neutron.ports[world.one].update(status="ACTIVE")
    assert world.round() == []


def test_a_floating_ip_is_found_and_its_end_is(world):
    [fixed] = world.neutron.ports[world.two]["fixed_ips"]
    world.neutron.add_floating_ip(world.two, fixed["ip_address"], "203.0.113.5")
    assert world.round() == [(TWO, CHANGED, None)]
    world.neutron.tables["floatingips"].clear()
    assert world.round() == [(TWO, CHANGED, None)]


def test_a_port_that_was_deleted_is_told_by_its_id(world):
    del world.neutron.ports[world.one]
    assert world.round() == [(ONE, DELETED, world.one)]
    assert world.round() == []


def test_a_port_that_went_to_another_host_was_not_deleted(world):
    world.neutron.ports[world.one]["binding:host_id"] = "elsewhere"
    assert world.round() == []


def test_what_changes_while_neutron_is_away_is_found_later(world):
    def refuse(method, what):
        raise Refused(503, "", "away")
    world.neutron.before = refuse
    world.neutron.ports[world.one]["fixed_ips"] = []
    assert world.round() == []
    world.neutron.before = lambda method, what: None
    assert world.round() == [(ONE, CHANGED, None)]


def test_a_nic_that_somebody_took_from_its_bridge_is_put_back(world):
    world.unplugged = {ONE}
    assert world.round() == []
    assert world.plugged == [(ONE, [world.one])]


@pytest.mark.parametrize("busy", [{"task_state": "migrating"}, {"host": "elsewhere"}])
def test_a_nic_is_not_put_back_while_an_operation_moves_its_server(world, busy):
    world.unplugged = {ONE}
    for name, value in busy.items():
        setattr(world.records[ONE], name, value)
    world.round()
    assert world.plugged == []
    world.records[ONE].task_state, world.records[ONE].host = None, "here"
    world.round()
    assert world.plugged == [(ONE, [world.one])]


def test_a_nic_of_a_server_that_is_gone_is_not_put_back(world):
    world.unplugged = {ONE}
    del world.records[ONE]
    world.round()
    assert world.plugged == []
