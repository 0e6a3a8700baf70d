"""The driver for Glance against a small Glance on a real port."""
import hashlib
import json
import time
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.identity import keystone
from nova_lite.image.glance import GlanceImages
from nova_lite.objects.image import ImageMeta
from tests.support.fake_glance import FakeGlance
from tests.support.fake_openstack import Answer, FakeOpenStack, write_conf

ALICE = RequestContext(auth_token="alice-token", project_id="alice", user_id="a", overwrite=False)
BOB = RequestContext(auth_token="bob-token", project_id="bob", user_id="b", overwrite=False)
SERVICE = admin_context()


@pytest.fixture
def glance():
    fake = FakeGlance()
    fake.tokens = {"alice-token": "alice", "bob-token": "bob"}
    return fake


@pytest.fixture
def cloud(glance):
    fake = FakeOpenStack("image", glance, versions={"v2.9": "/v2/"})
    yield fake
    fake.close()


@pytest.fixture
def images(cloud, tmp_path):
    return GlanceImages(nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud, timeout=1, retries=1)]))


def _made(images, context=ALICE, data=(b"abc", b"def"), **values):
    made = images.create(context, {"name": "one", "disk_format": "raw", "container_format": "bare", **values})
    return images.upload(context, made.id, data)


def test_every_field_is_read(images, glance):
    image_id = str(uuid.uuid4())
    glance.images[image_id] = {
        "id": image_id, "name": "tiny", "status": "active", "visibility": "public", "owner": "alice", "size": 6,
        "virtual_size": 10, "min_disk": 2, "min_ram": 64, "disk_format": "qcow2", "container_format": "bare",
        "checksum": "aa", "os_hash_algo": "sha256", "os_hash_value": "bb", "os_hidden": False, "protected": True,
        "tags": ["x"], "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z", "self": "/s",
        "file": "/f", "schema": "/s", "stores": "ceph", "direct_url": "rbd://x", "locations": [],
        "hw_disk_bus": "scsi", "os_distro": "debian"}
    assert images.get(ALICE, image_id) == ImageMeta(
        image_id, "tiny", "active", "public", "alice", 6, 2, 64, "qcow2", "bare", "sha256", "bb",
        {"hw_disk_bus": "scsi", "os_distro": "debian"}, ["x"], "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", True)


def test_what_a_queued_image_lacks_is_empty(images, tmp_path):
    queued = images.create(ALICE, {"name": "one"})
    assert (queued.status, queued.size, queued.checksum, queued.disk_format) == ("queued", 0, None, "")
    with pytest.raises(exception.ImageNotActive):
        images.download(ALICE, queued.id, str(tmp_path / "x"))
    with pytest.raises(exception.ImageNotActive):
        images.read(ALICE, queued.id)


def test_upload_and_download(images, tmp_path, cloud):
    data = [b"a" * 3_000_000, b"b" * 11]
    image = _made(images, data=data, properties={"hw_disk_bus": "scsi", "img_signature": None, "os_x": True}, min_disk=3)
    assert (image.status, image.size, image.min_disk) == ("active", 3_000_011, 3)
    assert image.checksum == hashlib.sha512(b"".join(data)).hexdigest()
    assert image.properties == {"hw_disk_bus": "scsi", "os_x": "True"}
    images.download(ALICE, image.id, str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b"".join(data)
    assert b"".join(images.read(ALICE, image.id)) == b"".join(data)
    with pytest.raises(exception.Conflict, match="data already"):
        images.upload(ALICE, image.id, [b"other"])
    put = next(c for c in cloud.calls if c.method == "PUT")
    assert put.headers["Transfer-Encoding"] == "chunked"        # never in memory as a whole


def test_an_upload_outlives_a_pause_longer_than_a_connection_may_take_to_open(cloud, tmp_path, monkeypatch):
    """Glance's store may be slow, and more than the buffers on the way hold is under way."""
    monkeypatch.setattr(keystone, "CONNECT_SECONDS", 0.5)
    images = GlanceImages(nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud, timeout=60, retries=0)]))
    cloud.server.pause = 2.0
    assert _made(images, data=[bytes(1 << 20)] * 32).size == 32 << 20


def test_an_upload_that_glance_takes_nothing_of_ends(cloud, tmp_path):
    images = GlanceImages(nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud, timeout=1, retries=0)]))
    cloud.server.pause = 600.0
    with pytest.raises(exception.ServiceUnavailable, match="it took nothing of the data for 1 s"):
        _made(images, data=[bytes(1 << 20)] * 32)


def test_a_download_with_the_record_at_hand_is_one_call(images, tmp_path, cloud):
    image = _made(images)
    cloud.calls.clear()
    images.download(SERVICE, image.id, str(tmp_path / "x"), image)
    assert [(c.method, c.path) for c in cloud.calls] == [("GET", f"/v2/images/{image.id}/file")]


def test_other_data_than_was_asked_for_is_refused(images, glance, tmp_path):
    image = _made(images)
    glance.data[image.id] = b"abcdeF"
    with pytest.raises(exception.ImageUnacceptable, match="checksum"):
        images.download(ALICE, image.id, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()
    glance.images[image.id] |= {"os_hash_algo": None, "os_hash_value": None}     # Glance before Rocky
    with pytest.raises(exception.ImageUnacceptable, match="checksum"):
        images.download(ALICE, image.id, str(tmp_path / "x"))
    glance.images[image.id]["checksum"] = None
    glance.data[image.id] = b"abc"
    with pytest.raises(exception.ImageUnacceptable, match="3 bytes came, not 6"):
        images.download(ALICE, image.id, str(tmp_path / "x"))


def test_a_stream_that_breaks_off_leaves_no_file(images, glance, tmp_path):
    image = _made(images)
    glance.cut = True
    with pytest.raises(exception.ServiceUnavailable, match="Glance is unavailable: its answer broke off"):
        images.download(ALICE, image.id, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_stream_that_stands_still_ends(images, cloud, tmp_path):
    image = _made(images)
    inner, cloud.handler = cloud.handler, lambda call: Answer(hang=30)
    began = time.monotonic()
    with pytest.raises(exception.ServiceUnavailable, match="Glance is unavailable: no answer within 2 s"):
        images.download(SERVICE, image.id, str(tmp_path / "x"), image)
    assert time.monotonic() - began < 25
    assert not (tmp_path / "x").exists()
    cloud.handler = inner


def test_who_sees_what(images, glance):
    private, public = _made(images, visibility="private"), _made(images, visibility="public")
    assert {i.id for i in images.list(ALICE)} == {private.id, public.id}
    assert [i.id for i in images.list(BOB)] == [public.id]
    assert {i.id for i in images.list(SERVICE)} == {private.id, public.id}
    for call in (images.get, images.read, images.delete):
        with pytest.raises(exception.ImageNotFound, match=private.id):
            call(BOB, private.id)
    glance.images[public.id]["status"] = "deactivated"
    assert images.get(BOB, public.id).status == "deactivated"
    with pytest.raises(exception.ImageNotFound):
        images.read(BOB, public.id)


def test_a_long_list_comes_in_pages(images, glance, cloud):
    ids = [_made(images).id for _ in range(7)]
    glance.page = 3
    cloud.calls.clear()
    assert [i.id for i in images.list(ALICE)] == ids
    assert len(cloud.calls) == 3


def test_update_changes_what_differs(images, glance, cloud):
    image = _made(images, properties={"keep": "1", "change": "2", "drop": "3", "a/b~c": "4"})
    glance.images[image.id]["os_glance_importing"] = "x"
    cloud.calls.clear()
    changed = images.update(ALICE, image.id, {"name": "two", "min_ram": 5,
                                              "properties": {"keep": "1", "change": 7, "new/one": "n"}})
    assert (changed.name, changed.min_ram) == ("two", 5)
    assert changed.properties == {"keep": "1", "change": "7", "new/one": "n", "os_glance_importing": "x"}
    patch = json.loads(cloud.calls[-1].body)
    assert {"op": "remove", "path": "/a~1b~0c"} in patch
    assert {"op": "add", "path": "/new~1one", "value": "n"} in patch
    assert not any("keep" in change["path"] for change in patch)
    with pytest.raises(exception.InvalidInput, match="status"):
        images.update(ALICE, image.id, {"status": "active"})


def test_refusals_say_what_glance_says(images):
    image = _made(images, visibility="public", protected=True)
    with pytest.raises(exception.Forbidden, match="Glance refuses: You are not authorized"):
        images.update(BOB, image.id, {"name": "mine"})
    with pytest.raises(exception.Forbidden, match="is protected"):
        images.delete(ALICE, image.id)
    images.update(ALICE, image.id, {"protected": False})
    images.delete(ALICE, image.id)
    with pytest.raises(exception.ImageNotFound):
        images.get(ALICE, image.id)
    with pytest.raises(exception.Conflict, match="already exists"):
        images.create(ALICE, {"id": _made(images).id})


@pytest.mark.parametrize("bad", ["", "..", "x", "a/b", "%2e%2e", "../v3", "11111111-2222-4333-8444-555555555555?x=1",
                                 "11111111222243338444555555555555"])
def test_ids_are_uuids_and_lead_nowhere_else(images, cloud, bad):
    for call in (images.get, images.read, images.delete):
        with pytest.raises(exception.ImageNotFound):
            call(SERVICE, bad)
    assert cloud.calls == []


def test_glance_down_is_said_so(images, cloud):
    image = _made(images)
    cloud.handler = lambda call: Answer(500, b"<html><h1>Internal Server Error</h1>boom</html>")
    said = "^Glance is unavailable: it answered 500: Internal Server Error boom$"
    with pytest.raises(exception.ServiceUnavailable, match=said) as raised:
        images.get(ALICE, image.id)
    assert raised.value.public == "Glance is unavailable: it answered 500"      # its words may tell URLs and hosts
    with pytest.raises(exception.ServiceUnavailable, match="Glance"):
        images.list(ALICE)
