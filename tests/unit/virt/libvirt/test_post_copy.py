"""Which hosts take guests by post-copy, and how libvirt tells of them."""
import types

import pytest

from nova_lite.exception import VirtDriverError
from nova_lite.virt.libvirt import post_copy

libvirt = pytest.importorskip("libvirt")
_CAPABILITIES = """<capabilities><host><secmodel><model>apparmor</model></secmodel>
<secmodel><model>dac</model><baselabel type="kvm">{0}</baselabel><baselabel type="qemu">{0}</baselabel></secmodel></host>
</capabilities>"""


@pytest.mark.parametrize(("user", "sysctl", "device", "libvirt_version", "qemu", "reason"), [
    ("+0:+0", "0", False, 9_000_000, 7_002_022, ""),
    ("+64055:+994", "1", False, 9_000_000, 7_002_022, ""),
    ("+64055:+994", "0", True, 9_000_000, 7_002_022, "unprivileged_userfaultfd=1"),
    ("+64055:+994", "0", True, 9_010_000, 8_001_000, ""),
    ("+64055:+994", None, False, 9_010_000, 8_001_000, "unprivileged_userfaultfd=1"),
    ("+0:+0", "1", True, 8_004_000, 8_001_000, "older than 8.5")])
def test_post_copy_needs_a_qemu_that_hears_of_its_pages(tmp_path, user, sysctl, device, libvirt_version, qemu, reason):
    connect = types.SimpleNamespace(getLibVersion=lambda: libvirt_version, getVersion=lambda: qemu)
    connection = types.SimpleNamespace(run=lambda function: function(connect))
    if sysctl is not None:
        (tmp_path / "sysctl").write_text(f"{sysctl}\n")
    if device:
        (tmp_path / "device").touch()
    found = post_copy.refusal(connection, _CAPABILITIES.format(user), tmp_path / "sysctl", tmp_path / "device")
    assert (reason in found) if reason else not found


@pytest.mark.parametrize(("state", "memory"), [
    (None, "whole"), ("RUNNING BOOTED", "whole"), ("PAUSED USER", "whole"), ("PAUSED MIGRATION", "whole"),
    ("PAUSED POSTCOPY", "split"), ("RUNNING POSTCOPY", "split"), ("PAUSED POSTCOPY_FAILED", "broken"),
    ("RUNNING POSTCOPY_FAILED", "broken")])
def test_where_the_memory_of_a_guest_is(state, memory):
    found = None
    if state is not None:
        kind, reason = state.split()
        found = [getattr(libvirt, f"VIR_DOMAIN_{kind}"), getattr(libvirt, f"VIR_DOMAIN_{kind}_{reason}")]
    guest = types.SimpleNamespace(lib=libvirt, do=lambda _function: found)
    assert (post_copy.of(guest) or "whole") == memory


def _error(code, text):
    error = libvirt.libvirtError(text)
    error.err = (code, 0, text, 2, None, None, None, 0, 0)
    return error


@pytest.mark.parametrize(("code", "text", "hopeless"), [
    (libvirt.VIR_ERR_NO_DOMAIN, "no domain", True), (libvirt.VIR_ERR_OPERATION_FAILED, "no route to host", False),
    (libvirt.VIR_ERR_OPERATION_INVALID, "domain 'i' is not processing incoming migration", True),
    (libvirt.VIR_ERR_OPERATION_FAILED, "domain is no longer running", True),
    (libvirt.VIR_ERR_OPERATION_INVALID, "migration is already running", False)])
def test_a_copy_whose_other_half_is_gone_is_not_taken_up(code, text, hopeless):
    error = VirtDriverError(what="libvirt", reason="it failed")
    error.__cause__ = _error(code, text)
    assert post_copy.is_hopeless(error, libvirt) == hopeless
    assert not post_copy.is_hopeless(None, libvirt)
