"""Freezes the file systems inside a guest at the moment of a snapshot: QEMU's agent in the guest freezes and thaws them.

A file in the guest's directory records that file systems may be frozen. It is written before the agent is asked, and removed
when the agent has thawed. So the daemon after a killed one thaws them. Saved memory keeps the frozen state, so the file stays
as long as the memory.
"""
from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.objects import states
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt import guest_config
from nova_lite.virt.libvirt.connection import ConnectionLost
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)
FREEZE_SECONDS = 60     # for the agent, which first writes what is only in memory; without a limit libvirt waits for ever
THAW_SECONDS = 60.0     # a slow agent freezes nevertheless, and takes no other command before
THAW_PAUSE = 1.0


@contextlib.contextmanager
def quiet(guest: Guest, files: GuestDirectory, instance: Instance) -> Iterator[None]:
    """The file systems of a guest are frozen within the block, which has to be short. Only of a running guest; a paused one is
    copied as it is, as in Nova. Without a freeze the block runs too, unless the image has os_require_quiesce: then
    QemuGuestAgentNotEnabled or InstanceQuiesceFailed is raised."""
    if guest.power_state() == states.RUNNING:
        try:
            freeze(guest, files, instance)
        except (exception.QemuGuestAgentNotEnabled, exception.InstanceQuiesceFailed) as error:
            if guest_config.requires_quiesce(instance):
                raise
            if guest_config.has_agent(instance):
                LOG.warning("a snapshot without quiet: %s", error, extra={"instance_uuid": guest.uuid})
    try:
        yield
    finally:
        thaw(guest, files)


def freeze(guest: Guest, files: GuestDirectory, instance: Instance) -> None:
    """Raises QemuGuestAgentNotEnabled or InstanceQuiesceFailed; nothing is frozen then."""
    if not guest_config.has_agent(instance):
        raise exception.QemuGuestAgentNotEnabled()
    if not thaw(guest, files):
        raise exception.InstanceQuiesceFailed(reason="file systems that an older snapshot has frozen could not be thawed")
    files.frozen.touch(mode=0o600)
    began = time.monotonic()
    try:
        guest.do(_freeze, must_exist=True, lasts=True, once=True)
    except exception.VirtDriverError as error:
        if isinstance(error, ConnectionLost) or time.monotonic() - began >= FREEZE_SECONDS:
            thaw(guest, files)      # the agent has the command, and may still work on it
        else:                       # it is not there, or has said no
            files.frozen.unlink(missing_ok=True)
        raise exception.InstanceQuiesceFailed(reason=error) from error


def _freeze(domain: Any) -> None:
    domain.agentSetResponseTimeout(FREEZE_SECONDS, 0)
    domain.fsFreeze()


def thaw(guest: Guest, files: GuestDirectory, seconds: float = THAW_SECONDS) -> bool:
    """Thaw file systems that may be frozen. False: the agent has not answered within ``seconds``, which is logged, or the
    guest's memory is saved. The thaw is repeated by the end of the snapshot, a later snapshot, unpause, resume, and the start
    of the daemon."""
    if not files.frozen.exists():
        return True
    try:
        is_thawed = retry.on_error(lambda: guest.do(_thaw, lasts=True) is not False, exception.VirtDriverError,
                                   retry.every(THAW_PAUSE, timeout=seconds), guest.clock)
    except exception.VirtDriverError as error:
        LOG.error("the guest's file systems may still be frozen: %s", error, extra={"instance_uuid": guest.uuid})
        return False
    if is_thawed:
        files.frozen.unlink(missing_ok=True)
    return is_thawed


def _thaw(domain: Any) -> bool:
    """False: it comes back as it was saved."""
    if not domain.isActive():
        return not domain.hasManagedSaveImage(0)
    domain.fsThaw()
    return True
