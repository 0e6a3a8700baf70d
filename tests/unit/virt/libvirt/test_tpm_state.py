"""What a TPM remembers, put away and taken out again."""
import io
import tarfile

import pytest

from nova_lite.virt.libvirt import tpm_state
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.tpm_state import TpmStates

from .builders import UUID


@pytest.fixture
def files(tmp_path):
    made = GuestDirectory(tmp_path / "instances", UUID)
    made.make()
    return made


@pytest.fixture
def states(tmp_path):
    for name in ("lib", "run"):
        (tmp_path / name).mkdir()
    return TpmStates(f"qemu+unix:///system?socket={tmp_path}/run/libvirt-sock")


@pytest.fixture
def state(tmp_path):
    return tmp_path / "lib" / "swtpm" / UUID


def test_it_comes_back_whole(files, states, state):
    (state / "tpm2").mkdir(parents=True)
    (state / "tpm2" / "tpm2-00.permall").write_bytes(b"keys")
    states.save(UUID, files)
    (state / "tpm2" / "tpm2-00.permall").write_bytes(b"later")
    states.restore(UUID, files)
    assert (state / "tpm2" / "tpm2-00.permall").read_bytes() == b"keys"
    assert not files.tpm.exists()
    states.restore(UUID, files)     # there is nothing to be taken out
    assert (state / "tpm2" / "tpm2-00.permall").read_bytes() == b"keys"


def test_nothing_of_it_stays_on_a_host_that_did_not_come_to_make_the_domain(files, states, state, monkeypatch):
    class Killed(BaseException):
        """The process ends here."""

    def kill(*_args):
        raise Killed
    (state / "tpm2").mkdir(parents=True)
    (state / "tpm2" / "tpm2-00.permall").write_bytes(b"keys")
    other = state.with_name("another guest")
    other.mkdir()
    states.save(UUID, files)
    with monkeypatch.context() as patched:
        patched.setattr(tpm_state.os, "rename", kill)
        patched.setattr(tpm_state.shutil, "rmtree", lambda path, ignore_errors: None)     # nor did it come to clean up
        with pytest.raises(Killed):
            states.restore(UUID, files)
    assert len(list(state.parent.iterdir())) == 3
    for _ in range(2):
        states.remove(UUID)
        assert list(state.parent.iterdir()) == [other]


def test_a_removal_over_which_the_process_dies_leaves_nothing_to_be_saved(files, states, state, monkeypatch):
    class Killed(BaseException):
        """The process ends here."""

    def kill(path, onerror=None):
        if path.exists():
            raise Killed
    (state / "tpm2").mkdir(parents=True)
    states.save(UUID, files)
    before = files.tpm.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(tpm_state.shutil, "rmtree", kill)
        with pytest.raises(Killed):
            states.remove(UUID)
    states.save(UUID, files)
    assert files.tpm.read_bytes() == before
    states.remove(UUID)
    assert list(state.parent.iterdir()) == []


def _member(name, kind=tarfile.REGTYPE, link=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize("members", [
    [_member(UUID, tarfile.SYMTYPE, "/etc")],
    [_member(UUID, tarfile.DIRTYPE), _member(f"{UUID}/tpm2", tarfile.SYMTYPE, "/etc")],
    [_member(UUID, tarfile.DIRTYPE), _member(f"{UUID}/tpm2", tarfile.SYMTYPE, ".")],
    [_member(UUID, tarfile.DIRTYPE), _member(f"{UUID}/x"), _member(f"{UUID}/y", tarfile.LNKTYPE, f"{UUID}/x")],
    [_member(UUID, tarfile.DIRTYPE), _member(f"{UUID}/null", tarfile.CHRTYPE)],
    [_member(UUID, tarfile.DIRTYPE), _member(f"{UUID}/../other")],
    [_member("other")], [_member(f"/{UUID}")],
], ids=["link", "link below", "link inside", "hard link", "device", "way out", "another guest", "absolute"])
def test_nothing_but_files_of_this_guest(files, states, state, members):
    """It comes from another host."""
    (state / "kept").mkdir(parents=True)
    with tarfile.open(files.tpm, "w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO())
    with pytest.raises(OSError):
        states.restore(UUID, files)
    assert list(state.iterdir()) == [state / "kept"]
    assert list(state.parent.iterdir()) == [state]
