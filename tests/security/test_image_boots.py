"""Hostile images by REST, onto disks of a host: a real API, conductor, scheduler and compute daemon in one process, and
the libvirt driver with real files. Each ends in an answer or a fault in our own words, and no guest sees another file."""
from __future__ import annotations

import dataclasses
import os
import re
import shutil

import pytest

from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import VolumeCloud

from .crafted_images import crafted
from .image_hosts import SECRET, Hosts, hosts, shows_secret

pytest.importorskip("libvirt")
pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
# a sample of each kind: another file named in every way, false labels, lies about sizes, what ends too early
CHOSEN = re.compile(
    r"qcow2 v[23] on (path|json:|nbd|fat) as |qcow2 with a data file as |vmdk text (at once|after spaces): RW FLAT as raw"
    r"|vmdk with RW FLAT as vmdk|qed on a path as raw|(luks|bochs|vhdx|iso|qcow v1|parallels 2) as (raw|qcow2)$"
    r"|(qcow2 v3|gpt|raw) as (qcow2|raw)$|a disk of \d+ bytes as qcow2|\{'(crypt|snapshots|cluster_bits)': \d+\} as qcow2"
    r"|the first (0|4|104|65536) bytes as qcow2|a CD in the same file as qcow2")
FAULT = re.compile(r"Image \S+ is unacceptable: (OSError \(req-\S+\)|[\w ,;]+)$|Flavor's disk is too small")


class ImageCloud(VolumeCloud):
    """Its host makes disks; the fake driver has reported it."""

    def __init__(self, directory, found: Hosts):
        super().__init__(directory, image__driver="local", compute__service_down_time=3600)
        driver = found.start("h1")
        manager = self.hosts["h1"]
        manager.host = dataclasses.replace(manager.host, driver=driver)
        self.files = found.files

    def hostile(self, one):
        """The id of an image; None: the Image service does not take it."""
        made = self.services.image.create(self.user, {"name": "hostile", "disk_format": one.label})
        return self.services.image.upload(self.user, made.id, [one.data]).id

    def shown(self, server):
        """As its owner sees it, when its host is done with it."""
        self.wait_for(lambda: self.get(server).task_state is None and self.get(server).vm_state != states.BUILDING)
        return self.member.get(f"/servers/{server}")["server"]


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    with hosts(tmp_path / "computes", monkeypatch) as found:
        made = ImageCloud(tmp_path, found)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def hostile(tmp_path):
    (tmp_path / "secret").write_bytes(SECRET)
    found = [one for one in crafted(tmp_path / "secret") if CHOSEN.match(one.name)]
    assert len(found) > 40
    return found


def refused(cloud, one, method, path, body):
    """The words of a 400; None: the request is taken."""
    answer = cloud.member.call(method, path, body)
    assert answer.status_code in (200, 202, 400), (one.name, answer.text)
    return answer.json_body["badRequest"]["message"] if answer.status_code == 400 else None


def strange(one, words):
    """Whether these words about an image (None: it was taken) are not what its owner should read."""
    return words is not None if one.fits else words is None or not FAULT.search(words)


def test_servers_of_hostile_images(cloud, hostile, tmp_path):
    odd = {}
    for first in range(0, len(hostile), 8):
        made = {}
        for one in hostile[first:first + 8]:
            made[cloud.boot(imageRef=cloud.hostile(one))] = one
        for server, one in made.items():
            shown = cloud.shown(server)
            disk = cloud.files("h1", cloud.get(server)).disk
            words = shown["fault"]["message"] if shown["status"] == "ERROR" else None
            assert words is not None or disk.exists()
            # of an image that ends after its header, QEMU takes the rest for zeros
            if (strange(one, words) and "first 65536" not in one.name) or shows_secret(disk, "qcow2", tmp_path):
                odd[one.name] = (shown["status"], words)
            cloud.delete(server)
    assert odd == {}


def test_a_server_that_is_rebuilt_and_rescued_with_hostile_images(cloud, hostile):
    """It shows what was wrong, and none of them is on its disk."""
    server, odd = cloud.running(), {}
    for one in hostile:
        if not re.match(r"qcow2 v3 (on path|as raw)|vmdk text after|\{'crypt': 1\}|the first 104", one.name):
            continue
        image = cloud.hostile(one)
        for verb, key in (("rebuild", "imageRef"), ("rescue", "rescue_image_ref")):
            cloud.set(server, vm_state=states.ACTIVE)
            words = refused(cloud, one, "POST", f"/servers/{server}/action", {verb: {key: image}})
            shown = cloud.shown(server)
            words = words if words is not None else cloud.get(server).fault["message"]
            if strange(one, words) or image not in words:
                odd[f"{verb}: {one.name}"] = (shown["status"], words)
    assert odd == {}
