"""The root disk of a guest as one file: made by qemu-img while the guest is off, and by QEMU's backup job while it runs.

The backup job copies data before the guest overwrites it. So the file is the disk at the moment in which the job began, while
the guest runs on. Neither way writes to the overlay or its base.
"""
from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from lxml import etree
from oslo_log import log
from oslo_utils import uuidutils

from nova_lite import exception
from nova_lite.objects.instance import Instance
from nova_lite.virt import device_names
from nova_lite.virt.driver import Checker, DiskCopy
from nova_lite.virt.libvirt import copying, images, quiesce
from nova_lite.virt.libvirt.connection import Connection, ConnectionLost, again
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)

POLL = 0.3              # seconds between two reads of a backup job
STOP_TIMEOUT = 60.0     # seconds that a job may take to end after it was aborted


@contextlib.contextmanager
def copied_disk(instance: Instance, guest: Guest, files: GuestDirectory, disk_format: str,
                check: Checker) -> Iterator[DiskCopy]:
    """The copy, for the time of the ``with`` block. Raises VirtDriverError, OSError, the error of ``check``,
    InstanceQuiesceFailed and similar errors (see ``quiesce.quiet``), or ImageUnacceptable for a disk that no host would accept
    as an image."""
    try:
        if not (guest.is_active() and _copy_live(instance, guest, files, disk_format, check)):
            drop_copy(guest, files)
            images.base_of(files.disk, disk_format, files.base)
            files.snapshot.touch(mode=0o600)
            copying.run(check, "qemu-img", "convert", "-f", disk_format, "-O", disk_format, files.disk, files.snapshot)
        # no host accepts an image that imitates another format, and a shelved server would have no other disk
        images.inspect(files.snapshot, f"of server {instance.uuid}", disk_format)
        yield DiskCopy(str(files.snapshot), disk_format)
    finally:
        files.snapshot.unlink(missing_ok=True)
        quiesce.thaw(guest, files, 0)


def drop_copy(guest: Guest, files: GuestDirectory) -> None:
    """What a killed run has left: frozen file systems, a backup job, half a file. Raises VirtDriverError."""
    quiesce.thaw(guest, files)
    BackupJob(guest).abort()
    files.snapshot.unlink(missing_ok=True)


def tidy(root: pathlib.Path, host: str, connection: Connection, drop: Callable[[Guest, GuestDirectory], None]) -> None:
    """The same for all guests of a host at the start of the daemon, since no other operation may do it. A failure is tried
    again at the next start, or by the next snapshot of the guest."""
    for uuid in sorted({path.parent.name for name in ("snapshot.part", "frozen") for path in root.glob(f"*/{name}")}):
        try:
            guest, files = Guest(connection, uuid), GuestDirectory(root, uuid)
            if uuidutils.is_uuid_like(uuid) and files.is_of(host) and quiesce.thaw(guest, files, 0):
                drop(guest, files)
                LOG.info("Removed the rest of a snapshot", extra={"instance_uuid": uuid})
        except (exception.VirtDriverError, OSError) as error:
            LOG.error("The rest of a snapshot was not removed: %s", error, extra={"instance_uuid": uuid})


def _copy_live(instance: Instance, guest: Guest, files: GuestDirectory, disk_format: str, check: Checker) -> bool:
    """False when the guest went off meanwhile: then no process holds its disk any more."""
    job = BackupJob(guest)

    def copy() -> None:
        drop_copy(guest, files)     # of a run that was killed, or lost libvirtd
        with quiesce.quiet(guest, files, instance):
            job.begin(str(files.disk), str(files.snapshot), disk_format)
        job.wait(check)

    try:
        again(copy, guest.clock)
        return True
    except (exception.Interrupted, Exception) as error:
        if not isinstance(error, (exception.VirtDriverError, exception.InstanceQuiesceFailed)) or guest.is_active():
            job.abort()
            raise
        LOG.info("The guest went off during its backup: copying the disk again", extra={"instance_uuid": guest.uuid})
        return False


class BackupJob:
    """The backup job of one guest; there is at most one."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._lib = guest, guest.lib

    def begin(self, disk: str, target: str, disk_format: str) -> None:
        """Begin to copy the disk with the file ``disk``, as it is now, to a new file. Raises VirtDriverError."""
        xml = _job_xml(self._guest.do(lambda domain: domain.XMLDesc(0), must_exist=True) or "", disk, target, disk_format)
        self._guest.do(lambda domain: domain.backupBegin(xml, None, 0), must_exist=True, once=True)

    def wait(self, check: Checker) -> None:
        """Wait for its end; VirtDriverError when it failed, ConnectionLost when its result is not known. The error of ``check``
        leaves the job running."""
        checked = time.monotonic()
        while self._is_running():
            if time.monotonic() - checked >= copying.CHECK_SECONDS:
                check()
                checked = time.monotonic()
            time.sleep(POLL)
        ended = self._stats(self._lib.VIR_DOMAIN_JOB_STATS_COMPLETED)
        if not ended.get("type"):
            raise ConnectionLost(uri=self._guest.uri, reason="libvirtd was started again, and has no record of the job")
        if ended.get("type") != self._lib.VIR_DOMAIN_JOB_COMPLETED:
            raise exception.VirtDriverError(what="Copying the disk", reason=ended.get("errmsg") or "the backup job was ended")

    def abort(self) -> None:
        """End a job that runs; VirtDriverError when it does not end."""
        deadline = time.monotonic() + STOP_TIMEOUT
        asked = False
        while self._is_running():
            if not asked:
                LOG.warning("Ending an abandoned backup job", extra={"instance_uuid": self._guest.uuid})
                self._guest.do(self._abort)
                asked = True
            elif time.monotonic() > deadline:
                raise exception.DriverRefusal(what="Copying the disk", reason="an older backup job does not end")
            time.sleep(POLL)

    def _abort(self, domain: Any) -> None:
        try:
            domain.abortJob()
        except self._lib.libvirtError as error:     # it has just ended
            if error.get_error_code() != self._lib.VIR_ERR_OPERATION_INVALID:
                raise

    def _is_running(self) -> bool:
        stats = self._stats(0)
        return stats.get("type", self._lib.VIR_DOMAIN_JOB_NONE) != self._lib.VIR_DOMAIN_JOB_NONE and \
            stats.get("operation") == self._lib.VIR_DOMAIN_JOB_OPERATION_BACKUP

    def _stats(self, flags: int) -> dict[str, Any]:
        """{} for a guest that is off or gone."""
        lib = self._lib

        def read(domain: Any) -> dict[str, Any]:
            try:
                return dict(domain.jobStats(flags)) if domain.isActive() else {}
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_OPERATION_INVALID:
                    raise
                return {}

        return self._guest.do(read) or {}


def _job_xml(domain: str, disk: str, target: str, disk_format: str) -> str:
    """A full backup of one disk; the guest's others take no part."""
    job = etree.Element("domainbackup", mode="push")
    disks = etree.SubElement(job, "disks")
    for device in etree.fromstring(domain).findall("devices/disk"):
        source, name = device.find("source"), device.find("target")
        if name is None:
            continue
        is_root = source is not None and source.get("file") == disk
        one = etree.SubElement(disks, "disk", name=name.get("dev") or device_names.ROOT, backup="yes" if is_root else "no")
        if is_root:
            one.set("type", "file")
            etree.SubElement(one, "driver", type=disk_format)
            etree.SubElement(one, "target", file=target)
    return etree.tostring(job, encoding="unicode")
