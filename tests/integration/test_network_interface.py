"""One set of tests for both sides of the network interface: the embedded bridges' rows and the real Neutron."""
from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import migration
from nova_lite.db import networks as rows
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.network.base import NetworkAPI, Requests, load
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, NetworkRequest
from tests.support.neighbours import Neighbours
from tests.support.servers import add_server

NOWHERE = str(uuid.uuid4())
PORTS = "/v2.0/ports"


class Side:
    """A driver with a user and a stranger; ``host`` is the same user where tokens do not go."""

    def __init__(self, driver: NetworkAPI, user: RequestContext, stranger: RequestContext) -> None:
        self.driver, self.user, self.stranger = driver, user, stranger
        self.host = RequestContext(user_id=user.user_id, project_id=user.project_id, overwrite=False)
        self.servers: list[Instance] = []

    def add_network(self, name: str, cidr: str) -> str:
        """A network of the user's; its id."""
        raise NotImplementedError

    def add_port(self, network_id: str) -> str:
        """A port of the user's; its id."""
        raise NotImplementedError

    def ports(self, server: Instance) -> list[str]:
        """The ids of all ports that say they are the server's."""
        raise NotImplementedError

    def remember(self, server: Instance) -> Instance:
        """The server is one that may be asked for."""
        return server

    def server(self, requests: Requests = None) -> Instance:
        """One that has no port yet."""
        asked = requests if requests is None or isinstance(requests, str) else [r.to_primitive() for r in requests]
        made = self.remember(Instance(
            uuid=str(uuid.uuid4()), project_id=self.user.project_id or "", user_id="u", display_name="web", hostname="web",
            flavor=Flavor("1", "tiny", 64, 1, 1), network_request=asked, availability_zone="nova"))
        self.servers.append(made)
        return made

    def build(self, requests: Requests, host: str = "node") -> Instance:
        """What the API and then a host do; the server with its nics."""
        wanted = self.driver.validate(self.user, requests, 1)
        server = self.server(wanted.requests)
        server.network_info = self.again(server, host)
        return server

    def again(self, server: Instance, host: str = "node") -> list[VIF]:
        """What a host does, perhaps once more."""
        asked = server.network_request
        requests = [NetworkRequest.from_primitive(r) for r in asked] if isinstance(asked, list) else asked
        return self.driver.allocate(self.host, server, requests, host)

    def close(self) -> None:
        """Give everything back."""
        for server in self.servers:
            self.driver.deallocate(self.host, server)


class Embedded(Side):
    """Rows of a SQLite database."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), network__driver="bridge",
                                   database__connection=f"sqlite:///{tmp_path}/db")
        migration.sync(conf)
        self.db = Database(conf)
        users = [RequestContext(user_id=p, project_id=p, roles=["member"], overwrite=False) for p in ("demo", "alt_demo")]
        super().__init__(load(conf, DatabasePortStore(self.db)), *users)

    def add_network(self, name: str, cidr: str) -> str:
        return self.db.write(rows.create_network, name=name, cidr=cidr, project_id=self.user.project_id, mtu=1400)["uuid"]

    def add_port(self, network_id: str) -> str:
        return self.db.write(rows.create_port, network_id, self.user.project_id)["uuid"]

    def ports(self, server: Instance) -> list[str]:
        with self.db.read() as c:
            return [p["uuid"] for p in rows.list_ports(c, instance_uuid=server.uuid)]

    def remember(self, server: Instance) -> Instance:
        return add_server(self.db, server)

    def close(self) -> None:
        super().close()
        self.db.dispose()


class Neutron(Side):
    """The real one; each port that is bound to a usual host is ACTIVE at once."""

    def __init__(self, neighbours: Neighbours, tmp_path: pathlib.Path) -> None:
        file = tmp_path / "nova-lite.conf"
        file.write_text("[service_user]\n" + "".join(
            f"{key.removeprefix('service_user__')} = {value}\n" for key, value in neighbours.options().items()
            if key.startswith("service_user__")))
        self.conf = nova_lite.conf.load([], config_files=[str(file)], network__driver="neutron")
        users = [RequestContext(user_id=name, project_id=neighbours.project_id(name), roles=["member"],
                                auth_token=neighbours.token(name), overwrite=False) for name in ("demo", "alt_demo")]
        super().__init__(load(self.conf, None), *users)
        self.neighbours = neighbours
        self.made: list[str] = []

    def call(self, method: str, path: str, user: str = "demo", **body: Any) -> Any:
        arguments = {"json": body} if body else {}
        return self.neighbours.call(method, "neutron", f"/v2.0/{path}", user, **arguments)

    def _made(self, what: str, answer: Any) -> str:
        self.made.append(f"{what}/{answer['id']}")
        return str(answer["id"])

    def add_network(self, name: str, cidr: str) -> str:
        network = self._made("networks", self.call("POST", "networks", network={"name": name})["network"])
        self.call("PUT", f"networks/{network}", "admin", network={"mtu": 1400})
        self.add_subnet(network, cidr)
        return network

    def add_subnet(self, network_id: str, cidr: str, **values: Any) -> None:
        self.call("POST", "subnets", subnet={"network_id": network_id, "cidr": cidr, "ip_version": 6 if ":" in cidr else 4,
                                             **values})

    def add_port(self, network_id: str, **values: Any) -> str:
        user = "admin" if any(":" in key for key in values) else "demo"
        return self._made("ports", self.call("POST", "ports", user, port={
            "network_id": network_id, "project_id": self.user.project_id, **values})["port"])

    def ports(self, server: Instance) -> list[str]:
        return [p["id"] for p in self.call("GET", f"ports?device_id={server.uuid}", "admin")["ports"]]

    def port(self, port_id: str) -> dict[str, Any]:
        return dict(self.call("GET", f"ports/{port_id}", "admin")["port"])

    @contextlib.contextmanager
    def calls(self, *drivers: NetworkAPI) -> Iterator[list[str]]:
        """"GET /ports" and so on, of the drivers' HTTP calls inside the block."""
        seen: list[str] = []
        sessions = [d._api._client._ready() for d in drivers or (self.driver,)]  # type: ignore[attr-defined]
        hooks = [s.session for s in sessions]

        def note(answer: Any, **_arguments: Any) -> None:
            seen.append(f"{answer.request.method} {answer.request.path_url.partition('?')[0].removeprefix('/v2.0')}")
        for one in hooks:
            one.hooks["response"].append(note)
        try:
            yield seen
        finally:
            for one in hooks:
                one.hooks["response"].remove(note)

    def close(self) -> None:
        super().close()
        for path in reversed(self.made):
            self.call("DELETE", path, "admin")


SIDES: dict[str, Callable[[pytest.FixtureRequest, pathlib.Path], Side]] = {
    "embedded": lambda request, path: Embedded(path),
    "neutron": lambda request, path: Neutron(request.getfixturevalue("neighbours"), path)}


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Side]:
    made = SIDES[request.param](request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def neutron(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Neutron]:
    made = Neutron(request.getfixturevalue("neighbours"), tmp_path)
    yield made
    made.close()


def _addresses(vifs: Sequence[VIF]) -> list[str]:
    return [ip.address for vif in vifs for ip in vif.fixed_ips]


# both ---------------------------------------------------------------------------------------------------------------------
def test_a_nic_has_all_that_guest_and_host_need(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    server = side.build([NetworkRequest(network, tag="front")])
    [vif] = server.network_info
    assert (vif.network_id, vif.network_name, vif.mtu, vif.tag) == (network, "blue", 1400, "front")
    assert vif.mac_address.startswith("fa:16:3e:")
    assert vif.type in ("bridge", "ovs")
    assert vif.details["bridge"]
    assert vif.active
    assert not vif.preserve_on_delete
    [address] = vif.fixed_ips
    assert address.address.startswith("10.81.0.")
    assert (address.version, address.cidr, address.gateway) == (4, "10.81.0.0/24", "10.81.0.1")
    assert side.ports(server) == [vif.id]


def test_run_again_it_gives_the_same(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    server = side.build([NetworkRequest(network), NetworkRequest(network)])
    first, server.network_info = server.network_info, []
    # nobody has seen any of them yet, so two that are alike may be either nic
    assert sorted(v.id for v in side.again(server)) == sorted(v.id for v in first)
    server.network_info = first
    moved = side.again(server, "node2")
    assert [(v.id, v.mac_address) for v in moved] == [(v.id, v.mac_address) for v in first]
    assert _addresses(moved) == _addresses(first)
    assert sorted(side.ports(server)) == sorted(v.id for v in first)


def test_nics_come_in_their_order(side: Side) -> None:
    networks = [side.add_network(name, f"10.8{n}.0.0/24") for n, name in enumerate(("a", "b", "c"), 1)]
    port = side.add_port(networks[1])
    server = side.build([NetworkRequest(networks[2], tag="x"), NetworkRequest(port_id=port), NetworkRequest(networks[0])])
    assert [v.network_name for v in server.network_info] == ["c", "b", "a"]
    assert [v.tag for v in server.network_info] == ["x", None, None]
    assert server.network_info[1].id == port


def test_fixed_addresses(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    server = side.build([NetworkRequest(network, address="10.81.0.77")])
    assert _addresses(server.network_info) == ["10.81.0.77"]
    with pytest.raises(exception.FixedIpAlreadyInUse, match=r"10\.81\.0\.77"):
        side.build([NetworkRequest(network, address="10.81.0.77")])
    with pytest.raises(exception.InvalidInput, match=r"192\.0\.2\.1 is not a valid ip address for network"):
        side.build([NetworkRequest(network, address="192.0.2.1")])


def test_no_more_addresses(side: Side) -> None:
    network = side.add_network("small", "10.81.0.0/29")
    with pytest.raises(exception.NoMoreFixedIps, match=network):
        _fill(side, network)
    assert 4 <= sum(len(side.ports(s)) for s in side.servers) <= 5      # of eight: a gateway, perhaps a server of DHCP


def _fill(side: Side, network: str) -> None:
    for _ in range(8):
        side.build([NetworkRequest(network)])


def test_a_port_of_the_users_outlives_its_servers(side: Side) -> None:
    port = side.add_port(side.add_network("blue", "10.81.0.0/24"))
    first = side.build([NetworkRequest(port_id=port)])
    assert first.network_info[0].preserve_on_delete
    with pytest.raises(exception.PortInUse, match=port):
        side.build([NetworkRequest(port_id=port)])
    for _ in range(2):
        side.driver.deallocate(side.host, first)
    assert side.ports(first) == []
    second = side.build([NetworkRequest(port_id=port)])
    assert side.ports(second) == [port]
    assert second.network_info[0].mac_address == first.network_info[0].mac_address


def test_of_two_hosts_one_gets_a_port(side: Side) -> None:
    port = side.add_port(side.add_network("blue", "10.81.0.0/24"))
    wanted = side.driver.validate(side.user, [NetworkRequest(port_id=port)], 1).requests
    first, second = side.server(wanted), side.server(wanted)
    side.again(first)
    with pytest.raises(exception.PortInUse, match=port):
        side.again(second, "node2")
    side.driver.deallocate(side.host, second)
    assert side.ports(first) == [port]


def test_what_is_given_back_is_gone(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    server, other = side.build([NetworkRequest(network)] * 2), side.build([NetworkRequest(network)])
    for _ in range(2):
        side.driver.deallocate(side.host, server)
    assert side.ports(server) == []
    assert len(side.ports(other)) == 1


def test_what_is_not_there(side: Side) -> None:
    with pytest.raises(exception.NetworkNotFound, match=NOWHERE):
        side.driver.validate(side.user, [NetworkRequest(NOWHERE)], 1)
    with pytest.raises(exception.PortNotFound, match=NOWHERE):
        side.driver.validate(side.user, [NetworkRequest(port_id=NOWHERE)], 1)
    with pytest.raises(exception.InvalidInput):
        side.driver.validate(side.user, "some", 1)


def test_what_is_another_projects_is_not_there_either(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    port = side.add_port(network)
    with pytest.raises(exception.NetworkNotFound):
        side.driver.validate(side.stranger, [NetworkRequest(network)], 1)
    with pytest.raises(exception.PortNotFound):
        side.driver.validate(side.stranger, [NetworkRequest(port_id=port)], 1)


def test_the_owner_of_a_network_takes_no_port_that_another_has_on_it(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    port = neutron.add_port(network, **{"project_id": neutron.stranger.project_id, "binding:vnic_type": "normal"})
    with pytest.raises(exception.PortNotUsable):
        neutron.driver.validate(neutron.user, [NetworkRequest(port_id=port)], 1)


def test_none_and_several(side: Side) -> None:
    side.add_network("blue", "10.81.0.0/24")
    side.add_network("red", "10.82.0.0/24")
    assert side.build("none").network_info == []
    for requests in (None, "auto"):
        with pytest.raises(exception.NetworkAmbiguous):
            side.driver.validate(side.user, requests, 1)


def test_one_thing_is_for_one_server(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    for request in (NetworkRequest(network, address="10.81.0.9"), NetworkRequest(port_id=side.add_port(network))):
        with pytest.raises(exception.InvalidInput):
            side.driver.validate(side.user, [request], 2)


def test_lists_and_looks(side: Side) -> None:
    network = side.add_network("blue", "10.81.0.0/24")
    listed = {n["id"]: n["label"] for n in side.driver.list_networks(side.user)}
    assert listed[network] == "blue"
    server = side.build([NetworkRequest(network)])
    assert side.driver.refresh(side.host, server) == server.network_info
    port = server.network_info[0].id
    assert side.driver.port_states(side.host, [port]) == {port: "ACTIVE"}


# Neutron ------------------------------------------------------------------------------------------------------------------
def test_a_build_with_one_port_costs_four_calls_and_one_for_the_groups_of_a_users_port(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    neutron.build([NetworkRequest(network)])       # tokens and versions are known then
    with neutron.calls() as seen:
        neutron.build([NetworkRequest(network)])
    assert seen == ["GET /networks", "GET /ports", "POST /ports", "GET /subnets"]
    port = neutron.add_port(network)
    with neutron.calls() as seen:
        neutron.build([NetworkRequest(port_id=port)])
    assert seen == ["GET /ports", "GET /networks", "GET /security-groups", f"PUT /ports/{port}", "GET /subnets"]


def test_a_port_is_bound_and_unbound(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    port = neutron.add_port(network)
    server = neutron.build([NetworkRequest(network), NetworkRequest(port_id=port)])
    for vif in server.network_info:
        shown = neutron.port(vif.id)
        assert (shown["device_id"], shown["device_owner"], shown["binding:host_id"], shown["project_id"]) == (
            server.uuid, "compute:nova", "node", neutron.user.project_id)
    neutron.driver.deallocate(neutron.host, server)
    shown = neutron.port(port)
    assert (shown["device_id"], shown["device_owner"], shown["binding:host_id"], shown["binding:vif_type"]) == (
        "", "", "", "unbound")


def test_security_groups(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    web = neutron._made("security-groups", neutron.call("POST", "security-groups", security_group={
        "name": "web"})["security_group"])
    wanted = neutron.driver.validate(neutron.user, [NetworkRequest(network)], 1, ("web",))
    assert wanted.security_groups == ["web"]
    server = neutron.server(wanted.requests)
    [vif] = neutron.again(server)
    assert neutron.port(vif.id)["security_groups"] == [web]
    [plain] = neutron.build([NetworkRequest(network)]).network_info
    [default] = neutron.port(plain.id)["security_groups"]
    group = neutron.call("GET", f"security-groups/{default}", "admin")["security_group"]
    assert (group["name"], group["project_id"]) == ("default", neutron.user.project_id)
    with pytest.raises(exception.SecurityGroupNotFound, match="webb"):
        neutron.driver.validate(neutron.user, [NetworkRequest(network)], 1, ("webb",))


def test_both_kinds_of_addresses(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    neutron.add_subnet(network, "fd00:81::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    [vif] = neutron.build([NetworkRequest(network)]).network_info
    assert {(ip.version, ip.ipv6_address_mode) for ip in vif.fixed_ips} == {(4, None), (6, "slaac")}


def test_the_quota_of_ports(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    used = len(neutron.call("GET", f"ports?project_id={neutron.user.project_id}", "admin")["ports"])
    quota = f"quotas/{neutron.user.project_id}"
    neutron.call("PUT", quota, "admin", quota={"port": used + 1})
    try:
        server = neutron.server(neutron.driver.validate(neutron.user, [NetworkRequest(network)] * 2, 1).requests)
        with pytest.raises(exception.PortLimitExceeded, match="Maximum number of ports exceeded .Neutron: "):
            neutron.again(server)
    finally:
        neutron.call("DELETE", quota, "admin")
    assert neutron.ports(server) == []


def test_a_host_that_cannot_bind_and_one_that_does_not_wire(neutron: Neutron) -> None:
    network = neutron.add_network("blue", "10.81.0.0/24")
    server = neutron.server(neutron.driver.validate(neutron.user, [NetworkRequest(network)], 1).requests)
    with pytest.raises(exception.BuildFailed, match="Binding failed for port .* on host refuse-1"):
        neutron.again(server, "refuse-1")
    neutron.driver.deallocate(neutron.host, server)
    [vif] = neutron.again(server, "silent-1")
    assert not vif.active
    assert neutron.driver.port_states(neutron.host, [vif.id]) == {vif.id: "DOWN"}
    [vif] = neutron.again(server, "node")
    assert vif.active


def test_networks_that_take_no_guests(neutron: Neutron) -> None:
    bare = neutron._made("networks", neutron.call("POST", "networks", network={"name": "bare"})["network"])
    with pytest.raises(exception.NetworkRequiresSubnet, match=bare):
        neutron.driver.validate(neutron.user, [NetworkRequest(bare)], 1)
    public = neutron.neighbours.network_id("public")
    if not neutron.call("GET", f"networks/{public}", "admin")["network"]["shared"]:
        with pytest.raises(exception.ExternalNetworkAttachForbidden, match=public):
            neutron.driver.validate(neutron.user, [NetworkRequest(public)], 1)
    assert neutron.driver.validate(neutron.user, [NetworkRequest(public)], 1, may_use_external=True).requests


def test_hardware_ports_are_refused(neutron: Neutron) -> None:
    port = neutron.add_port(neutron.add_network("blue", "10.81.0.0/24"), **{"binding:vnic_type": "direct"})
    with pytest.raises(exception.UnsupportedNetworkRequest, match=f"Port {port} has VNIC type direct"):
        neutron.driver.validate(neutron.user, [NetworkRequest(port_id=port)], 1)


def test_floating_addresses_are_seen_by_a_look(neutron: Neutron) -> None:
    router = neutron._made("routers", neutron.call("POST", "routers", router={
        "name": "r", "external_gateway_info": {"network_id": neutron.neighbours.network_id("public")}})["router"])
    network = neutron.add_network("blue", "10.81.0.0/24")
    subnet = neutron.call("GET", f"subnets?network_id={network}")["subnets"][0]["id"]
    neutron.call("PUT", f"routers/{router}/add_router_interface", subnet_id=subnet)
    try:
        server = neutron.build([NetworkRequest(network)])
        made = neutron.call("POST", "floatingips", floatingip={
            "floating_network_id": neutron.neighbours.network_id("public"), "port_id": server.network_info[0].id})["floatingip"]
        fresh = neutron.driver.refresh(neutron.host, server)
        assert fresh[0].fixed_ips[0].floating_ips == [made["floating_ip_address"]]
        neutron.call("DELETE", f"floatingips/{made['id']}")
        assert neutron.driver.refresh(neutron.host, server) == server.network_info
        gone = dataclasses.replace(server, network_info=[*server.network_info, dataclasses.replace(
            server.network_info[0], id=NOWHERE)])
        assert neutron.driver.refresh(neutron.host, gone) == server.network_info
        neutron.driver.deallocate(neutron.host, server)
    finally:
        neutron.call("PUT", f"routers/{router}/remove_router_interface", subnet_id=subnet)
