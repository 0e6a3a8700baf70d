"""Files are whole or not there, and closed to other users of the host."""
import contextlib
import os

import pytest

from nova_lite import durable


@pytest.fixture(autouse=True)
def open_handed():
    """Whatever the process's umask would leave open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("options", [{}, {"unique": True}, {"sync": False}])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, options):
    path = tmp_path / "disk"
    with durable.written_whole(path, **options) as part:
        assert (mode(part), part.name.endswith(".part")) == (0o600, True)
        part.write_bytes(b"one")
        assert not path.exists()
    assert (mode(path), path.read_bytes()) == (0o600, b"one")
    with contextlib.suppress(ValueError), durable.written_whole(path, **options) as part:
        part.write_bytes(b"two")
        raise ValueError
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"one", ["disk"])


def test_a_file_may_be_open_to_others(tmp_path):
    with durable.written_whole(tmp_path / "hosts", mode=0o644):
        pass
    assert mode(tmp_path / "hosts") == 0o644


@pytest.mark.parametrize(("options", "left"), [({}, "disk.part"), ({"unique": True}, "disk.0a1b.part")])
def test_what_a_killed_writer_left_is_no_part_of_the_next_file(tmp_path, options, left):
    path = tmp_path / "disk"
    (tmp_path / left).write_bytes(b"half")
    with durable.written_whole(path, **options) as part:
        assert part.read_bytes() == b""
    assert os.listdir(tmp_path) == ["disk"]


def test_writers_of_the_same_file_do_not_meet(tmp_path):
    path = tmp_path / "record"
    with durable.written_whole(path, unique=True) as one, durable.written_whole(path, unique=True) as two:
        one.write_text("one")
        two.write_text("two")
    assert (path.read_text(), os.listdir(tmp_path)) == ("one", ["record"])


def test_of_two_that_write_a_new_file_the_second_one_leaves_the_first_ones(tmp_path):
    path = tmp_path / "guest.json"
    assert durable.write_new(path, "first")
    assert not durable.write_new(path, "second")
    assert (path.read_text(), os.listdir(tmp_path), path.stat().st_mode & 0o777) == ("first", ["guest.json"], 0o600)
