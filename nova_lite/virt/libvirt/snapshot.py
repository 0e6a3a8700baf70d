"""The root disk of a guest as one file: by qemu-img where no process holds it, by QEMU's own backup job where one does.

The backup job copies what the guest is about to overwrite before it is overwritten, so the file is the disk of the moment in
which the job began, while the guest goes on. Neither way writes to the overlay or its base.
"""
from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from lxml import etree
from oslo_log import log

from nova_lite import exception
from nova_lite.virt import device_names
from nova_lite.virt.driver import DiskCopy
from nova_lite.virt.libvirt import images
from nova_lite.virt.libvirt.connection import ConnectionLost, again
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)

POLL = 0.3              # seconds between looks at a backup job
STOP_TIMEOUT = 60.0     # seconds that a job may take to end after it was aborted


@contextlib.contextmanager
def copied_disk(guest: Guest, files: GuestDirectory, disk_format: str) -> Iterator[DiskCopy]:
    """The copy, for the time of the ``with`` block. Raises VirtDriverError or OSError."""
    files.snapshot.unlink(missing_ok=True)
    try:
        if not (guest.is_active() and _copy_live(guest, files, disk_format)):
            images.base_of(files.disk, disk_format)
            files.snapshot.touch(mode=0o600)
            images.run("qemu-img", "convert", "-f", disk_format, "-O", disk_format, files.disk, files.snapshot)
        yield DiskCopy(str(files.snapshot), disk_format)
    finally:
        files.snapshot.unlink(missing_ok=True)


def _copy_live(guest: Guest, files: GuestDirectory, disk_format: str) -> bool:
    """False when the guest went off meanwhile: then nobody holds its disk any more."""
    job = BackupJob(guest)

    def copy() -> None:
        job.abort()         # what a killed run, or one that lost libvirtd, began
        files.snapshot.unlink(missing_ok=True)
        job.run(str(files.disk), str(files.snapshot), disk_format)

    try:
        again(copy)
        return True
    except exception.VirtDriverError:
        if guest.is_active():
            job.abort()
            raise
        LOG.info("The guest went off during its backup: copying the disk again", extra={"instance_uuid": guest.uuid})
        files.snapshot.unlink(missing_ok=True)
        return False


class BackupJob:
    """The backup job of one guest, of which there is at most one."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._lib = guest, guest.lib

    def run(self, disk: str, target: str, disk_format: str) -> None:
        """Copy the disk with the file ``disk`` to a new file; VirtDriverError when that fails, ConnectionLost when nobody knows
        whether it did."""
        xml = _job_xml(self._guest.do(lambda domain: domain.XMLDesc(0), must_exist=True) or "", disk, target,
                       disk_format)
        self._guest.do(lambda domain: domain.backupBegin(xml, None, 0), must_exist=True, once=True)
        while self._is_running():
            time.sleep(POLL)
        ended = self._stats(self._lib.VIR_DOMAIN_JOB_STATS_COMPLETED)
        if not ended.get("type"):
            raise ConnectionLost(uri=self._guest.uri, reason="libvirtd was started anew, and knows no job that has ended")
        if ended.get("type") != self._lib.VIR_DOMAIN_JOB_COMPLETED:
            raise exception.VirtDriverError(what="Copying the disk", reason=ended.get("errmsg") or "the backup job was ended")

    def abort(self) -> None:
        """End a job that runs; VirtDriverError when it does not end."""
        deadline = time.monotonic() + STOP_TIMEOUT
        asked = False
        while self._is_running():
            if not asked:
                LOG.warning("Ending a backup job that nobody waits for", extra={"instance_uuid": self._guest.uuid})
                self._guest.do(self._abort)
                asked = True
            elif time.monotonic() > deadline:
                raise exception.VirtDriverError(what="Copying the disk", reason="an older backup job does not end")
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
