"""Attach and detach of nics by REST, from the first check to the guest and back."""
import copy
import random
import threading
import uuid

import pytest

from nova_lite import exception
from nova_lite.objects import states
from tests.support.clock import FastClock
from tests.unit.api.compute.conftest import Client
from tests.unit.api.compute.test_resource_mutations import VALUES
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN

NOWHERE = str(uuid.uuid4())


def test_attach_list_show_and_detach(cloud):
    [first] = cloud.nics()
    shown = cloud.attach(net_id=cloud.second, tag="data")
    port = cloud.neutron.ports[shown["port_id"]]
    assert shown == {"port_id": port["id"], "net_id": cloud.second, "mac_addr": port["mac_address"], "port_state": "ACTIVE",
                     "tag": "data", "fixed_ips": port["fixed_ips"]}
    assert shown["fixed_ips"][0].keys() == {"ip_address", "subnet_id"}
    assert (port["device_id"], port["binding:host_id"], port["device_owner"]) == (cloud.server, "h1", "compute:nova")
    assert cloud.member.get(f"{cloud.path}/{port['id']}")["interfaceAttachment"] == shown
    assert [n["port_id"] for n in cloud.member.get(cloud.path)["interfaceAttachments"]] == [first, port["id"]]
    assert "tag" not in cloud.member.at("2.69").get(f"{cloud.path}/{port['id']}")["interfaceAttachment"]
    assert set(cloud.member.get(f"/servers/{cloud.server}")["server"]["addresses"]) == {"one", "two"}
    assert (cloud.last_action(cloud.server)["action"], cloud.last_action(cloud.server)["message"]) == ("attach_interface", None)
    cloud.detach(port["id"])
    assert cloud.nics() == [first]
    assert cloud.ports() == {first}
    cloud.member.get(f"{cloud.path}/{port['id']}", 404)
    assert cloud.last_action(cloud.server)["action"] == "detach_interface"
    assert [c for c in cloud.drivers["h1"].calls if "interface" in c] == ["attach_interface", "detach_interface"]


def test_a_port_of_the_users_is_bound_and_unbound(cloud):
    port = cloud.neutron.add_port(cloud.second)
    assert cloud.attach(port_id=port)["port_id"] == port
    assert port in cloud.ports()
    assert "in use" in cloud.attach(409, port_id=port)
    cloud.detach(port)
    assert (cloud.neutron.ports[port]["device_id"], cloud.neutron.ports[port]["binding:host_id"]) == ("", "")
    cloud.attach(port_id=port)
    cloud.delete(cloud.server)
    assert set(cloud.neutron.ports) == {port}


def test_views_show_the_security_groups_of_nics_that_came_later(cloud):
    """A server without nics is in no group; with its first nic it is in those of that nic."""
    def shown():
        return cloud.member.get(f"/servers/{cloud.server}")["server"].get("security_groups")

    group = cloud.neutron.add_group("web")
    assert shown() == [{"name": "default"}]
    cloud.attach(port_id=cloud.neutron.add_port(cloud.second, security_groups=[group]))
    assert shown() == [{"name": "default"}, {"name": "web"}]
    for port in cloud.nics():
        cloud.detach(port)
    assert shown() is None
    cloud.attach(port_id=cloud.neutron.add_port(cloud.second, security_groups=[group]))
    assert shown() == [{"name": "web"}]


def test_a_port_of_another_project_is_nobodys_here(cloud):
    before, port = cloud.nics(), cloud.neutron.add_port(cloud.second, project_id="other")
    assert cloud.attach(400, port_id=port) == f"Port {port} not usable for instance {cloud.server}."
    body = {"server": {"name": "vm", "flavorRef": "1", "imageRef": cloud.image, "networks": [{"port": port}]}}
    assert "not usable" in cloud.member.fault("POST", "/servers", 400, body)
    assert (cloud.nics(), cloud.neutron.ports[port]["device_id"]) == (before, "")


def test_an_admin_acts_for_the_servers_project(cloud):
    admin = Client(cloud.app, "a", "elsewhere", ("admin",), version="2.70")
    cloud.neutron.add_network("admins", "10.0.9.0/24", project_id="elsewhere")
    theirs = cloud.neutron.add_port(cloud.second, project_id="elsewhere")
    assert "not usable" in admin.fault("POST", cloud.path, 400, {"interfaceAttachment": {"port_id": theirs}})
    del cloud.neutron.tables["networks"][cloud.second]
    shown = admin.post(cloud.path, {"interfaceAttachment": {}})["interfaceAttachment"]
    assert (shown["net_id"], cloud.neutron.ports[shown["port_id"]]["project_id"]) == (cloud.network, "p")


def test_an_address_of_ones_own(cloud):
    shown = cloud.attach(net_id=cloud.second, fixed_ips=[{"ip_address": "10.0.1.77"}])
    assert [a["ip_address"] for a in shown["fixed_ips"]] == ["10.0.1.77"]
    assert "in use" in cloud.attach(409, net_id=cloud.second, fixed_ips=[{"ip_address": "10.0.1.77"}])


def test_twice_the_same_network_gives_two_ports(cloud):
    ports = {cloud.attach(net_id=cloud.second)["port_id"] for _ in range(2)}
    assert len(ports) == 2
    assert ports < cloud.ports()


def test_no_network_named(cloud):
    assert "Multiple possible networks" in cloud.attach(400)
    del cloud.neutron.tables["networks"][cloud.second]
    assert cloud.attach()["net_id"] == cloud.network
    assert cloud.member.post(cloud.path, {})["interfaceAttachment"]["net_id"] == cloud.network
    cloud.neutron.tables["networks"].clear()
    assert "No specific network was requested" in cloud.attach(400)


@pytest.mark.parametrize(("status", "wanted"), [
    (404, {"net_id": NOWHERE}), (404, {"port_id": NOWHERE}), (400, {"net_id": NOWHERE, "port_id": NOWHERE}),
    (400, {"fixed_ips": [{"ip_address": "10.0.1.7"}]}), (400, {"net_id": "x"}), (400, {"net_id": NOWHERE, "colour": 1}),
    (400, {"net_id": NOWHERE, "fixed_ips": []}), (400, {"net_id": NOWHERE, "fixed_ips": [{"ip_address": "10.0.0"}]}),
    (400, {"net_id": NOWHERE, "fixed_ips": [{"ip_address": "10.0.1.7"}] * 2}), (400, {"net_id": NOWHERE, "tag": "a,b"})])
def test_what_is_wrong_with_a_request(cloud, status, wanted):
    before = cloud.nics()
    cloud.attach(status, **wanted)
    assert cloud.nics() == before
    assert cloud.last_action(cloud.server)["action"] == "create"


def test_tags(cloud):
    cloud.member.at("2.48").fault("POST", cloud.path, 400, {"interfaceAttachment": {"net_id": cloud.second, "tag": "t"}})
    assert "tag" not in cloud.member.at("2.49").post(cloud.path, {"interfaceAttachment": {"net_id": cloud.second, "tag": "t"}})[
        "interfaceAttachment"]
    assert "tag t is in use" in cloud.attach(400, net_id=cloud.second, tag="t")
    server = cloud.get(cloud.server)        # where the guest finds it is known to the metadata service
    assert server.device_addresses[next(vif.mac_address for vif in server.network_info if vif.tag)] == "0000:00:04.0"


def test_what_neutron_refuses_on_the_host_is_told_to_who_asked(cloud):
    small = cloud.neutron.add_network("small", "10.0.9.0/30")
    cloud.attach(net_id=small)
    assert "No fixed IP addresses available" in cloud.attach(400, net_id=small)
    cloud.neutron.port_quota = 0
    assert "Maximum number of ports" in cloud.attach(403, net_id=cloud.second)
    assert len(cloud.nics()) == len(cloud.ports()) == 2


@pytest.mark.parametrize(("values", "words"), [
    ({"vm_state": states.SUSPENDED}, "vm_state suspended"), ({"vm_state": states.ERROR}, "vm_state error"),
    ({"task_state": states.REBOOTING}, "task_state rebooting"), ({"locked": True}, "is locked"),
    ({"host": None}, "is not ready")])
def test_states_that_do_not_allow_it(cloud, values, words):
    [first] = cloud.nics()
    cloud.set(cloud.server, **values)
    assert words in cloud.attach(409, net_id=cloud.second)
    assert words in cloud.member.fault("DELETE", f"{cloud.path}/{first}", 409)
    cloud.set(cloud.server, vm_state=states.ACTIVE, task_state=None, locked=False, host="h1")
    assert cloud.nics() == [first]


@pytest.mark.parametrize("state", [states.PAUSED, states.STOPPED])
def test_states_that_do(cloud, state):
    cloud.set(cloud.server, vm_state=state)
    cloud.detach(cloud.attach(net_id=cloud.second)["port_id"])
    assert cloud.get(cloud.server).vm_state == state


def test_strangers(cloud):
    [first] = cloud.nics()
    for method, path in (("GET", cloud.path), ("GET", f"{cloud.path}/{first}"), ("DELETE", f"{cloud.path}/{first}")):
        cloud.other.fault(method, path, 404)
    cloud.other.fault("POST", cloud.path, 404, {"interfaceAttachment": {"net_id": cloud.network}})
    foreign = cloud.neutron.add_port(cloud.second, device_id="another-server")
    cloud.member.get(f"{cloud.path}/{foreign}", 404)
    cloud.member.fault("DELETE", f"{cloud.path}/{foreign}", 404)


# failures: nothing stays half attached ------------------------------------------------------------------------------------
@pytest.mark.parametrize("users_port", [False, True])
@pytest.mark.parametrize(("where", "method"), [("network", "attach"), ("network", "plug"), ("driver", "attach_interface")])
def test_a_step_fails(cloud, where, method, users_port):
    [first] = cloud.nics()
    port = cloud.neutron.add_port(cloud.second) if users_port else None
    broken = cloud.host_network if where == "network" else cloud.drivers["h1"]
    broken.fail(method, exception.DriverRefusal(what=method, reason="no more slots"), when="after")
    wanted = {"port_id": port} if users_port else {"net_id": cloud.second}
    assert "no more slots" in cloud.attach(500, **wanted)
    assert cloud.nics() == [first]
    assert cloud.ports() == {first}
    assert not users_port or port in cloud.neutron.ports
    assert cloud.get(cloud.server).vm_state == states.ACTIVE
    assert cloud.last_action(cloud.server)["message"].endswith(" failed: no more slots")
    cloud.attach(**wanted)


@pytest.mark.parametrize("users_port", [False, True])
@pytest.mark.parametrize(("where", "method"), [("network", "attach"), ("network", "plug"), ("driver", "attach_interface")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_host_dies_and_the_next_run_goes_on(cloud, where, method, when, users_port):
    [first] = cloud.nics()
    broken = cloud.host_network if where == "network" else cloud.drivers["h1"]
    broken.calls.clear()
    broken.fail(method, DIED, when=when)
    wanted = {"port_id": cloud.neutron.add_port(cloud.second)} if users_port else {"net_id": cloud.second}
    answers = []
    asking = threading.Thread(target=lambda: answers.append(cloud.attach(**wanted)))
    asking.start()
    cloud.wait_for(lambda: method in broken.calls and not cloud.hosts["h1"].leases.in_flight())
    cloud.take_over()
    asking.join(20)
    [shown] = answers
    assert cloud.nics() == [first, shown["port_id"]]
    assert cloud.ports() == {first, shown["port_id"]}


@pytest.mark.parametrize("users_port", [False, True])
@pytest.mark.parametrize(("where", "method"), [("network", "attach"), ("driver", "attach_interface")])
def test_a_delete_after_the_host_died_in_the_middle(cloud, where, method, users_port):
    cloud.services.compute.clock = FastClock(skips=3600.0)
    broken = cloud.host_network if where == "network" else cloud.drivers["h1"]
    broken.fail(method, DIED, when="after")
    port = cloud.neutron.add_port(cloud.second) if users_port else None
    message = cloud.attach(503, **({"port_id": port} if users_port else {"net_id": cloud.second}))
    assert "it may still do so" in message
    cloud.delete(cloud.server)
    assert set(cloud.neutron.ports) == ({port} if users_port else set())
    assert not users_port or cloud.neutron.ports[port]["device_id"] == ""


@pytest.mark.parametrize(("where", "method"), [("driver", "detach_interface"), ("network", "unplug"), ("network", "detach")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_detach_that_dies_is_done_by_the_next_run(cloud, where, method, when):
    [first] = cloud.nics()
    port = cloud.attach(net_id=cloud.second)["port_id"]
    broken = cloud.host_network if where == "network" else cloud.drivers["h1"]
    broken.fail(method, DIED, when=when)
    cloud.member.delete(f"{cloud.path}/{port}", 202)
    cloud.wait_for(lambda: method in broken.calls and not cloud.hosts["h1"].leases.in_flight())
    assert cloud.nics() == [first, port]
    cloud.take_over()
    cloud.actions_end(cloud.server)
    assert cloud.nics() == [first]
    assert cloud.ports() == {first}


def test_a_guest_that_does_not_let_go_keeps_its_nic(cloud):
    port = cloud.attach(net_id=cloud.second)["port_id"]
    cloud.drivers["h1"].fail("detach_interface", exception.DriverRefusal(what="detach", reason="no"))
    cloud.detach(port)
    assert port in cloud.nics()
    assert port in cloud.ports()
    cloud.detach(port)
    assert port not in cloud.ports()


def test_what_cannot_be_taken_back_stays_written_down(cloud):
    cloud.drivers["h1"].fail("attach_interface", exception.DriverRefusal(what="attach", reason="no"))
    cloud.host_network.fail("detach", DOWN, times=9)
    assert "taking it back failed, too" in cloud.attach(500, net_id=cloud.second)
    cloud.host_network.heal()
    [_, port] = cloud.nics()
    cloud.detach(port)
    assert port not in cloud.neutron.ports
    assert len(cloud.nics()) == 1


def test_bodies_at_random_are_never_our_fault(cloud):
    dice, port = random.Random(7), cloud.neutron.add_port(cloud.second)
    whole = {"interfaceAttachment": {"net_id": NOWHERE, "fixed_ips": [{"ip_address": "10.0.1.9"}], "tag": "t"}}
    for _ in range(150):
        body, value = copy.deepcopy(whole), dice.choice(VALUES)
        inner = body["interfaceAttachment"]
        place = dice.choice([body, inner, inner["fixed_ips"], inner["fixed_ips"][0]])
        key = 0 if isinstance(place, list) else dice.choice([*place, "port_id", "unknown"])
        place[key] = value if dice.randrange(4) else port
        answer = cloud.member.call("POST", cloud.path, body)
        assert 400 <= answer.status_code < 500, (body, answer.text)
