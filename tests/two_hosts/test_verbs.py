"""Each verb on a real guest of the second host; it can be reached afterwards."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.process import wait_for
from tests.two_hosts import hosts
from tests.two_hosts.cloud import Cloud
from tests.two_hosts.pings import answers, until_it_answers

HOST2 = hosts.HOST2.name


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


@pytest.fixture
def trunk(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """A trunk with one subport on the private network, and its parent port on the provider network."""
    parent, child = cloud.port(cloud.public), cloud.port(cloud.private)
    trunk = str(cloud.call("network", "POST", "v2.0/trunks", json={"trunk": {"port_id": parent, "sub_ports": [
        {"port_id": child, "segmentation_type": "vlan", "segmentation_id": 7}]}})["trunk"]["id"])
    yield trunk, parent
    cloud.clean()
    cloud.call("network", "DELETE", f"v2.0/trunks/{trunk}")
    for one in (parent, child):
        cloud.call("network", "DELETE", f"v2.0/ports/{one}")


def test_a_trunk(cloud: Cloud, trunk: tuple[str, str]) -> None:
    row, parent = trunk
    server = cloud.create(HOST2, {"port": parent})

    def is_wired() -> bool:
        return bool(cloud.get("network", f"v2.0/trunks/{row}")["trunk"]["status"] == "ACTIVE")
    until_it_answers(cloud.address(server))
    wait_for("the trunk", is_wired, 60, 0.5)
    cloud.live_migrate(server)
    until_it_answers(cloud.address(server))
    wait_for("the trunk there", is_wired, 60, 0.5)


def test_guests_are_reached_after_a_loss_of_power(cloud: Cloud) -> None:
    server = cloud.boot(HOST2)
    hosts.power("off")
    hosts.power("on")
    cloud.until(server, "SHUTOFF", "ACTIVE")
    if cloud.show(server)["status"] == "SHUTOFF":
        cloud.does(server, "os-start")
    cloud.does(server, "reboot", {"type": "HARD"})
    until_it_answers(cloud.address(server))
