"""Each verb on a real guest of the second host; it can be reached afterwards."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.process import wait_for
from tests.two_hosts import hosts
from tests.two_hosts.cloud import Cloud
from tests.two_hosts.pings import VLAN, VLAN_SUBNET, Pings, answers, until_it_answers

HOST2 = hosts.HOST2.name
# anti-spoofing lets a subport's own MAC address through alone; QEMU without vhost forgets a nic's VLANs when the guest moves
# alive, but not that all packets are wanted
SUBPORT = """#!/bin/sh
modprobe 8021q
ip link set eth0 promisc on
ip link add link eth0 name eth0.7 type vlan id 7
ip link set eth0.7 address {mac_address}
ip address add {ip_address}/24 dev eth0.7
ip link set eth0.7 up
"""


def test_power(cloud: Cloud) -> None:
    server = cloud.boot(HOST2)
    address = cloud.address(server)
    until_it_answers(address)
    for there, back, status in (("os-stop", "os-start", "SHUTOFF"), ("pause", "unpause", "PAUSED"),
                                ("suspend", "resume", "SUSPENDED"), ("rescue", "unrescue", "RESCUE")):
        cloud.does(server, there, {} if there == "rescue" else None, status=status)
        if there == "rescue":
            until_it_answers(address)
        else:
            wait_for("silence", lambda: not answers(address), 60)
        cloud.does(server, back)
        until_it_answers(address)
    for kind in ("SOFT", "HARD"):
        cloud.does(server, "reboot", {"type": kind})
        until_it_answers(address)


def test_disks(cloud: Cloud) -> None:
    server = cloud.boot(HOST2)
    address = cloud.address(server)
    cloud.does(server, "rebuild", {"imageRef": cloud.image})
    until_it_answers(address)
    image = cloud.act(server, "createImage", {"name": "two-hosts"})["image_id"]
    wait_for("the image", lambda: cloud.get("image", f"v2/images/{image}")["status"] == "active", 240, 1)
    cloud.call("image", "DELETE", f"v2/images/{image}")
    volume = cloud.volume()
    cloud.call("compute", "POST", f"servers/{server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}})
    cloud.until_volume(volume, "in-use")
    [told] = cloud.get("block-storage", f"volumes/{volume}")["volume"]["attachments"]
    assert told["device"] == "/dev/vdb"
    cloud.live_migrate(server)
    cloud.call("compute", "DELETE", f"servers/{server}/os-volume_attachments/{volume}")
    cloud.until_volume(volume, "available")
    cloud.call("block-storage", "DELETE", f"volumes/{volume}")
    until_it_answers(address)


def test_nics(cloud: Cloud) -> None:
    server = cloud.boot(HOST2)
    made = cloud.call("compute", "POST", f"servers/{server}/os-interface",
                      json={"interfaceAttachment": {"net_id": cloud.private}})["interfaceAttachment"]
    port = f"v2.0/ports/{made['port_id']}"
    wait_for("the port to be wired", lambda: cloud.get("network", port)["port"]["status"] == "ACTIVE", 60, 0.5)
    cloud.live_migrate(server)
    wait_for("the port to be wired there", lambda: cloud.get("network", port)["port"]["status"] == "ACTIVE", 60, 0.5)
    cloud.call("compute", "DELETE", f"servers/{server}/os-interface/{made['port_id']}")
    wait_for("the port's end", lambda: len(cloud.get("network", f"v2.0/ports?device_id={server}")["ports"]) == 1, 120, 0.5)
    until_it_answers(cloud.address(server))


def test_a_tap_that_somebody_took_from_its_bridge_is_put_back(cloud: Cloud) -> None:
    """Neutron's agent does so when a server comes back to a host that it has just left."""
    server = cloud.boot(HOST2)
    address = cloud.address(server)
    until_it_answers(address)
    [port] = cloud.get("network", f"v2.0/ports?device_id={server}")["ports"]
    with Pings(address) as pings:
        hosts.HOST2.unplug("tap" + port["id"][:11])
        wait_for("the host to put it back", lambda: any(
            "was put back" in line and server in line for line in hosts.HOST2.log().splitlines()), 60, 0.5)
    print(f"{pings.gap:.1f} s without an answer", flush=True)


@pytest.fixture
def vlan(cloud: Cloud) -> Iterator[str]:
    """A network that the pinging machine is on, too."""
    made = str(cloud.call("network", "POST", "v2.0/networks", json={"network": {
        "name": "two-hosts", "provider:network_type": "vlan", "provider:physical_network": "public",
        "provider:segmentation_id": VLAN}})["network"]["id"])
    cloud.call("network", "POST", "v2.0/subnets", json={"subnet": {
        "network_id": made, "ip_version": 4, "cidr": VLAN_SUBNET, "enable_dhcp": False, "gateway_ip": None,
        "allocation_pools": [{"start": "172.24.7.10", "end": "172.24.7.99"}]}})
    yield made
    cloud.call("network", "DELETE", f"v2.0/networks/{made}")


@pytest.fixture
def trunk(cloud: Cloud, vlan: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """A trunk with one subport, its parent port on the provider network, and the addresses of the subport."""
    def port(network: str) -> dict[str, Any]:
        return dict(cloud.call("network", "POST", "v2.0/ports", json={"port": {"network_id": network}})["port"])
    parent, child = port(cloud.public), port(vlan)
    trunk = str(cloud.call("network", "POST", "v2.0/trunks", json={"trunk": {"port_id": parent["id"], "sub_ports": [
        {"port_id": child["id"], "segmentation_type": "vlan", "segmentation_id": 7}]}})["trunk"]["id"])
    yield trunk, parent["id"], {"mac_address": child["mac_address"], "ip_address": child["fixed_ips"][0]["ip_address"]}
    cloud.clean()
    cloud.call("network", "DELETE", f"v2.0/trunks/{trunk}")
    for one in (parent, child):
        cloud.call("network", "DELETE", f"v2.0/ports/{one['id']}")


def test_a_trunk(cloud: Cloud, trunk: tuple[str, str, dict[str, str]]) -> None:
    row, parent, subport = trunk
    server = cloud.create(HOST2, {"port": parent}, script=SUBPORT.format(**subport))

    def is_wired() -> bool:
        return bool(cloud.get("network", f"v2.0/trunks/{row}")["trunk"]["status"] == "ACTIVE")

    def is_reached() -> None:
        wait_for("the trunk", is_wired, 60, 0.5)
        for address in (cloud.address(server), subport["ip_address"]):
            until_it_answers(address)
            print(f"{address} answers on {cloud.host(server)}", flush=True)
    is_reached()
    assert cloud.live_migrate(server) == cloud.node
    is_reached()


def test_guests_are_reached_after_a_loss_of_power(cloud: Cloud) -> None:
    server = cloud.boot(HOST2)
    hosts.power("off")
    hosts.power("on")
    cloud.until(server, "SHUTOFF", "ACTIVE")
    if cloud.show(server)["status"] == "SHUTOFF":
        cloud.does(server, "os-start")
    cloud.does(server, "reboot", {"type": "HARD"})
    until_it_answers(cloud.address(server))
