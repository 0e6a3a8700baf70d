"""Ports of servers that move, on a small Neutron on HTTP."""
import pytest

from nova_lite import exception
from nova_lite.objects.network import NetworkRequest
from tests.support.fake_neutron import Refused
from tests.unit.network.test_neutron import HOST, USER, _build, _server, driver, neutron

__all__ = ["driver", "neutron"]


def test_ports_of_a_moving_server_wait_on_both_hosts(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network(), tag="front")], host="old")
    [port] = neutron.of(server.uuid)
    for _ in range(2):
        [there] = driver.expect(HOST, server, "new")
        assert (there.id, there.type, there.tag, there.details["bridge"]) == (port["id"], "ovs", "front", "br-int")
        assert (port["binding:host_id"], port["waiting"]) == ("old", ["new"])
    for _ in range(2):
        driver.forget(HOST, server, "new")
        assert (port["binding:host_id"], port["waiting"]) == ("old", [])
    driver.expect(HOST, server, "new")
    for _ in range(2):
        [there] = driver.move(HOST, server, "new")
        assert (there.tag, there.network_name) == ("front", "private")
        assert (port["binding:host_id"], port["waiting"]) == ("new", [])
    driver.forget(HOST, server, "new")
    assert port["binding:host_id"] == "new"     # where the server is stays


@pytest.fixture
def leaving(driver, neutron):
    """A server on "old" with one nic, whose agent on "new" was told to wire it."""
    server = _build(driver, [NetworkRequest(neutron.add_network())], host="old")
    [port] = neutron.of(server.uuid)
    port["binding:profile"] = {"mine": "kept"}
    neutron.profiles.clear()
    assert [vif.active for vif in driver.expect(HOST, server, "new")] == [False]
    driver.announce(HOST, server, "new")
    assert neutron.profiles == [("old", {"mine": "kept", "migrating_to": "new"}, ["new"])]
    neutron.profiles.clear()
    return server


def test_an_agent_that_is_told_again_hears_a_change(driver, neutron, leaving):
    """And all the time that its port leaves: else the agent of its old host would wire it, and say so."""
    for number in (1, 2):
        driver.announce(HOST, leaving, "new")
        assert neutron.profiles[-1][1] == {"mine": "kept", "migrating_to": "new", "nova_lite_reminders": number}
    assert len(neutron.profiles) == 2
    driver.forget(HOST, leaving, "new")
    assert neutron.profiles[-1] == ("old", {"mine": "kept"}, [])


def test_agents_hear_of_a_port_that_has_come_when_its_old_binding_is_gone(driver, neutron, leaving):
    driver.move(HOST, leaving, "new")
    assert neutron.profiles[-1] == ("new", {"mine": "kept"}, [])


@pytest.mark.parametrize("cut", ["GET", "DELETE", "PUT"])
def test_agents_hear_of_a_port_that_has_come_also_when_its_move_was_cut_off(driver, neutron, leaving, cut):
    """Anywhere after the activation. And what its user has said of it is not lost."""
    [port] = neutron.of(leaving.uuid)

    def die(method, what):
        if method == cut and port["binding:host_id"] == "new":
            raise Refused(503, "", "the daemon is killed here")
    neutron.before = die
    with pytest.raises(exception.ServiceUnavailable):
        driver.move(HOST, leaving, "new")
    neutron.before = lambda method, what: None
    neutron.profiles.clear()
    driver.move(HOST, leaving, "new")       # as the end of a live migration does
    assert neutron.profiles == [("new", {"mine": "kept"}, [])]


def test_nothing_of_a_live_migration_stays_at_a_port_of_the_users(driver, neutron):
    """The server was deleted meanwhile: the next one with this port would wait for an agent that does not wire it."""
    mine = neutron.add_port(neutron.add_network(), **{"binding:profile": {"mine": "kept"}})
    server = _build(driver, [NetworkRequest(port_id=mine)], host="old")
    driver.expect(HOST, server, "new")
    driver.announce(HOST, server, "new")
    driver.deallocate(HOST, server)
    port = neutron.ports[mine]
    assert (port["binding:host_id"], port["waiting"], port["binding:profile"]) == ("", [], {"mine": "kept"})


@pytest.mark.parametrize("again", [False, True])
def test_a_port_of_the_users_that_an_old_server_has_left_on_its_way_is_wired_for_the_next(driver, neutron, again):
    mine = neutron.add_port(neutron.add_network(), **{"binding:profile": {"mine": "kept", "migrating_to": "new"}})
    wanted = driver.validate(USER, [NetworkRequest(port_id=mine)], 1).requests
    server = _server(wanted)
    if again:       # a run that was cut off has bound it
        neutron.ports[mine] |= {"device_id": server.uuid, "device_owner": "compute:east", "binding:host_id": "node"}
    driver.allocate(HOST, server, wanted, "node")
    assert (neutron.ports[mine]["binding:host_id"], neutron.ports[mine]["binding:profile"]) == ("node", {"mine": "kept"})


def test_no_profile_names_a_move_that_was_given_up(driver, neutron, leaving):
    for _ in range(2):
        driver.forget(HOST, leaving, "new")
        assert neutron.profiles == [("old", {"mine": "kept"}, [])]


@pytest.mark.parametrize("host", ["new", "third"])
def test_no_profile_names_a_move_that_was_cut_off_when_the_server_moves_by_other_means(driver, neutron, leaving, host):
    driver.move(HOST, leaving, host)
    [port] = neutron.of(leaving.uuid)
    assert port["binding:host_id"] == host
    assert "migrating_to" not in port["binding:profile"]


@pytest.fixture
def checked(driver, neutron):
    """A server on "old" with two nics, one of them a port of its user; the host "new" was killed in the middle of its check
    whether it can take the ports."""
    requests = [NetworkRequest(neutron.add_network()), NetworkRequest(port_id=neutron.add_port(neutron.add_network("two")))]
    server = _build(driver, requests, host="old")
    driver.expect(HOST, server, "new")
    assert [p["waiting"] for p in neutron.of(server.uuid)] == [["new"], ["new"]]
    return server


def _bound(neutron, server):
    return [(p["binding:host_id"], p["waiting"]) for p in neutron.of(server.uuid)]


def test_what_a_killed_check_has_left_is_gone_with_the_next_check(driver, neutron, checked):
    driver.expect(HOST, checked, "new")
    driver.forget(HOST, checked, "new")
    assert _bound(neutron, checked) == [("old", [])] * 2


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("cut_off", [False, True])
def test_what_a_killed_check_has_left_is_what_a_move_there_takes(driver, neutron, checked, is_live, cut_off):
    """Of whichever kind: live, cold, or an evacuation, and also when it is cut off before all of it is given back."""
    if is_live:
        driver.expect(HOST, checked, "new")
    if cut_off:
        def die(method, what):
            if method == "DELETE":
                raise Refused(503, "", "the daemon is killed here")
        neutron.before = die
        with pytest.raises(exception.ServiceUnavailable):
            driver.move(HOST, checked, "new")
        neutron.before = lambda method, what: None
    driver.move(HOST, checked, "new")
    driver.forget(HOST, checked, "old")         # as the end of a live migration does
    assert _bound(neutron, checked) == [("new", [])] * 2


@pytest.mark.parametrize("is_live", [True, False])
def test_what_a_killed_check_has_left_is_gone_with_a_move_elsewhere(driver, neutron, checked, is_live):
    if is_live:
        driver.expect(HOST, checked, "third")
    driver.move(HOST, checked, "third")
    assert _bound(neutron, checked) == [("third", [])] * 2


def test_what_a_killed_check_has_left_is_gone_when_the_server_is_brought_home(driver, neutron, checked):
    driver.move(HOST, checked, "old")
    assert _bound(neutron, checked) == [("old", [])] * 2


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_killed_check_has_left_is_in_the_way_of_no_later_server(driver, neutron, checked, whole):
    """Its user's port is there for a server that is built where the check was."""
    mine = checked.network_info[1].id
    if whole:
        driver.deallocate(HOST, checked)
    else:
        driver.detach(HOST, checked, checked.network_info[1])
    assert (neutron.ports[mine]["binding:host_id"], neutron.ports[mine]["waiting"]) == ("", [])
    later = _build(driver, [NetworkRequest(port_id=mine)], host="new")
    assert _bound(neutron, later) == [("new", [])]


def test_a_port_of_a_user_that_says_it_is_no_servers_is_given_back(driver, neutron, checked):
    """Neutron knows bindings of servers' ports only."""
    neutron.ports[checked.network_info[1].id] |= {"device_owner": "nobody's", "waiting": []}
    driver.deallocate(HOST, checked)
    assert neutron.ports[checked.network_info[1].id]["device_id"] == ""


def test_floating_ips_of_a_moving_server_are_those_of_now(driver, neutron):
    """Its host was not told of those that came meanwhile: it was busy, or dead."""
    server = _build(driver, [NetworkRequest(neutron.add_network())], host="old")
    [vif] = server.network_info
    neutron.add_floating_ip(vif.id, vif.fixed_ips[0].address, "203.0.113.5")
    for moved in (driver.expect, driver.move):
        assert moved(HOST, server, "new")[0].fixed_ips[0].floating_ips == ["203.0.113.5"]


def test_a_server_that_was_not_expected_moves_all_the_same(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network())], host="old")
    driver.move(HOST, server, "new")
    [port] = neutron.of(server.uuid)
    assert port["binding:host_id"] == "new"


def test_a_host_without_the_network_is_told_before_the_move(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network())], host="old")
    [port] = neutron.of(server.uuid)
    with pytest.raises(exception.VirtDriverError, match="deaf"):
        driver.expect(HOST, server, "deaf")
    assert (port["binding:host_id"], port["waiting"]) == ("old", [])


def test_a_port_that_is_deleted_in_that_moment_is_gone(driver, neutron):
    network = neutron.add_network()
    server = _build(driver, [NetworkRequest(network), NetworkRequest(network)], host="old")
    stays, goes = (vif.id for vif in server.network_info)

    def delete(method, what):
        if method == "PUT":
            neutron.ports.pop(goes, None)
    neutron.before = delete
    assert [vif.id for vif in driver.move(HOST, server, "new")] == [stays]


def test_a_binding_that_failed_is_tried_again(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network())], host="old")
    [port] = neutron.of(server.uuid)
    port["binding:vif_type"] = "binding_failed"
    assert [vif.type for vif in driver.move(HOST, server, "old")] == ["ovs"]
    assert port["binding:host_id"] == "old"
