"""Servers of five processes on the real Neutron, on a host whose ports are wired only when somebody says so.

Neutron binds ports of "silent-..." and leaves them DOWN; bound anew to another host by an admin they become ACTIVE, and Neutron
tells nova_lite so: that is the moment at which an agent would have wired them.
"""
from __future__ import annotations

import pathlib
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.neighbours import Neighbours
from tests.support.process import wait_for

NOWHERE = "00000000-0000-4000-8000-000000000000"


class Cloud:
    """A user's compute API, and Neutron beside it."""

    def __init__(self, services: Services, neighbours: Neighbours) -> None:
        self.services, self.neighbours = services, neighbours
        self.demo = services.client(neighbours.token("demo"))
        self.network = neighbours.network_id("private")
        self.image = neighbours.image_id()
        self.flavor = services.client(neighbours.token("admin")).flavor()

    def boot(self, networks: Any, **more: Any) -> str:
        return str(self.demo.boot(networks=networks, flavor=self.flavor, image=self.image, **more)["id"])

    def refused(self, networks: Any, **more: Any) -> tuple[int, str]:
        """Status and message of a creation that is refused."""
        body = {"name": "s", "flavorRef": self.flavor, "imageRef": self.image, "networks": networks, **more}
        answer = self.demo.request("POST", "/servers", json={"server": body})
        [fault] = answer.json().values()
        return answer.status_code, fault["message"]

    def ports(self, server: str) -> list[dict[str, Any]]:
        return list(self.neighbours.call("GET", "neutron", f"/v2.0/ports?device_id={server}", "admin")["ports"])

    def bound(self, server: str, count: int) -> list[dict[str, Any]]:
        """The server's ports, when there are ``count``."""
        wait_for(f"{count} ports", lambda: len(self.ports(server)) >= count, 60)
        return self.ports(server)

    def wire(self, server: str) -> None:
        """What an agent would do."""
        for port in self.ports(server):
            self.neighbours.call("PUT", "neutron", f"/v2.0/ports/{port['id']}", "admin",
                                 json={"port": {"binding:host_id": "wired"}})

    def log(self, text: str) -> bool:
        return text in self.services.processes["compute"].log.read_text()


@pytest.fixture(scope="module")
def cloud(neighbours: Neighbours, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with neighbours.catalog_ports() as ports:
        services = neighbours.services(
            tmp_path_factory.mktemp("cloud"), host="silent-1", volume__driver="local",
            network__vif_plugging_timeout=60, fake__state_file=tmp_path_factory.mktemp("fake") / "guests", **ports)
        try:
            yield Cloud(services.start(), neighbours)
        finally:
            services.stop()


def test_a_guest_runs_when_neutron_says_so(cloud: Cloud) -> None:
    server = cloud.boot([{"uuid": cloud.network, "tag": "front"}])
    [port] = cloud.bound(server, 1)
    assert (port["status"], port["binding:host_id"]) == ("DOWN", "silent-1")
    time.sleep(1)
    assert cloud.demo.server(server)["OS-EXT-STS:task_state"] == "spawning"
    cloud.wire(server)
    shown = cloud.demo.wait(server, "ACTIVE")
    assert cloud.log(f"event network-vif-plugged completed: {port['id']}")
    [address] = shown["addresses"]["private"]
    assert (address["addr"], address["OS-EXT-IPS-MAC:mac_addr"]) == (port["fixed_ips"][0]["ip_address"], port["mac_address"])
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server)
    assert cloud.ports(server) == []


def test_a_daemon_that_is_killed_while_it_waits_leaves_one_port_for_each_nic(cloud: Cloud) -> None:
    server = cloud.boot([{"uuid": cloud.network}, {"uuid": cloud.network}])
    first = cloud.bound(server, 2)
    cloud.services.restart("compute")
    wait_for("the build to go on", lambda: cloud.demo.server(server)["OS-EXT-STS:task_state"] == "spawning")
    time.sleep(2)
    cloud.wire(server)
    cloud.demo.wait(server, "ACTIVE", 90)
    assert {p["id"] for p in cloud.ports(server)} == {p["id"] for p in first}
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server)
    assert cloud.ports(server) == []


def test_a_delete_does_not_wait(cloud: Cloud) -> None:
    server = cloud.boot([{"uuid": cloud.network}])
    cloud.bound(server, 1)
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server, 120)           # the build would wait for its port for 300 s
    assert cloud.ports(server) == []


def test_a_port_that_is_deleted_under_way_ends_the_build(cloud: Cloud) -> None:
    server = cloud.boot([{"uuid": cloud.network}])
    [port] = cloud.bound(server, 1)
    time.sleep(1)
    cloud.neighbours.call("DELETE", "neutron", f"/v2.0/ports/{port['id']}", "admin")
    fault = cloud.demo.wait(server, "ERROR")["fault"]["message"]
    assert port["id"] in fault
    assert "deleted" in fault
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server)


def test_a_server_learns_of_its_changed_ports(cloud: Cloud) -> None:
    server = cloud.boot([{"uuid": cloud.network}, {"uuid": cloud.network}])
    ports = cloud.bound(server, 2)
    wait_for("the wait", lambda: cloud.demo.server(server)["OS-EXT-STS:task_state"] == "spawning")
    cloud.wire(server)
    assert len(cloud.demo.wait(server, "ACTIVE")["addresses"]["private"]) == 2
    cloud.neighbours.call("DELETE", "neutron", f"/v2.0/ports/{ports[0]['id']}", "admin")
    wait_for("one address less", lambda: len(cloud.demo.server(server)["addresses"]["private"]) == 1)
    [left] = cloud.demo.server(server)["addresses"]["private"]
    assert left["OS-EXT-IPS-MAC:mac_addr"] == ports[1]["mac_address"]
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server)
    assert cloud.ports(server) == []


def test_what_is_wrong_is_told_before_anything_is_written(cloud: Cloud) -> None:
    port = cloud.neighbours.call("POST", "neutron", "/v2.0/ports", json={"port": {
        "network_id": cloud.network, "device_id": NOWHERE}})["port"]["id"]
    try:
        assert cloud.refused([{"uuid": NOWHERE}]) == (400, f"Network {NOWHERE} could not be found.")
        assert cloud.refused([{"port": NOWHERE}]) == (400, f"Port id {NOWHERE} could not be found.")
        assert cloud.refused([{"port": port}]) == (409, f"Port {port} is still in use.")
        assert cloud.refused([{"uuid": cloud.network}], security_groups=[{"name": "nobodys"}]) == (
            400, "Security group nobodys not found.")
    finally:
        cloud.neighbours.call("DELETE", "neutron", f"/v2.0/ports/{port}", "admin")
    client: Compute = cloud.demo
    assert client.servers() == []


def test_a_host_that_cannot_have_the_ports_refuses_a_live_migration(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    """Its reason is the answer, and Neutron keeps nothing of the attempt."""
    admin = cloud.services.client(cloud.neighbours.token("admin"), "2.30")
    server = cloud.boot([{"uuid": cloud.network}])
    [port] = cloud.bound(server, 1)
    cloud.wire(server)
    cloud.demo.wait(server, "ACTIVE")
    other = cloud.services.another("compute", "refuse-1", host="refuse-1", fake__state_file=tmp_path / "guests").start()
    try:
        wait_for("the other host", lambda: any(
            s["state"] == "up" for s in admin.ok("GET", "/os-services?host=refuse-1")["services"]))
        answer = admin.request("POST", f"/servers/{server}/action", json={
            "os-migrateLive": {"host": "refuse-1", "block_migration": "auto"}})
        assert (answer.status_code, answer.json()["badRequest"]["message"]) == (
            400, f"Migration pre-check error: Binding port {port['id']} to host refuse-1 failed: "
                 "Neutron found no way to connect it there")
        bindings = cloud.neighbours.call("GET", "neutron", f"/v2.0/ports/{port['id']}/bindings", "admin")["bindings"]
        assert [b["host"] for b in bindings] == ["wired"]
        found = admin.server(server)
        assert (found["status"], found["OS-EXT-STS:task_state"], found["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", None, "silent-1")
    finally:
        other.kill(signal.SIGTERM)
    cloud.demo.delete(server)
    cloud.demo.wait_gone(server)


def test_what_a_killed_check_has_left_is_in_the_way_of_no_later_server(cloud: Cloud) -> None:
    """A host that is asked for a live migration tries whether the ports can be bound there. One that is killed in between
    leaves an inactive binding, with which Neutron answers no PUT that binds the port to this host."""
    body = {"port": {"network_id": cloud.network}}
    mine = str(cloud.neighbours.call("POST", "neutron", "/v2.0/ports", json=body)["port"]["id"])
    bindings = f"/v2.0/ports/{mine}/bindings"
    try:
        first = cloud.boot([{"port": mine}])
        wait_for("its port", lambda: cloud.ports(first), 60)
        cloud.wire(first)
        cloud.demo.wait(first, "ACTIVE")
        cloud.neighbours.call("POST", "neutron", bindings, "nova_lite", json={"binding": {"host": "silent-1"}})
        cloud.demo.delete(first)
        cloud.demo.wait_gone(first)
        second = cloud.boot([{"port": mine}])
        [port] = cloud.bound(second, 1)
        assert (port["id"], port["binding:host_id"]) == (mine, "silent-1")
        cloud.wire(second)
        cloud.demo.wait(second, "ACTIVE")
        cloud.demo.delete(second)
        cloud.demo.wait_gone(second)
    finally:
        cloud.neighbours.call("DELETE", "neutron", f"/v2.0/ports/{mine}", "admin")
