"""The local volume driver on a real directory."""
import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import threading
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception, units
from nova_lite.context import RequestContext, admin_context
from nova_lite.embedded.image.local import LocalImages
from nova_lite.embedded.volume.local import LocalVolumes
from nova_lite.volume import base
from tests.support.process import wait_for

ALICE = RequestContext(project_id="alice", user_id="a", auth_token="t", overwrite=False)
BOB = RequestContext(project_id="bob", user_id="b", auth_token="t", overwrite=False)
SERVICE = admin_context()
SERVER, OTHER = str(uuid.uuid4()), str(uuid.uuid4())
CONNECTOR = {"host": "one"}


@pytest.fixture
def conf(tmp_path):
    return nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))


@pytest.fixture
def volumes(conf):
    return base.load(conf)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "volumes"


def _image(conf, data=b"GUEST" + bytes(2000), size_gb=0, **values):
    images = LocalImages(conf)
    made = images.create(ALICE, {"name": "tiny", "disk_format": "raw", "min_disk": size_gb, **values})
    return images.upload(ALICE, made.id, [data])


def _ready(volumes, volume_id):
    return wait_for("the volume", lambda: (v := volumes.get(ALICE, volume_id)).status != "creating" and v, 20)


def test_a_blank_volume_is_a_sparse_file(volumes, directory):
    made = volumes.create(ALICE, 3, "data", "mine", metadata={"a": "b"})
    assert (made.status, made.size, made.name, made.description, made.project_id, made.metadata, made.bootable) == (
        "available", 3, "data", "mine", "alice", {"a": "b"}, False)
    status = (directory / f"{made.id}.raw").stat()
    assert (status.st_size, status.st_blocks, status.st_mode & 0o777) == (3 * units.GiB, 0, 0o600)
    assert sorted(os.listdir(directory)) == [".lock", f"{made.id}.json", f"{made.id}.raw"]
    volumes.delete(ALICE, made.id)
    volumes.delete(ALICE, made.id)      # gone already is no error
    assert os.listdir(directory) == [".lock"]


def test_the_life_of_an_attachment(volumes, directory):
    volume = volumes.create(ALICE, 1)

    def seen():
        shown = volumes.get(ALICE, volume.id)
        return shown.status, shown.attachments

    reserved = volumes.reserve(ALICE, volume.id, SERVER)
    assert (reserved.volume_id, reserved.server_id, reserved.status, reserved.connection_info) == (
        volume.id, SERVER, "reserved", {})
    assert seen() == ("reserved", [])
    for _ in range(2):
        connected = volumes.connect(SERVICE, reserved.id, {**CONNECTOR, "mountpoint": "/dev/vdb"})
        assert connected.connection_info["driver_volume_type"] == "local"
        assert connected.connection_info["data"]["device_path"] == str(directory / f"{volume.id}.raw")
        assert seen() == ("attaching", [])
    for _ in range(2):
        volumes.complete(SERVICE, reserved.id)
        assert seen() == ("in-use", [{"server_id": SERVER, "attachment_id": reserved.id, "device": "/dev/vdb"}])
    assert volumes.connect(SERVICE, reserved.id, CONNECTOR).status == "attached"      # after a crash, once more
    assert [a.id for a in volumes.attachments(SERVICE, SERVER)] == [reserved.id]
    assert volumes.attachments(SERVICE, OTHER) == []
    with pytest.raises(exception.InvalidVolume, match="current status is in-use"):
        volumes.reserve(ALICE, volume.id, OTHER)
    with pytest.raises(exception.InvalidVolume, match="current status is in-use"):
        volumes.delete(ALICE, volume.id)
    for _ in range(2):
        volumes.release(SERVICE, reserved.id)
        assert seen() == ("available", [])
    with pytest.raises(exception.VolumeAttachmentNotFound):
        volumes.connect(SERVICE, reserved.id, CONNECTOR)


def test_a_reserved_volume_is_nobody_elses(volumes):
    volume = volumes.create(ALICE, 1)
    first = volumes.reserve(ALICE, volume.id, SERVER)
    for server in (SERVER, OTHER):
        with pytest.raises(exception.InvalidVolume, match="reserved"):
            volumes.reserve(ALICE, volume.id, server)
    with pytest.raises(exception.InvalidVolume):
        volumes.delete(ALICE, volume.id)
    volumes.release(ALICE, first.id)
    assert volumes.reserve(ALICE, volume.id, OTHER).status == "reserved"


def test_a_multiattach_volume_is_in_use_until_the_last_server_lets_go(volumes):
    volume = volumes.create(ALICE, 1, volume_type="multiattach")
    assert volume.multiattach
    first, second = volumes.reserve(ALICE, volume.id, SERVER), volumes.reserve(ALICE, volume.id, OTHER)
    with pytest.raises(exception.InvalidVolume, match="already"):
        volumes.reserve(ALICE, volume.id, SERVER)
    for one in (first, second):
        volumes.connect(SERVICE, one.id, CONNECTOR)
        volumes.complete(SERVICE, one.id)
    assert len(volumes.get(ALICE, volume.id).attachments) == 2
    volumes.release(SERVICE, first.id)
    assert volumes.get(ALICE, volume.id).status == "in-use"
    volumes.release(SERVICE, second.id)
    assert volumes.get(ALICE, volume.id).status == "available"


def test_many_processes_and_threads_reserve_and_one_gets_it(conf, volumes):
    volume = volumes.create(ALICE, 1)
    got = []

    def take():
        with contextlib.suppress(exception.InvalidVolume):
            got.append(LocalVolumes(conf).reserve(ALICE, volume.id, str(uuid.uuid4())))

    threads = [threading.Thread(target=take) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_who_sees_what(volumes):
    mine, other = volumes.create(ALICE, 1, metadata={"k": "1", "x": "y"}), volumes.create(BOB, 1, metadata={"k": "1"})
    assert [v.id for v in volumes.list_all(ALICE)] == [mine.id]
    assert {v.id for v in volumes.list_all(SERVICE)} == {mine.id, other.id}
    assert {v.id for v in volumes.find(SERVICE, {"k": "1"})} == {mine.id, other.id}
    assert [v.id for v in volumes.find(ALICE, {"k": "1", "x": "y"})] == [mine.id]
    assert volumes.find(SERVICE, {"k": "2"}) == []
    assert volumes.get(SERVICE, other.id).id == other.id
    for call in (lambda: volumes.get(ALICE, other.id), lambda: volumes.reserve(ALICE, other.id, SERVER),
                 lambda: volumes.get(ALICE, "../evil"), lambda: volumes.get(ALICE, str(uuid.uuid4()))):
        with pytest.raises(exception.VolumeNotFound):
            call()
    volumes.delete(ALICE, other.id)
    assert volumes.get(BOB, other.id).status == "available"
    reserved = volumes.reserve(BOB, other.id, SERVER)
    assert volumes.attachments(ALICE, SERVER) == []
    with pytest.raises(exception.VolumeAttachmentNotFound):
        volumes.connect(ALICE, reserved.id, CONNECTOR)
    volumes.release(ALICE, reserved.id)
    assert len(volumes.attachments(BOB, SERVER)) == 1


def test_a_volume_from_an_image_holds_its_data_and_is_bootable(conf, volumes, directory):
    image = _image(conf, properties={"hw_disk_bus": "scsi"}, min_ram=64)
    made = volumes.create(ALICE, 1, image_id=image.id)
    assert made.bootable
    done = _ready(volumes, made.id)
    assert done.status == "available"
    assert done.image_metadata.items() >= {"image_id": image.id, "hw_disk_bus": "scsi", "min_ram": "64",
                                           "image_name": "tiny"}.items()
    data = directory / f"{made.id}.raw"
    assert data.stat().st_size == units.GiB
    with open(data, "rb") as stream:
        assert stream.read(5) == b"GUEST"
    wait_for("no other file", lambda: sorted(os.listdir(directory)) == [".lock", f"{made.id}.json", f"{made.id}.raw"])


def test_a_qcow2_image_becomes_raw_data(conf, volumes, directory, tmp_path):
    raw, qcow2 = tmp_path / "a.raw", tmp_path / "a.qcow2"
    raw.write_bytes(b"GUEST" + bytes(units.MiB))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, qcow2], check=True)
    made = volumes.create(ALICE, 1, image_id=_image(conf, qcow2.read_bytes(), disk_format="qcow2").id)
    assert _ready(volumes, made.id).status == "available"
    with open(directory / f"{made.id}.raw", "rb") as stream:
        assert stream.read(6) == b"GUEST\0"


def test_an_image_that_is_not_what_it_says_ends_in_error_and_leaves_no_data(conf, volumes, directory):
    made = volumes.create(ALICE, 1, image_id=_image(conf, disk_format="qcow2").id)
    assert _ready(volumes, made.id).status == "error"
    wait_for("no data", lambda: sorted(os.listdir(directory)) == [".lock", f"{made.id}.json"])
    with pytest.raises(exception.InvalidVolume, match="current status is error"):
        volumes.reserve(ALICE, made.id, SERVER)
    volumes.delete(ALICE, made.id)


@pytest.mark.parametrize(("values", "error"), [
    ({"size": 0}, exception.InvalidVolume), ({"image_id": str(uuid.uuid4())}, exception.ImageNotFound),
    ({"snapshot_id": str(uuid.uuid4())}, exception.SnapshotNotFound)])
def test_what_cannot_be_made_is_refused_and_leaves_nothing(volumes, directory, values, error):
    with pytest.raises(error):
        volumes.create(ALICE, **{"size": 1, **values})
    assert not directory.exists()


def test_a_volume_is_not_smaller_than_its_source(conf, volumes):
    with pytest.raises(exception.InvalidVolume, match="needs 5 GiB"):
        volumes.create(ALICE, 4, image_id=_image(conf, size_gb=5).id)
    snapshot = volumes.create_snapshot(ALICE, volumes.create(ALICE, 2).id)
    with pytest.raises(exception.InvalidVolume, match="needs 2 GiB"):
        volumes.create(ALICE, 1, snapshot_id=snapshot.id)


def test_a_snapshot_keeps_what_the_volume_held(volumes, directory):
    volume = volumes.create(ALICE, 1)
    data = directory / f"{volume.id}.raw"
    with open(data, "r+b") as stream:
        stream.write(b"before")
    snapshot = volumes.create_snapshot(ALICE, volume.id, "s")
    with open(data, "r+b") as stream:
        stream.write(b"after!")
    assert (volumes.get_snapshot(ALICE, snapshot.id).status, snapshot.size, snapshot.volume_id) == ("available", 1, volume.id)
    with pytest.raises(exception.SnapshotNotFound):
        volumes.get_snapshot(BOB, snapshot.id)
    with pytest.raises(exception.InvalidVolume, match="dependent snapshots"):
        volumes.delete(ALICE, volume.id)
    made = volumes.create(ALICE, 2, snapshot_id=snapshot.id)
    assert _ready(volumes, made.id).status == "available"
    copy = directory / f"{made.id}.raw"
    with open(copy, "rb") as stream:
        assert stream.read(7) == b"before\0"
    assert (copy.stat().st_size, copy.stat().st_blocks < 1000) == (2 * units.GiB, True)
    volumes.delete_snapshot(ALICE, snapshot.id)
    volumes.delete(ALICE, volume.id)
    assert [v.id for v in volumes.list_all(ALICE)] == [made.id]


_DIES = """
import os, sys
import nova_lite.conf
from nova_lite.context import RequestContext
from nova_lite.embedded.image.local import LocalImages
from nova_lite.embedded.volume.local import LocalVolumes
state, image_id, when = sys.argv[1:]
conf = nova_lite.conf.load([], config_files=[], state_path=state)
if when == "download":
    def die(_images, _context, _image_id, path):
        open(path, "wb").write(b"half")
        os._exit(0)
    LocalImages.download = die
else:
    LocalVolumes._end_making = lambda *_: os._exit(0)
volumes = LocalVolumes(conf)
made = volumes.create(RequestContext(project_id="alice", auth_token="t"), 1, image_id=image_id)
import time
time.sleep(20)
"""


@pytest.mark.parametrize(("when", "status"), [("download", "error"), ("after", "available")])
def test_a_maker_that_died_leaves_no_volume_that_is_created_for_ever(conf, volumes, directory, when, status):
    subprocess.run([sys.executable, "-c", _DIES, conf.state_path, _image(conf).id, when], check=True, timeout=60,
                   env={**os.environ, "NOVA_LITE_CONCURRENCY": "threading"})
    volume, = volumes.list_all(ALICE)
    assert json.loads((directory / f"{volume.id}.json").read_text())["status"] == "creating"
    assert volume.status == status
    left = {path.name: path.stat().st_mode & 0o077 for path in directory.glob(f"{volume.id}.raw*")}
    assert not any(left.values())       # an image may be the copy of a guest's disk
    assert (f"{volume.id}.raw.part.image" in left) == (when == "download")
    if status == "available":
        assert volumes.reserve(ALICE, volume.id, SERVER).status == "reserved"
    else:
        volumes.delete(ALICE, volume.id)
        assert os.listdir(directory) == [".lock"]


class Killed(BaseException):
    """In the middle of something."""


def test_a_delete_that_was_cut_off_can_be_run_again(volumes, directory, monkeypatch):
    volume = volumes.create(ALICE, 1)
    snapshot = volumes.create_snapshot(ALICE, volume.id)

    def die(path, **_):
        raise Killed
    for delete, lost in ((volumes.delete_snapshot, snapshot.id), (volumes.delete, volume.id)):
        with monkeypatch.context() as patched:
            patched.setattr(pathlib.Path, "unlink", die)
            with pytest.raises(Killed):
                delete(ALICE, lost)
        if lost == snapshot.id:
            assert volumes.get_snapshot(ALICE, lost).status == "deleting"
            with pytest.raises(exception.InvalidVolume, match="is deleting"):
                volumes.create(ALICE, 1, snapshot_id=lost)
        else:
            assert volumes.get(ALICE, lost).status == "deleting"
            with pytest.raises(exception.InvalidVolume, match="is deleting"):
                volumes.reserve(ALICE, lost, SERVER)
        delete(ALICE, lost)
    assert [path.name for path in directory.rglob("*") if path.is_file()] == [".lock"]


def test_what_killed_processes_have_left_goes_after_a_day(volumes, directory):
    volume, made = volumes.create(ALICE, 1), volumes.create(ALICE, 1)
    snapshot = volumes.create_snapshot(ALICE, volume.id)
    kept = {path.relative_to(directory).as_posix() for path in directory.rglob("*")}
    nobody, busy = uuid.uuid4(), directory / f"{made.id}.raw.part"
    left = [f"{nobody}.raw", f"{volume.id}.{nobody}.part", f"{volume.id}.raw.part", f"{volume.id}.raw.part.image",
            f"snapshots/{nobody}.raw", f"snapshots/{snapshot.id}.raw.part"]
    for path in (*(directory / name for name in left), busy):
        path.touch()
    with open(busy, "rb") as maker:         # which lives
        fcntl.flock(maker, fcntl.LOCK_EX)
        volumes.tidy()
        assert all((directory / name).exists() for name in left)        # it may be somebody's that is at work
        for path in directory.rglob("*"):
            os.utime(path, (1, 1))
        volumes.tidy()
    assert {path.relative_to(directory).as_posix() for path in directory.rglob("*")} == {*kept, busy.name}
    volumes.delete_snapshot(ALICE, snapshot.id)


def test_a_volume_grows_when_nobody_uses_it(volumes, directory):
    volume = volumes.create(ALICE, 1)
    volumes.extend(ALICE, volume.id, 2)
    assert (volumes.get(ALICE, volume.id).size, (directory / f"{volume.id}.raw").stat().st_size) == (2, 2 * units.GiB)
    with pytest.raises(exception.InvalidVolume, match="greater"):
        volumes.extend(ALICE, volume.id, 2)
    volumes.reserve(ALICE, volume.id, SERVER)
    with pytest.raises(exception.InvalidVolume, match="reserved"):
        volumes.extend(ALICE, volume.id, 3)


def test_a_reserved_volume_gets_another_image(conf, volumes, directory):
    first, other = _image(conf), _image(conf, b"OTHER" + bytes(2000))
    made = _ready(volumes, volumes.create(ALICE, 1, image_id=first.id).id)
    with pytest.raises(exception.InvalidVolume, match="must be reserved to reimage"):
        volumes.reimage(SERVICE, made.id, other.id)
    volumes.reserve(ALICE, made.id, SERVER)
    for name in (f"{made.id}.raw.part", f"{made.id}.raw.part.image"):      # whoever began it before is dead
        (directory / name).touch()
    volumes.reimage(SERVICE, made.id, other.id)
    shown = volumes.get(ALICE, made.id)
    assert (shown.status, shown.image_metadata["image_id"]) == ("reserved", other.id)
    with open(directory / f"{made.id}.raw", "rb") as stream:
        assert stream.read(5) == b"OTHER"
    assert (directory / f"{made.id}.raw").stat().st_size == units.GiB
    assert not list(directory.glob("*.part*"))


def test_an_image_that_does_not_fit_leaves_the_volume_as_it_was(conf, volumes, directory):
    made = _ready(volumes, volumes.create(ALICE, 1, image_id=_image(conf).id).id)
    volumes.reserve(ALICE, made.id, SERVER)
    broken = _image(conf, b"QFI\xfb" + bytes(2000))
    with pytest.raises(exception.NovaLiteError, match="its data is qcow2"):
        volumes.reimage(SERVICE, made.id, broken.id)
    assert volumes.get(ALICE, made.id).status == "reserved"
    with open(directory / f"{made.id}.raw", "rb") as stream:
        assert stream.read(5) == b"GUEST"


def test_only_a_server_that_has_it_gets_a_second_attachment(volumes):
    made = volumes.create(ALICE, 1)
    first = volumes.reserve(ALICE, made.id, SERVER)
    for server in (SERVER, OTHER):
        with pytest.raises(exception.InvalidVolume):
            volumes.reserve(ALICE, made.id, server)
    volumes.connect(SERVICE, first.id, CONNECTOR)
    volumes.complete(SERVICE, first.id)
    with pytest.raises(exception.InvalidVolume):
        volumes.reserve(ALICE, made.id, OTHER)
    second = volumes.reserve(ALICE, made.id, SERVER)
    assert volumes.get(ALICE, made.id).status == "in-use"
    with pytest.raises(exception.InvalidVolume):
        volumes.reserve(ALICE, made.id, SERVER)
    volumes.release(ALICE, first.id)
    assert volumes.get(ALICE, made.id).status == "reserved"
    assert [a.id for a in volumes.attachments(SERVICE, SERVER)] == [second.id]


@pytest.mark.parametrize("broken", [b"", b'{"id": ', b"\xff\xfe", b"[1]", b"{}", b"null"])
def test_a_record_that_cannot_be_read_hides_no_other(volumes, directory, broken, caplog):
    made, lost = volumes.create(ALICE, 1, "good"), volumes.create(ALICE, 1, "lost")
    (directory / f"{lost.id}.json").write_bytes(broken)
    assert [v.name for v in volumes.list_all(ALICE)] == ["good"]
    assert volumes.get(ALICE, made.id).name == "good"
    with pytest.raises(exception.VolumeNotFound):
        volumes.get(ALICE, lost.id)
    assert f"{lost.id}.json cannot be read" in caplog.text
