"""The Neutron driver against a small Neutron on HTTP."""
import uuid

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron import NeutronNetwork
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import NetworkRequest
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused

USER = RequestContext(user_id="u", project_id="p", roles=["member"], auth_token="user:p", overwrite=False)
HOST = RequestContext(user_id="u", project_id="p", roles=["member"], overwrite=False)      # tokens do not travel
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        yield fake


@pytest.fixture
def driver(neutron, tmp_path):
    file = tmp_path / "nova-lite.conf"
    file.write_text(CREDENTIALS.format(url=neutron.url))
    return NeutronNetwork(nova_conf.load([], config_files=[str(file)], service_user__retries=0), None)


def _server(wanted, **values):
    requests = wanted if wanted is None or isinstance(wanted, str) else [r.to_primitive() for r in wanted]
    return Instance(**{"uuid": str(uuid.uuid4()), "project_id": "p", "user_id": "u", "display_name": "s", "hostname": "web-1",
                       "flavor": Flavor("1", "tiny", 64, 1, 1), "network_request": requests, "availability_zone": "east",
                       **values})


def _build(driver, requests, host="node", groups=("default",), **values):
    """What the API and then a host do; the server with its nics."""
    wanted = driver.validate(USER, requests, 1, groups)
    server = _server(wanted.requests, **values)
    server.network_info = driver.allocate(HOST, server, wanted.requests, host)
    return server


# the price ------------------------------------------------------------------------------------------------------------
def test_a_build_with_one_port_costs_four_calls(driver, neutron):
    network = neutron.add_network()
    for requests in ([NetworkRequest(network)], None, "auto"):
        neutron.calls.clear()
        _build(driver, requests)
        assert neutron.calls == ["GET networks", "GET ports", "POST ports", "GET subnets"]


def test_so_does_one_with_a_port_of_the_users(driver, neutron):
    port = neutron.add_port(neutron.add_network())
    neutron.calls.clear()
    _build(driver, [NetworkRequest(port_id=port)])
    assert neutron.calls == ["GET ports", "GET networks", "GET security-groups", "PUT ports", "GET subnets"]


def test_many_nics_cost_no_more(driver, neutron):
    networks = [neutron.add_network(f"n{n}", f"10.0.{n}.0/24") for n in range(4)]
    server = _build(driver, [NetworkRequest(n) for n in networks])
    assert len(neutron.calls) == 4
    assert [v.network_name for v in server.network_info] == ["n0", "n1", "n2", "n3"]


# what the user asks -----------------------------------------------------------------------------------------------------
def test_a_request_comes_back_with_what_the_host_needs_to_know(driver, neutron):
    network = neutron.add_network(dns_domain="")
    [request] = driver.validate(USER, [NetworkRequest(network, tag="front")], 1).requests
    assert (request.network_id, request.network_name, request.mtu, request.dns, request.tag) == (
        network, "private", 1450, True, "front")


@pytest.mark.parametrize(("requests", "left"), [("none", "none"), (None, "none")])
def test_a_project_without_networks_gets_servers_without_nics(driver, neutron, requests, left):
    neutron.add_network(project_id="other")
    assert driver.validate(USER, requests, 1).requests == left


def test_of_several_networks_one_has_to_be_named(driver, neutron):
    neutron.add_network("one")
    neutron.add_network("two", project_id="other", shared=True)
    for requests in (None, "auto"):
        with pytest.raises(exception.NetworkAmbiguous):
            driver.validate(USER, requests, 1)


def test_an_external_network_is_not_meant_by_none_named(driver, neutron):
    mine = neutron.add_network("mine")
    neutron.add_network("public", project_id="admin", **{"router:external": True})
    assert [r.network_id for r in driver.validate(USER, None, 1).requests] == [mine]


def test_auto_without_a_network_is_neutrons_own_topology(driver, neutron):
    with pytest.raises(exception.UnableToAutoAllocateNetwork, match=r"project p .*No default router:external network"):
        driver.validate(USER, "auto", 1)
    neutron.auto_network = neutron.add_network("auto", project_id="elsewhere")
    server = _build(driver, "auto")
    assert [v.network_name for v in server.network_info] == ["auto"]


@pytest.mark.parametrize(("network", "error"), [
    ({"project_id": "other"}, exception.NetworkNotFound),
    ({"cidr": None}, exception.NetworkRequiresSubnet),
    ({"project_id": "admin", "router:external": True}, exception.ExternalNetworkAttachForbidden)])
def test_networks_that_cannot_be_had(driver, neutron, network, error):
    made = neutron.add_network(**network)
    with pytest.raises(error, match=made):
        driver.validate(USER, [NetworkRequest(made)], 1)


def test_policy_opens_external_networks(driver, neutron):
    made = neutron.add_network(project_id="admin", **{"router:external": True})
    assert driver.validate(USER, [NetworkRequest(made)], 1, may_use_external=True).requests[0].network_id == made


@pytest.mark.parametrize(("port", "error", "words"), [
    ({"device_id": "somebody"}, exception.PortInUse, "in use"),
    ({"project_id": "other"}, exception.PortNotUsable, "not usable for instance of project p"),
    ({"binding:vnic_type": "direct"}, exception.UnsupportedNetworkRequest, "VNIC type direct: SR-IOV"),
    ({"binding:vnic_type": "macvtap"}, exception.UnsupportedNetworkRequest, "macvtap"),
    ({"qos_policy_id": "q", "resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}},
     exception.UnsupportedNetworkRequest, "bandwidth"),
    ({"device_profile": "fpga"}, exception.UnsupportedNetworkRequest, "has device_profile"),
    ({"numa_affinity_policy": "required"}, exception.UnsupportedNetworkRequest, "has numa_affinity_policy"),
    ({"numa_affinity_policy": "socket"}, exception.UnsupportedNetworkRequest, "has numa_affinity_policy"),
    ({"trusted": True}, exception.UnsupportedNetworkRequest, "has trusted"),
    ({"binding:profile": {"trusted": "true"}}, exception.UnsupportedNetworkRequest, "has trusted"),
    ({"hardware_offload_type": "switchdev"}, exception.UnsupportedNetworkRequest, "has hardware_offload_type"),
    ({"fixed_ips": []}, exception.PortRequiresFixedIP, "requires a FixedIP")])
def test_ports_that_cannot_be_had(driver, neutron, port, error, words):
    made = neutron.add_port(neutron.add_network(), **port)
    with pytest.raises(error, match=words) as caught:
        driver.validate(USER, [NetworkRequest(port_id=made)], 1)
    assert made in caught.value.message
    assert caught.value.code in (400, 404, 409)


@pytest.mark.parametrize("port", [
    {"numa_affinity_policy": "preferred"}, {"numa_affinity_policy": "legacy"}, {"numa_affinity_policy": None},
    {"trusted": False}, {"trusted": None}, {"device_profile": None}, {"binding:profile": {}},
    {"hints": {"openvswitch": {"other_config": {"tx-steering": "hash"}}}}])
def test_ports_that_ask_for_nothing_of_a_device(driver, neutron, port):
    made = neutron.add_port(neutron.add_network(), **port)
    [request] = driver.validate(USER, [NetworkRequest(port_id=made)], 1).requests
    assert request.port_id == made


def test_an_admin_gives_a_server_ports_of_its_project_only(driver, neutron):
    admin = RequestContext(user_id="a", project_id="a", is_admin=True, auth_token="admin", overwrite=False)
    network = neutron.add_network()
    server, mine, theirs = _server(None), neutron.add_port(network), neutron.add_port(network, project_id="a")
    [request] = driver.validate(admin, [NetworkRequest(port_id=mine)], 1, server=server).requests
    assert request.port_id == mine
    with pytest.raises(exception.PortNotUsable, match=f"Port {theirs} not usable for instance {server.uuid}"):
        driver.validate(admin, [NetworkRequest(port_id=theirs)], 1, server=server)
    with pytest.raises(exception.PortNotUsable):       # of a new one, which is the admin's own
        driver.validate(admin, [NetworkRequest(port_id=mine)], 1)
    neutron.add_network("theirs", project_id="a")
    assert driver.validate(admin, None, 1, server=server).requests[0].network_id == network


@pytest.mark.parametrize("revision", [None, 1])
def test_a_host_takes_no_port_of_another_project(driver, neutron, revision):
    network = neutron.add_network()
    port = neutron.add_port(network, project_id="other")
    request = NetworkRequest(network, port, revision=revision)
    server = _server([request])
    with pytest.raises(exception.PortNotUsable):
        driver.allocate(HOST, server, [request], "node")
    with pytest.raises(exception.PortNotUsable):
        driver.attach(HOST, server, request, "node")
    assert (neutron.ports[port]["device_id"], neutron.ports[port]["binding:host_id"]) == ("", "")


def test_unknown_ports_and_networks(driver, neutron):
    with pytest.raises(exception.PortNotFound, match=NOWHERE):
        driver.validate(USER, [NetworkRequest(port_id=NOWHERE)], 1)
    with pytest.raises(exception.NetworkNotFound, match=NOWHERE):
        driver.validate(USER, [NetworkRequest(NOWHERE)], 1)
    with pytest.raises(exception.InvalidInput, match="neither auto nor none"):
        driver.validate(USER, "some", 1)


def test_a_fixed_address_in_use_is_told_at_once(driver, neutron):
    network = neutron.add_network()
    neutron.add_port(network, fixed_ips=[{"ip_address": "10.0.0.7"}])
    with pytest.raises(exception.FixedIpAlreadyInUse, match=r"10\.0\.0\.7"):
        driver.validate(USER, [NetworkRequest(network, address="10.0.0.7")], 1)


def test_security_groups_are_found_by_name_and_by_id(driver, neutron):
    network, web, db = neutron.add_network(), neutron.add_group("web"), neutron.add_group("db")
    neutron.add_group("web", project_id="other")
    wanted = driver.validate(USER, [NetworkRequest(network)], 1, ("web", db))
    assert wanted.security_groups == ["web", "db"]
    server = _build(driver, [NetworkRequest(network)], groups=("web", db))
    assert neutron.of(server.uuid)[0]["security_groups"] == [web, db]


def test_security_groups_that_are_not_one(driver, neutron):
    network = neutron.add_network()
    neutron.add_group("twice")
    neutron.add_group("twice")
    neutron.add_group("theirs", project_id="other")
    with pytest.raises(exception.SecurityGroupAmbiguous):
        driver.validate(USER, [NetworkRequest(network)], 1, ("twice",))
    for name in ("theirs", "nobodys"):
        with pytest.raises(exception.SecurityGroupNotFound, match=name):
            driver.validate(USER, [NetworkRequest(network)], 1, (name,))
        with pytest.raises(exception.SecurityGroupNotFound, match=name):
            driver.validate(USER, "none", 1, (name,))


def test_groups_need_a_network_that_takes_them(driver, neutron):
    network = neutron.add_network(port_security_enabled=False)
    neutron.add_group("web")
    with pytest.raises(exception.SecurityGroupCannotBeApplied):
        driver.validate(USER, [NetworkRequest(network)], 1, ("web",))
    _build(driver, [NetworkRequest(network)])


# what a host does -------------------------------------------------------------------------------------------------------
def test_a_new_port_is_the_servers_and_bound(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network(dns_domain=""), address="10.0.0.9", tag="front")])
    [port] = neutron.of(server.uuid)
    assert (port["device_owner"], port["binding:host_id"], port["project_id"], port["dns_name"]) == (
        "compute:east", "node", "p", "web-1")
    [vif] = server.network_info
    assert (vif.id, vif.mac_address, vif.type, vif.details["bridge"], vif.mtu, vif.tag) == (
        port["id"], port["mac_address"], "ovs", "br-int", 1450, "front")
    assert not vif.active
    assert not vif.preserve_on_delete
    [address] = vif.fixed_ips
    assert (address.address, address.version, address.cidr, address.gateway, address.dns, address.dhcp) == (
        "10.0.0.9", 4, "10.0.0.0/24", "10.0.0.1", ["9.9.9.9"], True)
    assert address.routes == [{"cidr": "192.0.2.0/24", "gateway": "10.0.0.2"}]


def test_a_network_may_have_both_kinds_of_addresses(driver, neutron):
    network = neutron.add_network()
    neutron.add_subnet(network, "fd00::/64", enable_dhcp=False, ipv6_address_mode="slaac")
    [vif] = _build(driver, [NetworkRequest(network)]).network_info
    assert [(a.version, a.dhcp, a.ipv6_address_mode) for a in vif.fixed_ips] == [(4, True, None), (6, False, "slaac")]


def test_run_again_it_gives_the_same_ports(driver, neutron):
    network, other = neutron.add_network(), neutron.add_network("other", "10.1.0.0/24")
    requests = [NetworkRequest(network), NetworkRequest(other), NetworkRequest(network)]
    server = _build(driver, requests)
    wanted = driver.validate(USER, requests, 1).requests
    first, server.network_info = server.network_info, []        # the daemon died before it wrote them down
    assert driver.allocate(HOST, server, wanted, "node") == first
    assert len(neutron.ports) == 3


def test_half_of_the_ports_are_completed(driver, neutron):
    network, other = neutron.add_network(), neutron.add_network("other", "10.1.0.0/24")
    server = _build(driver, [NetworkRequest(network), NetworkRequest(other)])
    first = server.network_info
    del neutron.ports[first[0].id]
    again = driver.allocate(HOST, server, driver.validate(USER, [NetworkRequest(network), NetworkRequest(other)], 1).requests,
                            "node")
    assert again[0].id != first[0].id
    assert again[1] == first[1]


def test_on_another_host_the_ports_are_bound_anew(driver, neutron):
    requests = [NetworkRequest(neutron.add_network()), NetworkRequest(port_id=neutron.add_port(neutron.add_network("two")))]
    server = _build(driver, requests)
    vifs = driver.allocate(HOST, server, [NetworkRequest.from_primitive(r) for r in server.network_request], "node2")
    assert [v.id for v in vifs] == [v.id for v in server.network_info]
    assert {p["binding:host_id"] for p in neutron.ports.values()} == {"node2"}


def test_a_port_of_the_users_is_bound_and_given_back(driver, neutron):
    port = neutron.add_port(neutron.add_network())
    server = _build(driver, [NetworkRequest(port_id=port)])
    assert server.network_info[0].preserve_on_delete
    assert neutron.ports[port]["device_id"] == server.uuid
    again = driver.allocate(HOST, server, [NetworkRequest.from_primitive(r) for r in server.network_request], "node")
    assert again == server.network_info
    driver.deallocate(HOST, server)
    back = neutron.ports[port]
    assert (back["device_id"], back["device_owner"], back["binding:host_id"]) == ("", "", "")


def test_of_two_servers_one_gets_the_port(driver, neutron):
    port = neutron.add_port(neutron.add_network())
    wanted = driver.validate(USER, [NetworkRequest(port_id=port)], 1).requests
    first, second = _server(wanted), _server(wanted)
    driver.allocate(HOST, first, wanted, "node")
    with pytest.raises(exception.PortInUse, match=port):
        driver.allocate(HOST, second, wanted, "node")
    driver.deallocate(HOST, second)
    assert neutron.ports[port]["device_id"] == first.uuid


def test_a_port_that_somebody_changed_is_looked_at_again(driver, neutron):
    port = neutron.add_port(neutron.add_network())
    wanted = driver.validate(USER, [NetworkRequest(port_id=port)], 1).requests
    neutron.ports[port]["revision_number"] += 1
    assert driver.allocate(HOST, _server(wanted), wanted, "node")[0].id == port


def test_deallocate_leaves_nothing_of_ours_and_all_of_others(driver, neutron):
    network = neutron.add_network()
    server = _build(driver, [NetworkRequest(network), NetworkRequest(network)])
    stranger = neutron.add_port(network, project_id="other", device_id=server.uuid)
    driver.deallocate(HOST, server)
    assert list(neutron.ports) == [stranger]
    driver.deallocate(HOST, server)


def test_one_port_that_cannot_be_deleted_does_not_keep_the_others(driver, neutron):
    network = neutron.add_network()
    server = _build(driver, [NetworkRequest(network), NetworkRequest(network)])
    failures = iter([True])

    def refuse(method, what):
        if method == "DELETE" and next(failures, False):
            raise Refused(409, "PortInUse", "a trunk uses it")
    neutron.before = refuse
    with pytest.raises(exception.NovaLiteError, match="a trunk uses it"):
        driver.deallocate(HOST, server)
    assert len(neutron.ports) == 1


# what Neutron refuses ---------------------------------------------------------------------------------------------------
def test_no_more_addresses(driver, neutron):
    network = neutron.add_network(cidr="10.0.0.0/30")
    _build(driver, [NetworkRequest(network)])
    with pytest.raises(exception.NoMoreFixedIps, match=f"network: {network} .Neutron: No more IP addresses"):
        _build(driver, [NetworkRequest(network)])


def test_too_many_ports(driver, neutron):
    neutron.port_quota = 1
    with pytest.raises(exception.PortLimitExceeded, match="Maximum number of ports exceeded .Neutron: Quota exceeded"):
        _build(driver, [NetworkRequest(n) for n in [neutron.add_network()] * 2])
    assert not neutron.ports


def test_an_address_of_another_network(driver, neutron):
    with pytest.raises(exception.InvalidInput, match=r"Fixed IP 172\.16\.0\.1 is not a valid ip address for network"):
        _build(driver, [NetworkRequest(neutron.add_network(), address="172.16.0.1")])


def test_a_host_without_an_agent_is_no_fault_of_the_request(driver, neutron):
    with pytest.raises(exception.BuildFailed, match="Binding failed for port .* on host deaf") as caught:
        _build(driver, [NetworkRequest(neutron.add_network())], host="deaf")
    assert not isinstance(caught.value, exception.BuildAborted)


@pytest.mark.parametrize(("status", "error"), [(500, exception.ServiceUnavailable), (503, exception.ServiceUnavailable)])
def test_a_broken_neutron_has_a_name(driver, neutron, status, error):
    network = neutron.add_network()

    def break_down(method, what):
        raise Refused(status, "HTTPInternalServerError", "out of order")
    neutron.before = break_down
    with pytest.raises(error, match="Neutron is unavailable: .*out of order"):
        driver.validate(USER, [NetworkRequest(network)], 1)


def test_what_neutron_says_is_passed_on(driver, neutron):
    network = neutron.add_network()
    neutron.before = lambda method, what: _refuse(400, "Odd", "no such thing as a field")
    with pytest.raises(exception.NovaLiteError, match="Neutron answered 400: no such thing as a field") as caught:
        driver.validate(USER, [NetworkRequest(network)], 1)
    assert caught.value.code == 400


def _refuse(*arguments):
    raise Refused(*arguments)


# afterwards -------------------------------------------------------------------------------------------------------------
def test_refresh_sees_what_changed(driver, neutron):
    network = neutron.add_network()
    server = _build(driver, [NetworkRequest(network, tag="a"), NetworkRequest(network), NetworkRequest(
        port_id=neutron.add_port(network))])
    kept, gone, mine = server.network_info
    neutron.ports[kept.id]["status"] = "ACTIVE"
    neutron.add_floating_ip(kept.id, kept.fixed_ips[0].address, "203.0.113.5")
    del neutron.ports[gone.id]
    neutron.add_port(network, device_id=server.uuid, project_id="other")        # nobody gave the server this one
    fresh = driver.refresh(HOST, server)
    assert [v.id for v in fresh] == [kept.id, mine.id]
    assert (fresh[0].active, fresh[0].fixed_ips[0].floating_ips, fresh[0].tag, fresh[0].network_name) == (
        True, ["203.0.113.5"], "a", "private")
    assert fresh[1].preserve_on_delete


def test_a_neutron_that_gives_little_at_once_is_asked_for_the_rest(driver, neutron):
    networks = [neutron.add_network(f"n{n}", f"10.0.{n}.0/24") for n in range(4)]
    neutron.most_at_once = 2
    assert {n["id"] for n in driver.list_networks(USER)} == set(networks)
    servers = [_build(driver, [NetworkRequest(n) for n in networks]) for _ in range(2)]
    assert all(len(driver.refresh(HOST, server)) == 4 for server in servers)
    assert {server: len(ports) for server, ports in driver.host_ports(HOST, "node").items()} == {s.uuid: 4 for s in servers}
    assert driver.servers_with_ports(HOST, [s.uuid for s in servers]) == {s.uuid for s in servers}


def test_states_of_ports(driver, neutron):
    server = _build(driver, [NetworkRequest(neutron.add_network())])
    [vif] = server.network_info
    assert driver.port_states(HOST, [vif.id, NOWHERE]) == {vif.id: "DOWN"}


def test_nobody_waits_for_a_port_that_is_switched_off(driver, neutron):
    port = neutron.add_port(neutron.add_network(), admin_state_up=False)
    assert _build(driver, [NetworkRequest(port_id=port)]).network_info[0].active


def test_networks_for_old_clients(driver, neutron):
    network = neutron.add_network()
    assert driver.list_networks(USER) == [{"id": network, "label": "private", "cidr": None}]
