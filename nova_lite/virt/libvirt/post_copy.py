"""Post-copy: a guest runs at its new host before all its memory is there; the rest of the memory follows.

From that switch on the memory is on two hosts, and disk writes are at the new host only: the old copy must never run again.
When the network between the hosts breaks, the guest is stopped on both hosts until the libvirt of the old host has resumed the
copy.
"""
from __future__ import annotations

import pathlib
from typing import Any

from lxml import etree

from nova_lite import exception
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.live import BROKEN, SPLIT, WHOLE

_UNPRIVILEGED = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd")
_DEVICE = pathlib.Path("/dev/userfaultfd")
_RESUMES = 8_005_000                        # libvirt that can take up a copy which broke
_ENDED = ("is not processing incoming migration", "domain is no longer running")
_OPENS_DEVICE = (9_001_000, 8_000_000)      # libvirt and QEMU that use /dev/userfaultfd


def refusal(connection: Connection, capabilities: str, unprivileged: pathlib.Path = _UNPRIVILEGED,
            device: pathlib.Path = _DEVICE) -> str:
    """Why this host cannot receive guests by post-copy; empty when it can. QEMU needs userfaultfd, which the kernel allows to
    root only, or to all users by a sysctl."""
    libvirt, qemu = connection.run(lambda c: (c.getLibVersion(), c.getVersion()))
    if libvirt < _RESUMES:
        return "libvirt is older than 8.5 and cannot take up a copy that broke"
    if _runs_as_root(capabilities) or (unprivileged.exists() and unprivileged.read_text().strip() == "1"):
        return ""
    if libvirt >= _OPENS_DEVICE[0] and qemu >= _OPENS_DEVICE[1] and device.exists():
        return ""
    return f"QEMU is not root's here, and {unprivileged} is not 1 (sysctl vm.unprivileged_userfaultfd=1)"


def _runs_as_root(capabilities: str) -> bool:
    labels = etree.fromstring(capabilities).iterfind("host/secmodel[model='dac']/baselabel")
    users = {(label.text or "").partition(":")[0].lstrip("+") for label in labels}
    return bool(users) and users <= {"0", "root"}


def of(guest: Guest) -> str:
    """WHOLE, SPLIT or BROKEN, as libvirt of this host sees the guest."""
    lib, state = guest.lib, guest.do(lambda domain: domain.state())
    if state is None:
        return WHOLE
    found = tuple(state[:2])
    if found in ((lib.VIR_DOMAIN_PAUSED, lib.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED),
                 (lib.VIR_DOMAIN_RUNNING, getattr(lib, "VIR_DOMAIN_RUNNING_POSTCOPY_FAILED", None))):    # since libvirt 8.5
        return BROKEN
    under_way = ((lib.VIR_DOMAIN_PAUSED, lib.VIR_DOMAIN_PAUSED_POSTCOPY), (lib.VIR_DOMAIN_RUNNING,
                                                                           lib.VIR_DOMAIN_RUNNING_POSTCOPY))
    return SPLIT if found in under_way else WHOLE


def is_hopeless(error: exception.NovaLiteError | None, lib: Any) -> bool:
    """Whether a copy cannot be resumed, by the error of the attempt: the other half of the guest has no process any more.
    libvirt may still have its domain there, and only the text of the error shows that no copy is expected."""
    cause = error.__cause__ if error is not None else None
    if not isinstance(cause, lib.libvirtError):
        return False
    text = cause.get_error_message() or ""
    return cause.get_error_code() == lib.VIR_ERR_NO_DOMAIN or any(words in text for words in _ENDED)
