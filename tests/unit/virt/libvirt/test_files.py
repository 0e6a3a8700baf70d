"""Files of guests are whole or not there, and closed to other users of the host."""
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite.virt.libvirt import files
from nova_lite.virt.libvirt.guest_record import Record, State


@pytest.fixture(autouse=True)
def open_handed():
    """Whatever the process's umask would leave open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_record_is_closed(tmp_path):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.begin(Record("guest", "host1", State.HERE))
    guest.note(host="host2")
    assert mode(guest.record_file) == 0o600


def test_what_a_guests_disk_was_made_of_is_noted_and_stays_when_its_state_changes(tmp_path):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.make()
    assert guest.record == Record("guest")
    assert not guest.record_file.exists()
    guest.note_format("raw")
    guest.note_base("image")
    assert guest.record == Record("guest", disk_format="raw", base="image")
    guest.note(host="host1", state=State.ADOPTED)
    assert guest.record == Record("guest", "host1", State.ADOPTED, disk_format="raw", base="image")
    guest.note_base("")
    guest.note_format("qcow2")
    assert (guest.disk_format, guest.base, guest.is_of("host1")) == ("qcow2", "", True)
    with pytest.raises(OSError, match="cannot have the format 'vmdk'"):
        guest.note_format("vmdk")
    assert guest.disk_format == "qcow2"


def test_a_record_that_cannot_be_read_is_nobodys_guess(tmp_path):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.make()
    for text in ("", "[]", "{}", '{"version": 2, "server": "guest", "state": "here"}'):
        guest.record_file.write_text(text)
        with pytest.raises(OSError, match=f"{guest.record_file}: "):
            guest.note(host="host1")
        assert guest.record_file.read_text() == text


def test_a_change_that_is_cut_off_leaves_the_record_as_it_was(tmp_path, monkeypatch):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.begin(Record("guest", "host1", State.BUILDING))
    with monkeypatch.context() as patched:
        patched.setattr(files.durable, "put_in_place", _fail)
        with pytest.raises(OSError, match="no space"):
            guest.note(state=State.HERE)
    assert guest.record == Record("guest", "host1", State.BUILDING)


def test_two_hosts_write_the_record_on_shared_storage_at_the_same_time(tmp_path):
    guest = files.GuestDirectory(tmp_path, "guest")
    guest.begin(Record("guest", "host1", State.HERE))

    def write(host):
        for _ in range(30):
            files.GuestDirectory(tmp_path, "guest").note(host=host)
            assert guest.record.host in ("host1", "host2")

    with ThreadPoolExecutor(2) as hosts:
        list(hosts.map(write, ("host1", "host2")))
    assert list(guest.path.iterdir()) == [guest.record_file]


def _fail(*_args):
    raise OSError("no space")


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
