"""Directories and images of an older version, which kept marks: each form becomes the record that says the same, once."""
import os
import threading
import types

import pytest

import nova_lite.conf
from nova_lite.virt.libvirt import older_marks
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import ASIDE, GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.moves import Moves

from .builders import UUID

MOVE = "30000000-0000-4000-8000-000000000003"
NOTES = "one\n\nqcow2\nimage"
FORMS = [
    # a guest, and what its disk was made of
    ({"owner": "one"}, Record(UUID, "one", State.HERE)),
    ({"owner": NOTES}, Record(UUID, "one", State.HERE, disk_format="qcow2", base="image")),
    ({"owner": "one\n\nraw\n-"}, Record(UUID, "one", State.HERE, disk_format="raw", base="")),
    ({"owner": "\n\nraw"}, Record(UUID, disk_format="raw")),
    # builds and removals, and what was there before either said whose it is
    ({"owner": "one", "moved-to": "one\nnew"}, Record(UUID, "one", State.BUILDING)),
    ({"moved-to": "one\nnew"}, Record(UUID, "one", State.BUILDING)),
    ({"owner": NOTES, "moved-to": "one\nremoved"}, Record(UUID, "one", State.REMOVING, disk_format="qcow2", base="image")),
    ({"moved-to": "one\nremoved"}, Record(UUID, "one", State.REMOVING)),
    ({"owner": "one", "moved-to": "two\nnew"}, Record(UUID, "one", State.HERE)),     # the build went on at another host
    # moves
    ({"moved-to": f"one\n{MOVE}"}, Record(UUID, "one", State.ARRIVING, MOVE)),
    ({"owner": "\n\nraw\n-", "moved-to": f"one\n{MOVE}"},
     Record(UUID, "one", State.ARRIVING, MOVE, disk_format="raw", base="")),
    ({"owner": "one", "moved-to": f"one\n{MOVE}"}, Record(UUID, "one", State.ARRIVING, MOVE)),
    ({"owner": "one", "moved-from": f"one\n{MOVE}"}, Record(UUID, "one", State.ASIDE, MOVE)),
    ({"moved-from": f"one\n{MOVE}"}, Record(UUID, "one", State.ASIDE, MOVE)),
    # live migrations
    ({"moved-to": "one"}, Record(UUID, "one", State.ARRIVING)),
    ({"owner": "one", "moved-to": "one"}, Record(UUID, "one", State.LEAVING)),
    ({"owner": "one", "moved-to": "one", "post-copy": "one"}, Record(UUID, "one", State.LEAVING, post_copy=True)),
    ({"owner": "one", "post-copy": "one"}, Record(UUID, "one", State.HERE, post_copy=True)),
    # evacuations
    ({"owner": "-"}, Record(UUID, "", State.ADOPTED)),
    ({"owner": "-\n\nqcow2\nimage", "moved-to": "two\nnew"},
     Record(UUID, "", State.ADOPTED, disk_format="qcow2", base="image")),
    ({"owner": "one\nshared"}, Record(UUID, "one", State.ADOPTED)),
    ({"owner": "one\nshared", "moved-to": "one\nremoved"}, Record(UUID, "one", State.REMOVING))]
ASIDES = [
    ({"owner": NOTES, "moved-from": f"one\n{MOVE}"}, Record(UUID, "one", State.ASIDE, MOVE, disk_format="qcow2", base="image")),
    ({"owner": "one", "moved-from": "one"}, Record(UUID, "one", State.ASIDE)),
    ({"owner": "one", "moved-from": f"one\ndropped {MOVE}"}, Record(UUID, "one", State.REMOVING, MOVE)),
    ({"owner": "one"}, Record(UUID))]


@pytest.fixture
def conf(tmp_path):
    return nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))


@pytest.fixture
def root(conf):
    return instances_root(conf)


OTHER = "00000000-0000-4000-8000-000000000009"


def leave(root, name, marks):
    """As the older version did."""
    files = GuestDirectory(root, name)
    files.make()
    files.disk.write_text("data")
    for mark, text in marks.items():
        (files.path / mark).write_text(text)
    return files


@pytest.mark.parametrize(("name", "marks", "record"), [
    *((UUID, *one) for one in FORMS), *((UUID + ASIDE, *one) for one in ASIDES)])
def test_a_directory_gets_the_record_that_says_what_its_marks_said(root, name, marks, record):
    files = leave(root, name, marks)
    for _ in range(2):
        older_marks.convert(root)
        assert files.record == record
        assert sorted(os.listdir(files.path)) == ["disk", "guest.json"]


def test_what_is_no_guests_directory_or_has_no_marks_stays_as_it_is(root):
    bare = leave(root, UUID, {})
    others = [leave(root, name, {"owner": "one"}) for name in ("_base", "backup", f"{UUID}.gone")]
    older_marks.convert(root)
    assert os.listdir(bare.path) == ["disk"]
    assert [sorted(os.listdir(files.path)) for files in others] == [["disk", "owner"]] * 3


def test_marks_that_a_killed_run_has_left_beside_the_record_say_nothing_any_more(root):
    files = leave(root, UUID, {"moved-to": "one\nremoved"})
    files.note(host="one", state=State.HERE)
    older_marks.convert(root)
    assert files.record == Record(UUID, "one", State.HERE)
    assert sorted(os.listdir(files.path)) == ["disk", "guest.json"]


def test_a_host_that_is_late_does_not_take_half_of_the_marks_for_all(root, monkeypatch):
    """Hosts with a common directory start at the same time. One has read the marks of which the other has removed some."""
    files = leave(root, UUID, {"owner": "one", "moved-to": "one\nremoved"})
    read = older_marks._read

    def late(path):
        (path / "owner").unlink(missing_ok=True)
        found = read(path)
        with monkeypatch.context() as patched:
            patched.setattr(older_marks, "_read", read)
            files.note(host="one", state=State.HERE)
        return found
    monkeypatch.setattr(older_marks, "_read", late)
    older_marks.convert(root)
    assert files.record == Record(UUID, "one", State.HERE)


def test_a_directory_that_another_host_removes_meanwhile_does_not_stop_the_start(root, monkeypatch):
    gone, kept = leave(root, UUID, {"owner": "two", "moved-to": "two\nremoved"}), leave(root, OTHER, {"owner": "one"})
    read = older_marks._read

    def late(path):
        found = read(path)
        if path == gone.path:
            gone.remove()
        return found
    monkeypatch.setattr(older_marks, "_read", late)
    older_marks.convert(root)
    assert (gone.path.exists(), kept.record) == (False, Record(OTHER, "one", State.HERE))


def test_hosts_that_start_at_the_same_time_write_one_record(root):
    guests = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(50)]
    for name in guests:
        leave(root, name, {"owner": NOTES, "moved-to": "one\nnew"})
    hosts = [threading.Thread(target=older_marks.convert, args=(root,)) for _ in range(4)]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    for name in guests:
        files = GuestDirectory(root, name)
        assert files.record == Record(name, "one", State.BUILDING, disk_format="qcow2", base="image")
        assert sorted(os.listdir(files.path)) == ["disk", "guest.json"]


def test_a_host_goes_on_with_what_an_older_version_has_set_aside_received_and_removed(conf, root):
    other = "22222222-2222-3333-4444-555555555555"
    leave(root, UUID + ASIDE, {"owner": "one", "moved-from": f"one\n{MOVE}"})
    leave(root, other, {"owner": "one", "moved-to": "one\nremoved"})
    older_marks.convert(root)
    moves = Moves(conf, "one", DiskMaker(conf))
    server = types.SimpleNamespace(uuid=UUID, host="one", deleted=0, task_state=None)
    assert moves.left_behind() == {UUID, other}
    assert moves.has_aside(server, MOVE)
    moves.bring_back(server, MOVE)
    moves.drop_left_behind(other)
    assert GuestDirectory(root, UUID).record == Record(UUID, "one", State.HERE)
    assert os.listdir(root) == [UUID]


@pytest.mark.parametrize(("notes", "record"), [
    ({}, Record(UUID)),
    ({"nova_lite.owner": "one"}, Record(UUID, "one", State.HERE)),
    ({"nova_lite.owner": "-"}, Record(UUID, "", State.ADOPTED)),
    ({"nova_lite.owner": "one shared"}, Record(UUID, "one", State.ADOPTED)),
    ({"nova_lite.owner": "two", "nova_lite.aside": f"one {MOVE}"}, Record(UUID, "two", State.HERE, MOVE, "one"))])
def test_an_image_is_read_by_its_older_notes(notes, record):
    assert older_marks.of_notes(UUID, notes) == record
