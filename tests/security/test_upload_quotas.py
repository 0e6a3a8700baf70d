"""Quotas of the embedded Image and Block Storage services, and disks that are nearly full."""
from __future__ import annotations

import collections
import shutil
import threading
import uuid

import pytest
import webob

from nova_lite import conf as conf_module
from nova_lite import units
from nova_lite.embedded import disk_room
from nova_lite.embedded.api import image as image_api
from nova_lite.embedded.api import volume as volume_api
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.embedded.image import local
from tests.support import openstack_cli
from tests.support.cloud import Standalone

USERS = {"admin": ("admin", ["admin", "member"]), "demo": ("demo", ["member"]), "other": ("other", ["member"])}
Usage = collections.namedtuple("Usage", "total used free")


class Pattern:
    """A body of many MiB that is nowhere in memory. ``pause``: an event that is waited for before the last piece."""

    def __init__(self, mib, pause=None):
        self.left, self.pause, self.begun = mib, pause, threading.Event()

    def read(self, size=-1):
        if self.left <= 0:
            return b""
        if self.left == 1 and self.pause:
            self.begun.set()
            assert self.pause.wait(30)
        self.left -= 1
        return b"x" * units.MiB


class Cloud:
    """Both APIs; each call asks as a user and answers the response."""

    def __init__(self, directory):
        self.directory = directory
        self.conf = conf_module.load([], config_files=[], state_path=str(directory), image__local_quota_gb=1,
                                     volume__local_quota_gb=10)
        identity = LocalIdentity(f"{directory}/identity")
        passwords = identity.ensure(USERS)
        self.tokens = {name: identity.authenticate(name, passwords[name], None)[0] for name in USERS}
        self.images, self.volumes = image_api.factory(self.conf), volume_api.factory(self.conf)

    def image(self, user="demo"):
        return self.on_image("POST", "", {"name": "one"}, user).json["id"]

    def on_image(self, method, path, body=None, user="demo"):
        return self._send(self.images, user, method, f"/v2/images{path}", body)

    def upload(self, image, data, user="demo"):
        request = webob.Request.blank(f"/v2/images/{image}/file", method="PUT", headers={
            "X-Auth-Token": self.tokens[user], "Transfer-Encoding": "chunked"})
        request.body_file = data
        return request.get_response(self.images)

    def status(self, image, user="demo"):
        return self._send(self.images, user, "GET", f"/v2/images/{image}").json["status"]

    def volume(self, size, user="demo", **values):
        return self._send(self.volumes, user, "POST", "/v3/volumes", {"volume": {"size": size, **values}})

    def on_volume(self, method, path, body=None, user="demo"):
        return self._send(self.volumes, user, method, f"/v3{path}", body)

    def _send(self, app, user, method, path, body=None):
        request = webob.Request.blank(path, method=method, headers={"X-Auth-Token": self.tokens[user]})
        if body is not None:
            request.json = body
        return request.get_response(app)

    def left_behind(self):
        return [path.name for path in (self.directory / "images").glob("*.part")]


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


@pytest.fixture
def small(cloud, monkeypatch):
    """The quota of images in MiB, as writing GiB takes long."""
    def limit(mib):
        monkeypatch.setattr(cloud.images.routes[-1].handler.__self__.images, "_quota", mib * units.MiB)
    cloud.limit = limit
    limit(8)
    return cloud


def _free(monkeypatch, free):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 * units.GiB, 100 * units.GiB - free, free))


def test_a_project_has_so_many_bytes_of_images(small):
    assert small.upload(small.image(), Pattern(5)).status_code == 204
    too_large = small.image()
    refused = small.upload(too_large, Pattern(4))
    assert refused.status_code == 413
    assert str(8 * units.MiB) in refused.json["error"]["message"]
    assert (small.status(too_large), small.left_behind()) == ("queued", [])
    assert small.upload(too_large, Pattern(3)).status_code == 204
    assert small.upload(small.image("other"), Pattern(8), "other").status_code == 204


def test_what_is_deleted_may_be_stored_again(small):
    image = small.image()
    assert small.upload(image, Pattern(8)).status_code == 204
    assert small.upload(small.image(), Pattern(1)).status_code == 413
    small._send(small.images, "demo", "DELETE", f"/v2/images/{image}")
    assert small.upload(small.image(), Pattern(8)).status_code == 204


def test_an_image_without_data_needs_no_room(small):
    image, empty = small.image(), small.image()
    assert small.upload(image, Pattern(8)).status_code == 204
    small.limit(4)          # an operator has changed his mind
    assert small.upload(small.image(), Pattern(1)).status_code == 413
    assert small.upload(empty, Pattern(0)).status_code == 204


def test_an_upload_without_end_is_stopped(small):
    data = Pattern(10 ** 9)
    assert small.upload(small.image(), data).status_code == 413
    assert 10 ** 9 - data.left < 12
    assert small.left_behind() == []


def test_uploads_at_the_same_time_have_one_quota(small):
    go, answers = threading.Event(), []
    first, second = Pattern(5, go), small.image()
    thread = threading.Thread(target=lambda image: answers.append(small.upload(image, first)), args=[small.image()])
    thread.start()
    assert first.begun.wait(30)
    refused = small.upload(second, Pattern(5))
    go.set()
    thread.join()
    assert (refused.status_code, answers[0].status_code) == (413, 204)


@pytest.mark.parametrize("free", [0, disk_room.RESERVE - 1, disk_room.RESERVE + units.MiB // 2])
def test_an_image_never_fills_the_disk(cloud, monkeypatch, free):
    image = cloud.image()
    _free(monkeypatch, free)
    refused = cloud.upload(image, Pattern(2))
    assert (refused.status_code, refused.json["error"]["message"]) == (
        413, "Storage is full: there is too little room left on its disk.")
    assert (cloud.status(image), cloud.left_behind()) == ("queued", [])


@pytest.fixture
def four_images(monkeypatch):
    """The quota of images, as making a thousand takes long."""
    assert local.MOST_IMAGES == 1000
    monkeypatch.setattr(local, "MOST_IMAGES", 4)


@pytest.mark.usefixtures("four_images")
def test_a_project_has_so_many_images_with_data_or_without(cloud):
    images = [cloud.image() for _ in range(4)]
    refused = cloud.on_image("POST", "", {"name": "one more"})
    assert refused.status_code == 413
    assert "Quota exceeded for images: the project has 4 of 4" in refused.json["error"]["message"]
    assert cloud.on_image("DELETE", f"/{images[0]}").status_code == 204
    assert cloud.on_image("POST", "", {"name": "one more"}).status_code == 201
    assert cloud.on_image("POST", "", {"name": "another"}, "other").status_code == 201


@pytest.mark.usefixtures("four_images")
def test_images_made_at_the_same_time_have_one_quota(cloud):
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(cloud.on_image("POST", "", {"name": "one"}).status_code))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201] * 4 + [413] * 4


def test_what_is_left_of_deleted_images_is_their_id(cloud):
    """Also of images that an earlier version has deleted."""
    ids = [str(uuid.uuid4()) for _ in range(6)]
    for image in ids[:5]:
        body = {"id": image, **{f"property{number}": "x" * 400 for number in range(100)}}
        assert cloud.on_image("POST", "", body).status_code == 201
        assert cloud.on_image("DELETE", f"/{image}").status_code == 204
    (cloud.directory / "images" / f"{ids[5]}.deleted").write_text("x" * 100_000)
    image_api.factory(cloud.conf)
    assert sum(path.stat().st_size for path in (cloud.directory / "images").iterdir()) == 6 * 37
    with open(cloud.directory / "images" / "deleted-ids", "ab") as stream:
        stream.write(b"a part of a li")     # of a process that was killed
    ids.append(cloud.image())
    assert cloud.on_image("DELETE", f"/{ids[6]}").status_code == 204
    for image in ids:
        assert cloud.on_image("POST", "", {"id": image}).status_code == 409, image


@pytest.mark.parametrize(("values", "word"), [
    ({f"property{number}": "x" for number in range(257)}, "properties"), ({"tags": [str(n) for n in range(129)]}, "tags"),
    ({f"property{number}": "x" * 1000 for number in range(70)}, "properties"), ({"one": "\u00e9" * 33_000}, "properties")])
def test_an_image_has_so_many_properties_and_tags(cloud, values, word):
    """Whether they come at once or one after the other."""
    refused = cloud.on_image("POST", "", values)
    assert refused.status_code == 400
    assert word in refused.json["error"]["message"]
    image, answers = cloud.image(), []
    parts = [{name: value} for name, value in values.items()] if len(values) > 1 else [values]
    for part in parts:
        operations = [{"op": "add", "path": f"/{name}", "value": value} for name, value in part.items()]
        answers.append(cloud.on_image("PATCH", f"/{image}", operations).status_code)
    assert answers[-1] == 400
    assert len(cloud.on_image("GET", f"/{image}").body) < 100_000


def test_no_record_is_written_on_a_disk_that_is_nearly_full(cloud, monkeypatch):
    image = cloud.image()
    _free(monkeypatch, disk_room.RESERVE - 1)
    assert cloud.on_image("POST", "", {"name": "one"}).status_code == 413
    assert cloud.on_image("PATCH", f"/{image}", [{"op": "add", "path": "/a", "value": "b"}]).status_code == 413
    assert cloud.on_image("DELETE", f"/{image}").status_code == 204


def test_a_volume_has_so_many_metadata(cloud):
    metadata = {str(number): "x" for number in range(129)}
    refused = cloud.volume(1, metadata=metadata)
    assert refused.status_code == 400
    assert "metadata: a volume has at most 128" in refused.json["error"]["message"]
    volume = cloud.volume(1).json["volume"]["id"]
    assert cloud.on_volume("PUT", f"/volumes/{volume}", {"volume": {"metadata": metadata}}).status_code == 400
    codes = [cloud.on_volume("POST", f"/volumes/{volume}/metadata", {"metadata": {name: "x"}}).status_code for name in metadata]
    assert codes == [200] * 128 + [400]


def test_a_project_has_so_many_gigabytes_of_volumes_and_snapshots(cloud):
    made = cloud.volume(6)
    assert made.status_code == 202
    refused = cloud.volume(5)
    assert refused.status_code == 413
    assert "used" not in refused.json["error"]["message"]
    assert "6 of 10" in refused.json["error"]["message"]
    volume = made.json["volume"]["id"]
    assert cloud.on_volume("POST", "/snapshots", {"snapshot": {"volume_id": volume}}).status_code == 413
    assert cloud.on_volume("POST", f"/volumes/{volume}/action", {"os-extend": {"new_size": 11}}).status_code == 413
    assert cloud.on_volume("POST", f"/volumes/{volume}/action", {"os-extend": {"new_size": 8}}).status_code == 202
    small = cloud.volume(1).json["volume"]["id"]
    assert cloud.on_volume("POST", "/snapshots", {"snapshot": {"volume_id": small}}).status_code == 202
    assert cloud.volume(1).status_code == 413
    assert cloud.volume(10, "other").status_code == 202
    limits = cloud.on_volume("GET", "/limits").json["limits"]["absolute"]
    assert (limits["maxTotalVolumeGigabytes"], limits["totalGigabytesUsed"]) == (10, 10)
    assert cloud.on_volume("GET", "/os-quota-sets/x").json["quota_set"]["gigabytes"] == 10


def test_volumes_made_at_the_same_time_have_one_quota(cloud):
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(cloud.volume(3).status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [202] * 3 + [413] * 5


def test_no_volume_is_made_on_a_disk_that_is_nearly_full(cloud, monkeypatch):
    volume = cloud.volume(1).json["volume"]["id"]
    _free(monkeypatch, disk_room.RESERVE - 1)
    assert cloud.volume(1).status_code == 413
    assert cloud.on_volume("POST", f"/volumes/{volume}/action", {"os-extend": {"new_size": 2}}).status_code == 413
    assert cloud.on_volume("POST", "/snapshots", {"snapshot": {"volume_id": volume}}).status_code == 413
    assert [v["id"] for v in cloud.on_volume("GET", "/volumes").json["volumes"]] == [volume]
    assert cloud.on_volume("GET", "/snapshots").json["snapshots"] == []


def test_a_volume_of_an_image_needs_room_for_it(cloud, monkeypatch):
    image = cloud.image()
    assert cloud.upload(image, Pattern(2)).status_code == 204
    _free(monkeypatch, disk_room.RESERVE + 3 * units.MiB)
    assert cloud.volume(1, imageRef=image).status_code == 413
    assert cloud.volume(1).status_code == 202


def test_no_limit(cloud):
    cloud.conf.set_override("local_quota_gb", -1, group="volume")
    assert cloud.volume(10 ** 6).status_code == 202


def test_the_stock_client_tells_what_is_wrong(tmp_path):
    """Over HTTP: the answer must reach a client that is still sending."""
    standalone = Standalone(tmp_path, None, "--virt-driver", "fake", "--set", "image.local_quota_gb=1",
                            "--set", "volume.local_quota_gb=2").start()
    openstack = openstack_cli.Openstack(tmp_path / "state" / "clouds.yaml", "nova-lite-demo")
    try:
        stored = openstack("image", "create", "--disk-format", "raw", "stored")["id"]
        with open(tmp_path / "state" / "images" / f"{stored}.data", "wb") as sparse:
            sparse.truncate(units.GiB)
        data = tmp_path / "data"
        data.write_bytes(b"x" * 40 * units.MiB)
        said = openstack("image", "create", "--file", str(data), "--disk-format", "raw", "large", fails=True)
        assert "413" in said
        assert "bytes of images" in said
        said = openstack("volume", "create", "--size", "3", "large", fails=True)
        assert "413" in said
        assert "gigabytes of volumes" in said
    finally:
        openstack.close()
        standalone.stop()
