"""Floating IPs: the proxies until 2.35 and the actions until 2.43, by a small Neutron on HTTP and by the embedded network."""
import pytest

from nova_lite import conf as nova_conf
from nova_lite.network.neutron import NeutronNetwork
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.unit.api.compute.conftest import assert_like_sample
from tests.unit.api.compute.server_support import Servers

UNKNOWN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def neutron(cloud, monkeypatch, tmp_path):
    """The API asks a Neutron, where there is an external network; every caller is project "service" there."""
    with FakeNeutron() as fake:
        file = tmp_path / "neutron.conf"
        file.write_text(CREDENTIALS.format(url=fake.url))
        driver = NeutronNetwork(nova_conf.load([], config_files=[str(file)], service_user__retries=0), None)
        monkeypatch.setattr(cloud.services.network, "floating_ips", driver.floating_ips)
        fake.public = fake.add_network("public", "203.0.113.0/24", "admin", **{"router:external": True})
        yield fake


@pytest.fixture
def service(cloud):
    """A caller of the project that Neutron takes everybody for."""
    return cloud.client(project="service")


@pytest.fixture
def server(servers, neutron, service):
    """A server with a port in Neutron and two addresses."""
    made = servers.active(service)
    port = neutron.add_port(neutron.add_network(), "service", device_id=made)
    vif = {**servers.vif("2001:db8::5"), "id": port}
    vif["fixed_ips"] += servers.vif("192.0.2.5")["fixed_ips"]
    servers.set(made, network_info=[vif])
    return made


def test_proxies(neutron, service):
    assert service.get("/os-floating-ips") == {"floating_ips": []}
    assert service.get("/os-floating-ip-pools") == {"floating_ip_pools": [{"name": "public"}]}
    made = service.post("/os-floating-ips", {"pool": "public"})
    assert_like_sample(made, "os-floating-ips/floating-ips-create-resp", "2.1")
    assert made["floating_ip"] == {"id": made["floating_ip"]["id"], "ip": "203.0.113.1", "fixed_ip": None, "instance_id": None,
                                   "pool": "public"}
    path = f"/os-floating-ips/{made['floating_ip']['id']}"
    assert service.get(path) == made
    second = service.post("/os-floating-ips", {"pool": neutron.public})["floating_ip"]
    third = service.post("/os-floating-ips", {})["floating_ip"]
    listed = service.get("/os-floating-ips")
    assert_like_sample(listed, "os-floating-ips/floating-ips-list-resp", "2.1")
    assert [one["id"] for one in listed["floating_ips"]] == [made["floating_ip"]["id"], second["id"], third["id"]]
    service.delete(path, 202)
    service.get(path, 404)


def test_refusals(neutron, service):
    assert "pool not found" in service.fault("POST", "/os-floating-ips", 404, {"pool": "nowhere"})
    service.post("/os-floating-ips", {"pool": 5}, 400)
    for method in ("GET", "DELETE"):
        service.ask(method, "/os-floating-ips/x", None, 400)
        service.ask(method, f"/os-floating-ips/{UNKNOWN}", None, 404)
    neutron.floating_quota = 0
    service.post("/os-floating-ips", {"pool": "public"}, 403)
    neutron.add_network("other", "198.51.100.0/24", "admin", **{"router:external": True})
    assert "several" in service.fault("POST", "/os-floating-ips", 404, {})


def floating_of(servers, server):
    return [fixed["floating_ips"] for vif in servers.row(server)["network_info"] for fixed in vif["fixed_ips"]]


def test_actions(servers, server, neutron, service):
    address = service.post("/os-floating-ips", {"pool": "public"})["floating_ip"]["ip"]
    path, body = f"/servers/{server}/action", {"addFloatingIp": {"address": address}}
    assert service.post(path, body, 202) is None
    [listed] = service.get("/os-floating-ips")["floating_ips"]
    assert (listed["fixed_ip"], listed["instance_id"]) == ("192.0.2.5", server)
    assert floating_of(servers, server) == [[], [address]]
    shown = service.get(f"/servers/{server}")["server"]["addresses"]["private"]
    assert [one["addr"] for one in shown if one["OS-EXT-IPS:type"] == "floating"] == [address]
    service.post(path, {"addFloatingIp": {"address": address, "fixed_address": "2001:db8::5"}}, 202)
    assert floating_of(servers, server) == [[address], []]
    service.post(path, {"removeFloatingIp": {"address": address}}, 202)
    assert floating_of(servers, server) == [[], []]
    assert service.get("/os-floating-ips")["floating_ips"][0]["fixed_ip"] is None
    service.post(path, {"removeFloatingIp": {"address": address}}, 409)


def test_deleting_one_takes_it_from_its_server(servers, server, neutron, service):
    made = service.post("/os-floating-ips", {"pool": "public"})["floating_ip"]
    service.post(f"/servers/{server}/action", {"addFloatingIp": {"address": made["ip"]}}, 202)
    service.delete(f"/os-floating-ips/{made['id']}", 202)
    assert floating_of(servers, server) == [[], []]


def test_actions_that_are_refused(servers, server, cloud, neutron, service, member):
    path = f"/servers/{server}/action"
    address = service.post("/os-floating-ips", {"pool": "public"})["floating_ip"]["ip"]
    for action in ("addFloatingIp", "removeFloatingIp"):
        assert service.fault("POST", path, 404, {action: {"address": "198.51.100.9"}}) == "floating IP not found: 198.51.100.9"
        for argument in (None, {}, {"address": "x"}, {"address": address, "y": 1}):
            service.post(path, {action: argument}, 400)
        member.post(path, {action: {"address": address}}, 404)
        cloud.client(project="service", roles=("reader",)).post(path, {action: {"address": address}}, 403)
        service.at("2.44").post(path, {action: {"address": address}}, 404)
    service.post(path, {"addFloatingIp": {"address": address, "fixed_address": "192.0.2.99"}}, 400)
    servers.set(server, network_info=[])
    assert "No fixed IPs" in service.fault("POST", path, 400, {"addFloatingIp": {"address": address}})
    servers.set(server, network_info=[servers.vif("2001:db8::5")])
    assert "no IPv4" in service.fault("POST", path, 400, {"addFloatingIp": {"address": address}})


def test_the_embedded_network_has_none(servers, member):
    assert member.get("/os-floating-ips") == {"floating_ips": []}
    assert member.get("/os-floating-ip-pools") == {"floating_ip_pools": []}
    member.post("/os-floating-ips", {"pool": "public"}, 404)
    member.get(f"/os-floating-ips/{UNKNOWN}", 404)
    member.delete(f"/os-floating-ips/{UNKNOWN}", 404)
    body = {"addFloatingIp": {"address": "203.0.113.1"}}
    member.post(f"/servers/{servers.active(member)}/action", body, 404)


def test_until_2_35(member):
    for path in ("/os-floating-ips", "/os-floating-ip-pools"):
        member.at("2.35").get(path)
        member.at("2.36").get(path, 404)
