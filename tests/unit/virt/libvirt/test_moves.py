"""The files of guests that move: whose they are, of which move, and what a killed process leaves of them."""
import os
import shutil
import time
import types
import uuid

import pytest

import nova_lite.conf
from nova_lite.virt.libvirt import files as guest_files
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import ASIDE, GuestDirectory, finish_removals, instances_root
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.moves import Moves

MOVE, OLDER = str(uuid.uuid4()), str(uuid.uuid4())


@pytest.fixture
def server():
    return types.SimpleNamespace(uuid=str(uuid.uuid4()), host="one", deleted=0, task_state=None)


@pytest.fixture
def host(tmp_path):
    """Makes hosts; those of one name have one directory."""
    def make(name, directory="state"):
        conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path / directory))
        made = Moves(conf, name, DiskMaker(conf))
        made.root = instances_root(conf)
        return made
    return make


def guest(host, server, content, owner=None):
    """A guest's directory with a disk."""
    files = GuestDirectory(host.root, server.uuid)
    files.make()
    files.disk.write_text(content)
    if owner:
        files.note(host=owner, state=State.HERE)
    return files


def aside(host, server):
    return GuestDirectory(host.root, server.uuid + ASIDE)


class Killed(BaseException):
    """The process ends here."""


def killed_in_removal(monkeypatch, after, remove):
    """Call ``remove``, and die after some files are gone, in the order of their names."""
    def some(path, onerror=None):
        for one in sorted(path.glob("*"))[:after]:
            one.unlink()
        if path.exists():
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(guest_files, "shutil", types.SimpleNamespace(rmtree=some))
        with pytest.raises(Killed):
            remove()


def test_a_refused_move_leaves_the_live_guest_of_a_shared_directory(host, server):
    old, new = host("old"), host("new")
    files = guest(old, server, "live", "old")
    new.drop_received(server)
    new.drop_left_behind(server.uuid)
    assert files.disk.read_text() == "live"


def test_what_was_received_goes_before_and_after_it_is_settled(host, server):
    new = host("new")
    for settle in (False, True):
        new.receive(server, None, lambda *_: None, MOVE)
        files = guest(new, server, "copy")
        if settle:
            new.settled(server)
        new.drop_received(server)
        assert not files.path.exists()


def test_an_older_move_s_copy_is_not_taken_for_this_one_s(host, server):
    one = host("one")
    one.receive(server, None, lambda *_: None, OLDER)
    guest(one, server, "of an older move")
    guest(one, types.SimpleNamespace(uuid=server.uuid + ASIDE), "what is now")
    aside(one, server).note(host="one", state=State.ASIDE, move=MOVE)
    for _ in range(2):
        one.receive(server, None, lambda *_: None, MOVE)
        assert GuestDirectory(one.root, server.uuid).disk.read_text() == "what is now"


def test_this_move_s_copy_is_kept_by_a_second_run(host, server):
    one = host("one")
    one.receive(server, None, lambda *_: None, MOVE)
    files = guest(one, server, "copied")
    one.receive(server, None, lambda *_: None, MOVE)
    assert files.disk.read_text() == "copied"


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_removal_over_which_the_process_dies_is_finished_and_never_served(host, server, monkeypatch, after):
    one = host("one")
    guest(one, server, "old")
    one.set_aside(server, OLDER)
    killed_in_removal(monkeypatch, after, lambda: one.drop_aside(server.uuid))
    assert not one.has_aside(server, OLDER)
    assert one.left_behind() == set()
    guest(one, server, "new", "one")
    one.return_if_alone(server)
    one.set_aside(server, MOVE)
    assert aside(one, server).disk.read_text() == "new"
    one.tidy()
    assert os.listdir(one.root) == [server.uuid + ASIDE]


@pytest.mark.parametrize("owner", ["one", None])
def test_what_a_killed_removal_has_left_is_found_and_is_no_new_guest_s(host, server, owner):
    one = host("one")
    for again in ("dropped", "built"):
        files = guest(one, server, "old", owner)
        one.removes(server)
        assert one.left_behind() == {server.uuid}
        if again == "dropped":
            one.drop_left_behind(server.uuid)
            assert not files.path.exists()
        else:
            one.spawns(server)
            assert (files.disk.exists(), files.record) == (False, Record(server.uuid, "one", State.BUILDING))


def test_a_guest_that_starts_again_after_a_removal_that_failed_keeps_its_files(host, server):
    one = host("one")
    files = guest(one, server, "live", "one")
    one.removes(server)
    one.return_if_alone(server)
    assert (files.disk.read_text(), one.left_behind()) == ("live", set())


def test_the_guest_of_another_host_is_not_marked_for_removal(host, server):
    guest(host("other"), server, "live", "other")
    host("one").removes(server)
    assert (host("one").left_behind(), host("other").left_behind()) == (set(), set())


@pytest.mark.parametrize("mark", ["one", "another", None])
def test_what_an_older_move_set_aside_is_dropped_never_served_or_brought_back(host, server, mark):
    one = host("one")
    old = guest(one, types.SimpleNamespace(uuid=server.uuid + ASIDE), "old")
    if mark:
        old.note(host=mark, state=State.ASIDE, move=OLDER)
    live = guest(one, server, "new", "one")
    one.bring_back(server, MOVE)
    assert live.disk.read_text() == "new"
    assert not one.has_aside(server, MOVE)
    one.set_aside(server, MOVE)
    assert one.has_aside(server, MOVE)
    assert aside(one, server).disk.read_text() == "new"
    one.bring_back(server, MOVE)
    assert live.disk.read_text() == "new"
    assert one.left_behind() == set()


def test_what_an_older_move_set_aside_is_taken_where_it_is_all_that_there_is(host, server):
    one = host("one")
    guest(one, server, "only")
    one.set_aside(server, OLDER)
    one.set_aside(server, MOVE)
    assert one.has_aside(server, MOVE)
    assert aside(one, server).disk.read_text() == "only"


def test_a_host_offers_nothing_that_it_has_not_set_aside(host, server):
    one = host("one")
    guest(one, types.SimpleNamespace(uuid=server.uuid + ASIDE), "old").note(host="another", state=State.ASIDE, move=OLDER)
    with pytest.raises(Exception, match="has set nothing of it aside"):
        one.offer(server)


@pytest.mark.parametrize("cut", [False, True])
def test_two_that_remove_the_same_do_not_disturb_each_other(tmp_path, cut, monkeypatch):
    files = GuestDirectory(tmp_path, "guest")
    files.make()
    files.disk.write_text("x")
    real = shutil.rmtree

    def slow(path, onerror=None):
        finish_once(path)
        real(path, onerror=onerror)

    def finish_once(path):
        if cut and path.exists():
            real(path)
    monkeypatch.setattr(guest_files, "shutil", types.SimpleNamespace(rmtree=slow))
    files.remove()
    files.remove()
    finish_removals(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_directory_has_its_record_before_its_name(tmp_path, monkeypatch):
    class Killed(BaseException):
        """The process ends here."""

    def kill(*_args):
        raise Killed
    files, wanted = GuestDirectory(tmp_path, "guest"), Record("guest", "one", State.ARRIVING, "a move")
    with monkeypatch.context() as patched:
        patched.setattr(guest_files.durable, "put_in_place", kill)
        with pytest.raises(Killed):
            files.begin(wanted)
    [left] = tmp_path.iterdir()
    assert left != files.path
    files.begin(wanted)
    assert files.record == wanted
    assert set(tmp_path.iterdir()) == {files.path, left}
    assert os.listdir(files.path) == ["guest.json"]
    os.utime(left, (time.time() - 7200,) * 2)
    finish_removals(tmp_path)
    assert os.listdir(tmp_path) == ["guest"]
    files.begin(Record("guest", "two", State.BUILDING))
    assert files.record == Record("guest", "two", State.BUILDING)


def test_a_host_that_tidies_up_takes_no_directory_that_another_one_is_just_making(host, server, monkeypatch):
    """They have a common directory; nor is what has just begun anybody's guest."""
    one, two = host("one"), host("two")
    real = guest_files.durable.put_in_place

    def put_in_place(begun, path):
        if path == files.path:
            two.tidy()
            one.tidy()
            seen.append((one.left_behind(), two.left_behind(), begun.stat().st_mode & 0o777))
        real(begun, path)
    files, seen = GuestDirectory(one.root, server.uuid), []
    monkeypatch.setattr(guest_files.durable, "put_in_place", put_in_place)
    one.spawns(server)
    assert (seen, files.record, os.listdir(one.root)) == (
        [(set(), set(), 0o711)], Record(server.uuid, "one", State.BUILDING), [server.uuid])


def test_what_is_kept_is_the_guests_again(tmp_path):
    files = GuestDirectory(tmp_path, "guest")
    files.make()
    for path in (files.disk, files.ephemerals[0]):
        path.write_text("x")
    files.note(host="one", state=State.REMOVING, post_copy=True)
    files.remove([files.ephemerals[0]])
    assert sorted(os.listdir(files.path)) == ["disk.eph0", "guest.json"]
    assert files.record == Record("guest", "one", State.HERE)


# each change of state is one write, or one rename ---------------------------------------------------------------------------
def dies_at(monkeypatch, number, *steps):
    """Do ``steps``; the process is killed before the change of this number (0: the first one) happens. True: it was."""
    left = [number]

    def counted(change):
        def count(*args, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return change(*args, **named)
        return count

    with monkeypatch.context() as patched:
        patched.setattr(guest_files.durable, "put_in_place", counted(guest_files.durable.put_in_place))
        patched.setattr("nova_lite.virt.libvirt.moves.os", types.SimpleNamespace(rename=counted(os.rename)))
        patched.setattr(GuestDirectory, "remove", counted(GuestDirectory.remove))
        try:
            for step in steps:
                step()
        except Killed:
            return True
    return False


def each_kill(monkeypatch, prepare, steps, check):
    """``prepare`` makes a world and ``steps`` are done in it, killed before each of their changes; ``check`` looks."""
    number = 0
    while True:
        world = prepare()
        was_killed = dies_at(monkeypatch, number, *(lambda step=step, world=world: step(*world) for step in steps))
        check(*world)
        if not was_killed:
            break
        number += 1
    return number


@pytest.fixture
def world(host, tmp_path):
    """Makes a host and a server whose guest is there."""
    made = []

    def make():
        made.append(str(len(made)))
        one = host("one", f"state{len(made)}")
        server = types.SimpleNamespace(uuid=str(uuid.uuid4()), host="one", deleted=0, task_state=None)
        guest(one, server, "all that there is", "one")
        return one, server
    return make


def of_guest(one, server):
    """What the guest has, under either of its names."""
    return [files.disk.read_text() for files in (GuestDirectory(one.root, server.uuid), aside(one, server))
            if files.disk.exists() and files.is_of("one")]


def test_a_guest_that_is_set_aside_and_brought_back_is_always_there_and_found(world, monkeypatch):
    def check(one, server):
        assert of_guest(one, server) == ["all that there is"]
        one.bring_back(server, MOVE)
        one.return_if_alone(server)
        files = GuestDirectory(one.root, server.uuid)
        assert (files.disk.read_text(), files.record) == ("all that there is", Record(server.uuid, "one", State.HERE))
        assert (one.left_behind(), os.listdir(one.root)) == (set(), [server.uuid])
    assert each_kill(monkeypatch, world, [lambda one, server: one.set_aside(server, MOVE),
                                          lambda one, server: one.bring_back(server, MOVE)], check) == 5


def test_a_guest_that_is_set_aside_over_a_kill_is_set_aside_by_the_next_run(world, monkeypatch):
    def check(one, server):
        one.set_aside(server, MOVE)
        assert one.has_aside(server, MOVE)
        assert (of_guest(one, server), one.left_behind()) == (["all that there is"], {server.uuid})
    assert each_kill(monkeypatch, world, [lambda one, server: one.set_aside(server, MOVE)], check) == 2


def test_a_resize_where_it_is_can_be_undone_after_a_kill_at_any_change(world, monkeypatch):
    def check(one, server):
        if one.has_aside(server, MOVE):
            one.drop_received(server, MOVE)
        one.bring_back(server, MOVE)
        one.return_if_alone(server)
        files = GuestDirectory(one.root, server.uuid)
        assert (files.disk.read_text(), files.is_of("one"), one.left_behind()) == ("all that there is", True, set())
    steps = [lambda one, server: one.set_aside(server, MOVE),
             lambda one, server: one.receive(server, None, lambda *_: None, MOVE),
             lambda one, server: one.settled(server), lambda one, server: one.drop_received(server, MOVE)]
    assert each_kill(monkeypatch, world, steps, check) > 7


def test_a_build_that_is_killed_is_found_until_the_guest_runs(host, monkeypatch):
    def prepare():
        prepare.number += 1
        return (host("one", f"build{prepare.number}"), types.SimpleNamespace(uuid=str(uuid.uuid4()), host="one"))

    def check(one, server):
        files = GuestDirectory(one.root, server.uuid)
        assert (files.record.state is State.HERE) or not files.path.exists() or one.left_behind() == {server.uuid}
    prepare.number = 0
    each_kill(monkeypatch, prepare, [lambda one, server: one.spawns(server), lambda one, server: one.spawned(server)], check)


@pytest.mark.parametrize("keep", [False, True])
def test_a_removal_that_is_killed_is_done_again_and_ends(world, monkeypatch, keep):
    def kept(one, server):
        return GuestDirectory(one.root, server.uuid).ephemerals[:1] if keep else ()

    def remove(one, server):
        if keep and (files := GuestDirectory(one.root, server.uuid)).path.exists():
            files.ephemerals[0].write_text("kept")
        one.removes(server)
        one.remove(server.uuid, kept(one, server))

    def check(one, server):
        remove(one, server)
        files = GuestDirectory(one.root, server.uuid)
        if keep:
            assert (sorted(os.listdir(files.path)), files.record.state) == (["disk.eph0", "guest.json"], State.HERE)
        assert (files.path.exists(), one.left_behind()) == (keep, set())
    each_kill(monkeypatch, world, [remove], check)


def test_what_nobody_can_read_is_no_hindrance_for_the_others(world):
    one, server = world()
    other = types.SimpleNamespace(uuid=str(uuid.uuid4()))
    guest(one, other, "x", "one").record_file.write_text("{")
    one.removes(server)
    assert one.left_behind() == {server.uuid}
    with pytest.raises(OSError, match="guest.json"):
        one.drop_left_behind(other.uuid)
    assert GuestDirectory(one.root, other.uuid).disk.exists()


@pytest.mark.parametrize("ending", [".gone", "_resize.gone", ".abc.begun"])
def test_a_directory_that_is_begun_or_gone_still_says_how_its_disk_was_made(tmp_path, ending):
    record = Record("guest", "one", State.REMOVING, disk_format="raw")
    files = GuestDirectory(tmp_path, f"guest{ending}")
    files.make()
    files.record_file.write_text(record.to_json())
    assert files.record == record


def test_what_a_failed_migration_has_left_is_of_no_guest_before_that_runs(host, server):
    """An evacuation back to this host that fails, too, leaves nothing of it."""
    one = host("one")
    files = guest(one, server, "x", "one")
    files.note(state=State.LEAVING, post_copy=True)
    one.spawns(server)
    assert files.record == Record(server.uuid, "one", State.BUILDING)
    one.spawned(server)
    assert files.record == Record(server.uuid, "one", State.HERE)


def test_a_build_that_another_host_has_left_goes_on_as_this_ones(host, server):
    """Hosts with a common directory."""
    host("two").spawns(server)
    one = host("one")
    one.spawns(server)
    files = GuestDirectory(one.root, server.uuid)
    assert (files.record, host("two").left_behind()) == (Record(server.uuid, "one", State.BUILDING), set())
    one.spawned(server)
    assert files.record.state is State.HERE
