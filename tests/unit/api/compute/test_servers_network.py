"""Servers at the API when their network is Neutron: what is asked of it, what is kept, and when it is left in peace."""
import uuid

import pytest

from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        yield fake


@pytest.fixture
def options():
    return {"network__driver": "neutron", "service_user__retries": 0}


@pytest.fixture
def servers(neutron, cloud, tmp_path):
    with (tmp_path / "nova-lite.conf").open("a") as file:
        file.write(CREDENTIALS.format(url=neutron.url))
    return Servers(cloud)


@pytest.fixture
def user(cloud):
    """Whose token the small Neutron takes for one of project1."""
    return cloud.client("user", "project1", version="2.90")


def test_a_creation_asks_once_and_keeps_what_it_learned(servers, neutron, user):
    network = neutron.add_network(project_id="project1")
    for wanted in ([{"uuid": network, "tag": "front"}], "auto"):
        neutron.calls.clear()
        server = user.post("/servers", servers.body(networks=wanted), 202)["server"]["id"]
        assert neutron.calls == ["GET networks"]
        [request] = servers.row(server)["network_request"]
        assert (request["network_id"], request["network_name"], request["mtu"]) == (network, "private", 1450)
    user.post("/servers", servers.body(networks="none"), 202)
    assert neutron.calls == ["GET networks"]


def _shown_groups(user, server):
    """The names that show and the list of details agree on; None: neither has the key."""
    one = user.get(f"/servers/{server}")["server"]
    [listed] = [s for s in user.get("/servers/detail")["servers"] if s["id"] == server]
    found, missing = one.get("security_groups"), [{"name": "there is no such key"}]
    assert one.get("security_groups", missing) == listed.get("security_groups", missing)
    return None if found is None else [group["name"] for group in found]


def test_security_groups_are_the_requests_until_there_are_ports(servers, neutron, user):
    """The answer says what the request said. Views have none of a server without ports, then those of the ports, by name."""
    network, group = neutron.add_network(project_id="project1"), neutron.add_group("web", "project1")
    body = servers.body(networks=[{"uuid": network}], security_groups=[{"name": group}, {"name": group}, {}])
    created = user.post("/servers", body, 202)["server"]
    assert created["security_groups"] == [{"name": group}, {"name": group}, {}]
    assert servers.row(created["id"])["network_request"][0]["security_groups"] == [group]
    assert _shown_groups(user, created["id"]) is None
    servers.set(created["id"], network_info=[servers.vif()])
    assert _shown_groups(user, created["id"]) == ["web"]
    assert user.put(f"/servers/{created['id']}", {"server": {"name": "b"}})["server"]["security_groups"] == [{"name": "web"}]
    servers.set(created["id"], vm_state="error", network_info=[])
    assert _shown_groups(user, created["id"]) is None


def test_security_groups_of_a_request_that_names_none(servers, neutron, user):
    network = neutron.add_network(project_id="project1")
    created = user.post("/servers", servers.body(networks=[{"uuid": network}]), 202)["server"]
    assert created["security_groups"] == [{"name": "default"}]
    servers.set(created["id"], network_info=[servers.vif()])
    assert _shown_groups(user, created["id"]) == ["default"]
    created = user.post("/servers", servers.body(networks="none", security_groups=[]), 202)["server"]
    assert created["security_groups"] == []
    servers.set(created["id"], vm_state="active", task_state=None)
    assert _shown_groups(user, created["id"]) is None


def test_security_groups_of_the_users_ports_are_shown(servers, neutron, user):
    network, group = neutron.add_network(project_id="project1"), neutron.add_group("web", "project1")
    open_network = neutron.add_network("open", project_id="project1", port_security_enabled=False)
    theirs, bare = (neutron.add_port(network, project_id="project1", security_groups=some) for some in ([group], []))
    for wanted, shown in (([{"port": theirs}], ["web"]), ([{"port": bare}], None), ([{"uuid": open_network}], None),
                          ([{"uuid": network}, {"port": theirs}], ["default", "web"])):
        server = user.post("/servers", servers.body(networks=wanted), 202)["server"]["id"]
        servers.set(server, network_info=[servers.vif()])
        assert _shown_groups(user, server) == shown


@pytest.mark.parametrize(("network", "port", "status", "words"), [
    ({"project_id": "other"}, None, 400, "could not be found"),
    ({"cidr": None}, None, 400, "requires a subnet in order to boot instances on"),
    ({"project_id": "other", "router:external": True}, None, 403, "not allowed to create an interface on external network"),
    ({}, {"device_id": str(uuid.uuid4())}, 409, "still in use"),
    ({}, {"project_id": "other"}, 400, "not usable for instance"),
    ({}, {"binding:vnic_type": "direct"}, 400, "SR-IOV")])
def test_what_is_refused(servers, neutron, user, network, port, status, words):
    network_id = neutron.add_network(**{"project_id": "project1", **network})
    wanted = {"uuid": network_id} if port is None else {
        "port": neutron.add_port(network_id, **{"project_id": "project1", **port})}
    message = user.fault("POST", "/servers", status, servers.body(networks=[wanted]))
    assert words in message
    assert next(iter(wanted.values())) in message


def test_an_admin_may_use_external_networks(servers, neutron, cloud):
    network = neutron.add_network(project_id="other", **{"router:external": True})
    admin = cloud.client("admin", "admin", ("admin",), version="2.90")
    admin.post("/servers", servers.body(networks=[{"uuid": network}]), 202)


def test_one_of_several_networks_has_to_be_named(servers, neutron, user):
    for name in ("one", "two"):
        neutron.add_network(name, project_id="project1")
    assert "Multiple possible networks" in user.fault("POST", "/servers", 409, servers.body(networks="auto"))


def test_a_neutron_that_is_out_of_order_is_named(servers, neutron, user):
    network = neutron.add_network(project_id="project1")

    def break_down(method, what):
        raise Refused(500, "Oops", "out of order")
    neutron.before = break_down
    assert "Neutron is unavailable" in user.fault("POST", "/servers", 503, servers.body(networks=[{"uuid": network}]))


def test_views_of_servers_ask_nothing(servers, neutron, cloud, user):
    found = [cloud.add_server(network_info=[servers.vif()]) for _ in range(100)]
    shown = user.get("/servers/detail")["servers"]
    assert len(shown) == 100
    assert all(s["addresses"]["private"][0]["addr"] == "192.0.2.5" for s in shown)
    user.get(f"/servers/{found[0]}")
    user.get(f"/servers/{found[0]}/ips")
    assert neutron.calls == []
