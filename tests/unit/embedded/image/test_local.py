"""The local image driver on a real directory."""
import hashlib
import os
import pathlib
import threading
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.embedded.image.local import LocalImages

ALICE = RequestContext(project_id="alice", user_id="a", overwrite=False)
BOB = RequestContext(project_id="bob", user_id="b", overwrite=False)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "images"


@pytest.fixture
def images(directory):
    return LocalImages(nova_lite.conf.load([], config_files=[], image__local_path=str(directory)))


def _made(images, context=ALICE, data=(b"abc", b"def"), **values):
    return images.upload(context, images.create(context, {"name": "one", **values}).id, data)


def test_an_image_is_queued_until_its_data_came(images, tmp_path):
    queued = images.create(ALICE, {"name": "one", "min_disk": 2, "properties": {"hw_disk_bus": "scsi"}})
    assert (queued.status, queued.size, queued.checksum, queued.owner) == ("queued", 0, None, "alice")
    with pytest.raises(exception.ImageNotActive):
        images.download(ALICE, queued.id, str(tmp_path / "x"))
    active = images.upload(ALICE, queued.id, [b"abc", b"def"])
    assert (active.status, active.size) == ("active", 6)
    assert active.checksum == hashlib.sha512(b"abcdef").hexdigest()
    assert images.get(ALICE, queued.id) == active
    assert active.properties == {"hw_disk_bus": "scsi"}
    images.download(ALICE, queued.id, str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b"abcdef"
    assert b"".join(images.read(ALICE, queued.id)) == b"abcdef"
    with pytest.raises(exception.Conflict):
        images.upload(ALICE, queued.id, [b"other"])


def test_images_are_closed_to_others(images, directory):
    """One may be the copy of a guest's disk."""
    before = os.umask(0)
    try:
        _made(images)
    finally:
        os.umask(before)
    assert directory.stat().st_mode & 0o007 == 0


def test_data_that_changed_on_disk_is_refused(images, directory, tmp_path):
    image = _made(images)
    (directory / f"{image.id}.data").write_bytes(b"abcdeF")
    with pytest.raises(exception.ImageUnacceptable, match="checksum"):
        images.download(ALICE, image.id, str(tmp_path / "x"))


def test_a_broken_upload_leaves_the_image_queued_and_no_file(images, directory):
    image = images.create(ALICE, {"name": "one"})

    def broken():
        yield b"abc"
        raise ConnectionError("the client went away")

    with pytest.raises(ConnectionError):
        images.upload(ALICE, image.id, broken())
    assert images.get(ALICE, image.id).status == "queued"
    assert sorted(p.name for p in directory.iterdir()) == [".lock", f"{image.id}.json"]
    assert images.upload(ALICE, image.id, [b"x"]).size == 1


def test_a_server_reads_the_old_data_to_its_end_while_the_image_is_deleted(images):
    image = _made(images)
    pieces = images.read(ALICE, image.id)
    images.delete(ALICE, image.id)
    assert b"".join(pieces) == b"abcdef"
    with pytest.raises(exception.ImageNotFound):
        images.read(ALICE, image.id)


def test_a_delete_that_was_cut_off_can_be_run_again(images, directory, monkeypatch, tmp_path):
    class Killed(BaseException):
        """In the middle of it."""

    def die(path, **_):
        raise Killed
    image = _made(images)
    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "unlink", die)
        with pytest.raises(Killed):
            images.delete(ALICE, image.id)
    with pytest.raises(exception.ImageNotActive):
        images.download(ALICE, image.id, str(tmp_path / "x"))
    with pytest.raises(exception.Conflict):
        images.upload(ALICE, image.id, [b"other"])
    images.delete(ALICE, image.id)
    assert not (directory / f"{image.id}.data").exists()
    with pytest.raises(exception.ImageNotFound):
        images.get(ALICE, image.id)
    with pytest.raises(exception.Conflict):
        images.create(ALICE, {"id": image.id})


def test_what_killed_processes_have_left_goes_after_a_day(images, directory):
    image, deleted, nobody = _made(images), _made(images), uuid.uuid4()
    images.delete(ALICE, deleted.id)
    kept = set(os.listdir(directory))
    left = [f"{nobody}.data", f"{deleted.id}.data", f"{image.id}.{nobody}.part"]
    for name in left:
        (directory / name).touch()
    images.tidy()
    assert set(os.listdir(directory)) == {*kept, *left}         # it may be somebody's that is at work
    for path in directory.iterdir():
        os.utime(path, (1, 1))
    images.tidy()
    assert set(os.listdir(directory)) == kept


def test_who_sees_what(images):
    private, shared = _made(images), _made(images, visibility="shared")
    public, community = _made(images, visibility="public"), _made(images, visibility="community")
    assert {i.id for i in images.list(ALICE)} == {private.id, shared.id, public.id, community.id}
    assert [i.id for i in images.list(BOB)] == [public.id]
    assert {i.id for i in images.list(admin_context())} == {private.id, shared.id, public.id, community.id}
    assert images.get(BOB, community.id).id == community.id
    for hidden in (private, shared):
        with pytest.raises(exception.ImageNotFound):
            images.get(BOB, hidden.id)


def test_only_the_owner_and_an_admin_change_an_image(images):
    image = _made(images, visibility="public")
    for call in (lambda: images.update(BOB, image.id, {"name": "mine"}), lambda: images.delete(BOB, image.id)):
        with pytest.raises(exception.Forbidden):
            call()
    assert images.update(admin_context(), image.id, {"name": "two", "tags": ["x"]}).name == "two"
    assert images.get(ALICE, image.id).tags == ["x"]


def test_fields_of_the_service_cannot_be_set(images):
    image = images.create(ALICE, {"name": "one", "status": "active", "size": 5, "checksum": "x"})
    assert (image.status, image.size, image.checksum) == ("queued", 0, None)
    with pytest.raises(exception.InvalidInput, match="status"):
        images.update(ALICE, image.id, {"status": "active"})
    with pytest.raises(exception.InvalidInput, match="visibility"):
        images.update(ALICE, image.id, {"visibility": "everybody"})


def test_a_protected_image_is_not_deleted(images):
    image = _made(images, protected=True)
    with pytest.raises(exception.Forbidden, match="protected"):
        images.delete(ALICE, image.id)
    images.update(ALICE, image.id, {"protected": False})
    images.delete(ALICE, image.id)
    assert images.list(ALICE) == []


@pytest.mark.parametrize("bad", ["../../etc/passwd", "..", "", "x", "{11111111-2222-4333-8444-555555555555}", "a/b",
                                 "A1111111-2222-4333-8444-55555555555A", "11111111222243338444555555555555"])
def test_ids_are_uuids_and_lead_nowhere_else(images, directory, bad):
    directory.mkdir()
    (directory.parent / "secret.json").write_text("{}")
    with pytest.raises(exception.ImageNotFound):
        images.get(admin_context(), bad)
    with pytest.raises(exception.ImageNotFound):
        images.delete(admin_context(), bad)
    if bad:
        with pytest.raises(exception.InvalidInput):
            images.create(admin_context(), {"id": bad})


def test_an_id_is_given_once(images):
    chosen = str(uuid.uuid4())
    assert images.create(ALICE, {"id": chosen}).id == chosen
    with pytest.raises(exception.Conflict):
        images.create(BOB, {"id": chosen})


def test_one_of_many_uploads_wins(images):
    image = images.create(ALICE, {"name": "one"})
    ended = []

    def upload(n):
        try:
            images.upload(ALICE, image.id, [bytes([n]) * 100_000] * 20)
            ended.append(n)
        except exception.Conflict:
            pass

    threads = [threading.Thread(target=upload, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 1
    assert b"".join(images.read(ALICE, image.id)) == bytes(ended) * 2_000_000
    assert images.get(ALICE, image.id).checksum == hashlib.sha512(bytes(ended) * 2_000_000).hexdigest()


@pytest.mark.parametrize("broken", [b"", b'{"id": ', b"\xff\xfe", b"[1]", b"{}", b"null"])
def test_a_record_that_cannot_be_read_hides_no_other(images, directory, broken, caplog):
    made, lost = _made(images), _made(images)
    (directory / f"{lost.id}.json").write_bytes(broken)
    assert images.list(ALICE) == [images.get(ALICE, made.id)] == [made]
    with pytest.raises(exception.ImageNotFound):
        images.get(ALICE, lost.id)
    assert f"{lost.id}.json cannot be read" in caplog.text


def test_a_record_is_on_the_disk_before_it_has_its_name_and_the_name_before_the_answer(images, directory, monkeypatch):
    """What the loss of power would show; here the order of the calls must do."""
    calls, sync, rename = [], os.fsync, os.rename

    def fsync(descriptor):
        calls.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).rpartition(".")[2]))
        sync(descriptor)

    def renamed(old, new):
        calls.append(("rename", os.path.basename(new).rpartition(".")[2]))
        rename(old, new)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    images.create(ALICE, {"name": "one"})
    assert calls == [("fsync", "part"), ("rename", "json"), ("fsync", directory.name)]
