"""Hostile images through the REST API of a cloud in one process, with the embedded Image and Block Storage services and the
fake hypervisor. Each gets a clear answer or fault, and none is an error of the service."""
from __future__ import annotations

import re
import shutil

import pytest
import requests

from tests.support.cloud import Standalone

from .crafted_images import Crafted, crafted

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
CHOSEN = ("qcow2 v3 on path as qcow2", "qcow2 v3 on json: as raw", "qcow2 with a data file as qcow2", "{'crypt': 1} as qcow2",
          "vmdk text after a line feed: RW FLAT as raw", "vmdk with RW FLAT as vmdk", "parallels 2 as raw",
          f"a disk of {1 << 60} bytes as qcow2", "the first 104 bytes as qcow2", "qcow2 v3 as raw")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    made = Standalone(tmp_path_factory.mktemp("images"), None, "--virt-driver", "fake", "--set", "fake.fetch_images=true")
    try:
        yield made.start()
    finally:
        if made.process.popen is not None:
            made.stop()


@pytest.fixture(scope="module")
def token(cloud):
    return {"X-Auth-Token": cloud.token("demo")}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> dict[str, Crafted]:
    secret = tmp_path_factory.mktemp("host") / "secret"
    return {one.name: one for one in crafted(secret)}


def _upload(cloud, token, one):
    """The image's id; None: it was refused, as it should be."""
    made = requests.post(f"{cloud.url}/image/v2/images", headers=token, timeout=30, json={
        "name": "hostile", "disk_format": one.label, "container_format": "bare"})
    assert made.status_code in (201, 400, 409), made.text
    if made.status_code != 201:
        return None
    data = requests.put(f"{cloud.url}/image/v2/images/{made.json()['id']}/file", data=one.data, timeout=30,
                        headers={**token, "Content-Type": "application/octet-stream"})
    assert data.status_code in (204, 400, 409), data.text
    return made.json()["id"]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_server_on_a_volume_of_a_hostile_image(cloud, token, hostile, name):
    """The volume is made of the image by the same gate. The server's fault is what Nova says of a volume that could not be
    made; the log has the reason, as Cinder's would."""
    image, demo = _upload(cloud, token, hostile[name]), cloud.client("demo")
    if image is None:
        return
    answer = demo.request("POST", "/servers", json={"server": {
        "name": "hostile", "flavorRef": demo.flavor(), "networks": "none", "block_device_mapping_v2": [
            {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
             "delete_on_termination": True}]}})
    assert answer.status_code == 202, answer.text
    server = answer.json()["server"]["id"]
    fault = demo.wait(server, "ERROR")["fault"]
    demo.delete(server)
    demo.wait_gone(server)
    assert re.search("Volume .* did not finish being created .* its status is error", fault["message"])
    log = (cloud.directory / "state" / "nova-lite.log").read_text()
    assert f"Image {image} is unacceptable: " in log
    assert "Traceback" not in log


def test_data_that_was_changed_where_it_is_stored_is_the_servers_fault(cloud, token):
    image, demo = _upload(cloud, token, Crafted("plain", "raw", b"boot" * 1000)), cloud.client("demo")
    stored, = (cloud.directory / "state").rglob(f"{image}.data")
    stored.write_bytes(b"evil" * 1000)
    server = demo.boot(image=image)["id"]
    message = demo.wait(server, "ERROR")["fault"]["message"]
    assert f"Image {image} is unacceptable: its data does not fit its checksum" in message
    demo.delete(server)
    demo.wait_gone(server)


def test_certificates_are_refused_by_the_name_of_their_field(cloud):
    demo = cloud.client("demo")
    answer = demo.request("POST", "/servers", json={"server": {
        "name": "s", "imageRef": demo.image(), "flavorRef": demo.flavor(), "networks": "none",
        "trusted_image_certificates": ["a"]}})
    assert answer.status_code == 400
    assert "trusted_image_certificates" in answer.json()["badRequest"]["message"]
