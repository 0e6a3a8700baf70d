"""Files of guests are whole or not there, and closed to other users of the host."""
import os

import pytest

from nova_lite.virt.libvirt import files


@pytest.fixture(autouse=True)
def open_handed():
    """Whatever the process's umask would leave open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_mark_is_closed(tmp_path):
    files.write_mark(tmp_path / "owner", "host1", "move")
    assert mode(tmp_path / "owner") == 0o600


def test_what_a_guests_disk_was_made_of_is_noted_and_stays_with_its_owner(tmp_path):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.make()
    assert (guest.disk_format, guest.base) == ("", "")
    guest.note_format("raw")
    guest.note_base("image")
    assert (guest.disk_format, guest.base, guest.is_unmarked()) == ("raw", "image", True)
    files.write_mark(guest.owner, "host1", files.SHARED)
    assert (guest.disk_format, guest.was_taken_over_by("host1")) == ("raw", True)
    files.write_mark(guest.owner, "host2")
    assert files.read_mark(guest.owner) == files.Mark("host2", "", "raw", "image")
    guest.note_base(files.NO_BASE)
    guest.note_format("qcow2")
    assert files.read_mark(guest.owner) == files.Mark("host2", "", "qcow2", files.NO_BASE)
    with pytest.raises(OSError, match="cannot have the format 'vmdk'"):
        guest.note_format("vmdk")
    assert guest.disk_format == "qcow2"
    (tmp_path / "older").write_text("host1\nshared")       # of a version that noted no format
    assert files.read_mark(tmp_path / "older") == files.Mark("host1", "shared")


def test_what_older_versions_left_open(tmp_path):
    """A directory is passed through; a link is nobody's mode."""
    guest, base = tmp_path / "guest", tmp_path / files.BASES
    for path in (guest / "disk", guest / "console.log", base / "image"):
        path.parent.mkdir(exist_ok=True, mode=0o711)
        path.touch(mode=0o644)
    outside = tmp_path / "outside"
    outside.touch(mode=0o644)
    (guest / "link").symlink_to(outside)
    (guest / "offer.tls").mkdir(mode=0o755)
    files.close_to_others(tmp_path)
    assert [mode(p) for p in (guest / "disk", guest / "console.log", base / "image")] == [0o640, 0o640, 0o440]
    assert (mode(outside), mode(guest), mode(guest / "offer.tls")) == (0o644, 0o711, 0o755)
