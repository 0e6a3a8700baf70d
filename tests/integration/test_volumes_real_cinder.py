"""Servers of five processes with volumes of the real Cinder, on the fake hypervisor; all as a plain tenant."""
from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import Services
from tests.support.neighbours import Neighbours
from tests.support.process import wait_for


class Cloud:
    """demo's compute API and its volumes; whatever a test makes is looked for after it."""

    def __init__(self, services: Services, neighbours: Neighbours) -> None:
        self.services, self.neighbours = services, neighbours
        self.demo = services.client(neighbours.token("demo"), "2.89")
        self.image = neighbours.image_id()
        self.flavor = services.client(neighbours.token("admin")).flavor()
        self.known: set[str] = set()        # volumes of the test; others use this Cinder at the same time
        self.servers: set[str] = set()

    def cinder(self, method: str, path: str, user: str = "demo", **kwargs: Any) -> Any:
        return self.neighbours.call(method, "cinder", path, user, **kwargs)

    def volumes(self) -> list[dict[str, Any]]:
        """Those of the test: its own, and those that were made for its servers."""
        self.servers |= {s["id"] for s in self.demo.servers()}
        return [v for v in self.cinder("GET", "/volumes/detail")["volumes"]
                if v["id"] in self.known or v["metadata"].get("nova_lite_server") in self.servers]

    def status(self, volume: str) -> str:
        return next((str(v["status"]) for v in self.volumes() if v["id"] == volume), "gone")

    def attachments(self) -> list[dict[str, Any]]:
        """openstack volume attachment list --all-projects, of the test's volumes."""
        found = self.cinder("GET", "/attachments/detail?all_tenants=1", "admin",
                            headers={"OpenStack-API-Version": "volume 3.44"})["attachments"]
        mine = {v["id"] for v in self.volumes()}
        return [a for a in found if a["volume_id"] in mine or a["instance"] in self.servers]

    def volume(self, size: int = 1, **values: Any) -> str:
        made = self.cinder("POST", "/volumes", json={"volume": {"size": size, **values}})["volume"]["id"]
        self.known.add(made)
        wait_for("the volume", lambda: self.status(made) == "available", 60)
        return str(made)

    def boot(self, *devices: dict[str, Any], image: str = "", **more: Any) -> str:
        body = {"name": "s", "flavorRef": self.flavor, "imageRef": image, "networks": "none",
                "block_device_mapping_v2": list(devices), **more}
        if not devices:
            body.pop("block_device_mapping_v2")
            body["imageRef"] = self.image
        server = str(self.demo.ok("POST", "/servers", json={"server": body})["server"]["id"])
        self.servers.add(server)
        return server

    def active(self, *devices: dict[str, Any], **more: Any) -> str:
        server = self.boot(*devices, **more)
        self.demo.wait(server, "ACTIVE")
        return server

    def attach(self, server: str, volume: str) -> dict[str, Any]:
        return dict(self.demo.ok("POST", f"/servers/{server}/os-volume_attachments",
                                 json={"volumeAttachment": {"volumeId": volume}})["volumeAttachment"])

    def detach(self, server: str, volume: str) -> None:
        self.demo.ok("DELETE", f"/servers/{server}/os-volume_attachments/{volume}")

    def listed(self, server: str) -> list[str]:
        return [a["volumeId"] for a in self.demo.ok("GET", f"/servers/{server}/os-volume_attachments")["volumeAttachments"]]

    def delete(self, server: str) -> None:
        self.demo.delete(server)
        self.demo.wait_gone(server)

    def clean(self) -> None:
        for server in self.demo.servers():
            self.delete(server["id"])
        for snapshot in self.snapshots():
            self.cinder("DELETE", f"/snapshots/{snapshot['id']}")
        wait_for("no snapshot", lambda: not self.snapshots(), 60)
        wait_for("no attachment", lambda: self.attachments() == [], 30)
        for volume in self.volumes():
            if volume["status"] != "deleting":
                self.cinder("DELETE", f"/volumes/{volume['id']}")
        wait_for("no volume", lambda: self.volumes() == [], 60)

    def snapshots(self) -> list[dict[str, Any]]:
        return [s for s in self.cinder("GET", "/snapshots")["snapshots"] if s["volume_id"] in self.known]


def device(source: str, uuid: str | None = None, boot_index: int | None = 0, **more: Any) -> dict[str, Any]:
    made = {"source_type": source, "destination_type": "volume", "boot_index": boot_index, **more}
    return made | ({"uuid": uuid} if uuid else {})


@pytest.fixture(scope="module")
def running(neighbours: Neighbours, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    services = neighbours.services(tmp_path_factory.mktemp("cloud"), host="volumes-1", conductor__sweep_interval=2,
                                   conductor__lease_seconds=10, fake__state_file=tmp_path_factory.mktemp("fake") / "guests")
    try:
        yield Cloud(services.start(), neighbours)
    finally:
        services.stop()


@pytest.fixture
def cloud(running: Cloud) -> Iterator[Cloud]:
    yield running
    running.clean()


def test_attach_and_detach(cloud: Cloud) -> None:
    server, volume = cloud.active(), cloud.volume()
    shown = cloud.attach(server, volume)
    assert shown["device"] == "/dev/vdb"
    wait_for("in-use", lambda: cloud.status(volume) == "in-use", 30)
    [attachment] = cloud.attachments()
    assert (attachment["instance"], attachment["status"]) == (server, "attached")
    [told] = cloud.cinder("GET", f"/volumes/{volume}")["volume"]["attachments"]
    assert told["device"] == "/dev/vdb"
    [listed] = cloud.demo.ok("GET", f"/servers/{server}/os-volume_attachments")["volumeAttachments"]
    assert listed["attachment_id"] == attachment["id"]
    again = cloud.demo.request("POST", f"/servers/{server}/os-volume_attachments",
                               json={"volumeAttachment": {"volumeId": volume}})
    assert again.status_code == 400
    cloud.detach(server, volume)
    wait_for("available", lambda: cloud.status(volume) == "available", 30)
    wait_for("nothing listed", lambda: cloud.listed(server) == [], 30)
    assert cloud.attachments() == []
    # the target's password, which Cinder tells with the connection, is in no log
    assert "auth_password" not in cloud.services.logs()


@pytest.mark.parametrize("keep", [True, False])
def test_boot_from_an_image(cloud: Cloud, keep: bool) -> None:
    server = cloud.active(device("image", cloud.image, volume_size=1, delete_on_termination=not keep))
    shown = cloud.demo.server(server)
    assert shown["image"] == ""
    [root] = cloud.listed(server)
    assert shown["os-extended-volumes:volumes_attached"] == [{"id": root, "delete_on_termination": not keep}]
    assert cloud.status(root) == "in-use"
    assert cloud.cinder("GET", f"/volumes/{root}")["volume"]["os-vol-tenant-attr:tenant_id"] == cloud.neighbours.project_id()
    cloud.delete(server)
    wait_for("its end", lambda: cloud.status(root) == ("available" if keep else "gone"), 30)
    assert cloud.attachments() == []


def test_boot_from_snapshot_volume_and_blank(cloud: Cloud) -> None:
    source = cloud.volume(imageRef=cloud.image)
    snapshot = cloud.cinder("POST", "/snapshots", json={"snapshot": {"volume_id": source}})["snapshot"]["id"]
    wait_for("the snapshot", lambda: cloud.cinder("GET", f"/snapshots/{snapshot}")["snapshot"]["status"] == "available", 30)
    data = cloud.volume()
    servers = [cloud.boot(device("snapshot", snapshot, delete_on_termination=True)), cloud.boot(device("volume", source)),
               cloud.boot({**device("image", cloud.image), "destination_type": "local"},
                          device("blank", None, None, volume_size=1, delete_on_termination=True),
                          device("volume", data, None), image=cloud.image)]
    for server in servers:
        cloud.demo.wait(server, "ACTIVE")
    assert [len(cloud.listed(server)) for server in servers] == [1, 1, 2]
    assert len(cloud.attachments()) == 4
    for server in servers:
        cloud.delete(server)
    wait_for("the kept ones", lambda: {v["id"]: v["status"] for v in cloud.volumes()} ==
             {source: "available", data: "available"}, 30)


def test_the_old_mapping_and_several_servers(cloud: Cloud) -> None:
    volume = cloud.volume(imageRef=cloud.image)
    body = {"name": "s", "flavorRef": cloud.flavor, "imageRef": "",
            "networks": [{"uuid": cloud.neighbours.network_id()}], "block_device_mapping": [
        {"device_name": "vda", "volume_id": volume, "delete_on_termination": True}]}
    server = cloud.demo.ok("POST", "/servers", "2.1", json={"server": body})["server"]["id"]
    cloud.demo.wait(server, "ACTIVE")
    cloud.delete(server)
    wait_for("its end", lambda: cloud.status(volume) == "gone", 30)
    cloud.boot(device("image", cloud.image, volume_size=1, delete_on_termination=True), min_count=2)
    servers = [s["id"] for s in cloud.demo.servers()]
    assert len(servers) == 2
    for one in servers:
        cloud.demo.wait(one, "ACTIVE")
    for one in servers:
        cloud.delete(one)
    wait_for("no volume", lambda: cloud.volumes() == [], 30)


def test_a_volume_of_two_servers(cloud: Cloud) -> None:
    volume = cloud.volume(volume_type="multiattach")
    first = cloud.active({**device("image", cloud.image), "destination_type": "local"}, device("volume", volume, None),
                         image=cloud.image)
    second = cloud.active()
    cloud.attach(second, volume)
    wait_for("both", lambda: [a["status"] for a in cloud.attachments()] == ["attached"] * 2, 30)
    cloud.detach(first, volume)
    wait_for("one", lambda: len(cloud.attachments()) == 1, 30)
    assert cloud.status(volume) == "in-use"
    cloud.delete(second)
    wait_for("available", lambda: cloud.status(volume) == "available", 30)


def refused(cloud: Cloud, *devices: dict[str, Any], **more: Any) -> tuple[int, str]:
    body = {"name": "s", "flavorRef": cloud.flavor, "imageRef": "", "networks": "none",
            "block_device_mapping_v2": list(devices), **more}
    answer = cloud.demo.request("POST", "/servers", json={"server": body})
    [fault] = answer.json().values()
    return answer.status_code, fault["message"]


def test_cinder_refuses_what_a_server_needs(cloud: Cloud) -> None:
    volume, root = cloud.volume(), device("image", cloud.image, volume_size=1)
    status, message = refused(cloud, {**root, "volume_type": "no-such-type"}, device("volume", volume, None))
    assert status == 400, message
    assert "no-such-type" in message
    quota = f"/os-quota-sets/{cloud.neighbours.project_id()}"
    # GiB: nobody else's volumes are that large
    cloud.cinder("PUT", quota, "admin", json={"quota_set": {"per_volume_gigabytes": 50}})
    try:
        status, message = refused(cloud, device("volume", volume, None), {**root, "volume_size": 60})
    finally:
        cloud.cinder("PUT", quota, "admin", json={"quota_set": {"per_volume_gigabytes": -1}})
    assert status == 403, message
    assert "Cinder" in message
    wait_for("no server", lambda: cloud.demo.servers() == [], 30)
    assert cloud.status(volume) == "available"
    assert cloud.attachments() == []


def test_another_projects_volume_is_not_there(cloud: Cloud) -> None:
    made = cloud.cinder("POST", "/volumes", "alt_demo", json={"volume": {"size": 1}})["volume"]["id"]
    wait_for("the volume", lambda: cloud.cinder("GET", f"/volumes/{made}", "alt_demo")["volume"]["status"] == "available", 60)
    server = cloud.active()
    answer = cloud.demo.request("POST", f"/servers/{server}/os-volume_attachments",
                                json={"volumeAttachment": {"volumeId": made}})
    assert answer.status_code == 404
    status, message = refused(cloud, device("volume", made))
    assert (status, message) == (400, f"Block Device Mapping is Invalid: failed to get volume {made}.")
    cloud.cinder("DELETE", f"/volumes/{made}", "alt_demo")


def test_a_killed_daemon_leaves_nothing_half_attached(cloud: Cloud) -> None:
    """Kill -9 in the middle of attaches and detaches: each ends, and what is attached is attached once."""
    servers, volumes = [cloud.active() for _ in range(3)], [cloud.volume() for _ in range(3)]
    for server, volume in zip(servers, volumes, strict=True):
        cloud.attach(server, volume)
    time.sleep(0.15)
    cloud.services.restart("compute", signal.SIGKILL)
    for volume in volumes:
        wait_for("in-use", lambda one=volume: cloud.status(one) == "in-use", 60)
    assert len(cloud.attachments()) == 3
    for server, volume in zip(servers, volumes, strict=True):
        wait_for("detach", lambda s=server, v=volume: cloud.demo.request(
            "DELETE", f"/servers/{s}/os-volume_attachments/{v}").status_code == 202, 30)
    time.sleep(0.1)
    cloud.services.restart("compute", signal.SIGKILL)
    for server, volume in zip(servers, volumes, strict=True):
        wait_for("available", lambda one=volume: cloud.status(one) == "available", 60)
        wait_for("nothing listed", lambda one=server: cloud.listed(one) == [], 60)


def test_a_killed_daemon_builds_on(cloud: Cloud) -> None:
    servers = [cloud.boot(device("image", cloud.image, volume_size=1, delete_on_termination=True)) for _ in range(3)]
    wait_for("volumes", lambda: any(cloud.demo.server(s)["OS-EXT-STS:task_state"] == "block_device_mapping" for s in servers)
             or all(cloud.demo.server(s)["status"] == "ACTIVE" for s in servers), 60)
    cloud.services.restart("compute", signal.SIGKILL)
    for server in servers:
        cloud.demo.wait(server, "ACTIVE", 90)
    assert sorted(a["status"] for a in cloud.attachments()) == ["attached"] * 3
