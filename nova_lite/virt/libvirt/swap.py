"""Copies a disk of a running guest to another one, to which the guest then changes: QEMU's mirror job, pivoted.

Once the job is ready, each write of the guest is complete when both disks have it, so either is the whole disk. At that moment
the new disk is noted. After an interruption it does not matter to which of them the guest wrote last.
"""
from __future__ import annotations

import time
from typing import Any

from lxml import etree
from oslo_log import log

from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.virt.driver import Noter
from nova_lite.virt.libvirt.connection import ConnectionLost, again
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_disks import GuestDisks

LOG = log.getLogger(__name__)
POLL = 0.3                  # seconds between two reads of the job
_READY, _PIVOTS = "yes", "pivot"        # states of a libvirt job: both disks are the same; the guest changes to the new one
_PORTS = {"nbd": "10809", "iscsi": "3260", "rbd": "6789"}


def swap(guest: Guest, old: BlockDevice, new: BlockDevice, xml: str, note: Noter) -> None:
    """Replace the guest's disk ``old`` by the source of ``xml``, which is ``new``: see ComputeDriver.swap_volume. Raises
    GuestLacksDisk and VirtDriverError.

    QEMU mirrors disks of the same size only: of a larger volume the guest gets the first part, and the rest at its next start.
    """
    again(lambda: _swap(guest, old, new, xml, note), guest.clock)


def _swap(guest: Guest, old: BlockDevice, new: BlockDevice, xml: str, note: Noter) -> None:
    disk = _disk(guest, old)
    xml = GuestDisks.fitted(xml, disk.getroottree().getroot())
    wanted = etree.fromstring(xml)
    if any(one.find(".//encryption") is not None for one in (disk, wanted)):
        raise exception.NotImplementedByDriver(what="the exchange of encrypted volumes under a guest")
    if is_same_source(disk, wanted):
        note(new)
    else:
        target = str(disk.find("target").get("dev"))    # type: ignore[union-attr]  # every disk has one
        if _mirror_of(disk, wanted) not in (_READY, _PIVOTS):
            note(old)       # an earlier run may have come further, and its job have failed
            _mirror(guest, old, wanted, target, _front_part(guest, target, xml) if (new.size or 0) > (old.size or 0) else xml)
        note(new)
        _change_over(guest, old, wanted, target, note)
    _configure(guest, old, xml)


def _configure(guest: Guest, old: BlockDevice, xml: str) -> None:
    """The configuration for the next start. An older version removed a disk from it that the guest had not released."""
    flag = guest.lib.VIR_DOMAIN_AFFECT_CONFIG
    is_there = GuestDisks(guest).find(old.serial, flag) is not None
    guest.do(lambda domain: (domain.updateDeviceFlags if is_there else domain.attachDeviceFlags)(xml, flag) and None,
             must_exist=True)


def _disk(guest: Guest, old: BlockDevice) -> etree._Element:
    """Its present XML, by the name that the guest has for it."""
    domain = GuestDisks(guest).side(guest.lib.VIR_DOMAIN_AFFECT_LIVE)
    found = None if domain is None else GuestDisks.element(domain, old.serial)
    if found is None:
        raise exception.GuestLacksDisk(disk=old.volume_id)
    return found


def _mirror_of(disk: etree._Element, wanted: etree._Element) -> str:
    """How far the copy to the wanted volume is, as libvirt says it; empty: there is none, or it is not ready yet."""
    mirror = disk.find("mirror")
    return mirror.get("ready", "") if mirror is not None and is_same_source(mirror, wanted) else ""


def is_same_source(one: etree._Element, other: etree._Element) -> bool:
    """Whether two <disk> elements are the same volume. Of one on the network the servers count, too: another server may have
    another volume of the same name."""
    return _source(one) == _source(other)


def _source(disk: etree._Element) -> tuple[object, ...]:
    source = disk.find("source")
    if source is None:
        return ()
    default = _PORTS.get(source.get("protocol") or "", "")      # libvirt may write it down where we did not
    hosts = sorted((host.get("name", "").strip("[]"), host.get("port") or default) for host in source.iterfind("host"))
    return (*(source.get(key) for key in ("file", "dev", "name", "protocol")), *hosts)


def _front_part(guest: Guest, target: str, xml: str) -> str:
    size = guest.do(lambda domain: domain.blockInfo(target, 0)[0], must_exist=True)
    disk = etree.fromstring(xml)
    slices = etree.SubElement(disk.find("source"), "slices")    # type: ignore[arg-type]  # a volume has one
    etree.SubElement(slices, "slice", type="storage", offset="0", size=str(size))
    return etree.tostring(disk, encoding="unicode")


def _mirror(guest: Guest, old: BlockDevice, wanted: etree._Element, target: str, xml: str) -> None:
    """Copy, until both are the same."""
    lib = guest.lib
    flags = lib.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | lib.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    flags |= getattr(lib, "VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES", 0)        # since libvirt 8.0
    if _info(guest, target):
        LOG.warning("Ending an abandoned copy of %s", target, extra={"instance_uuid": guest.uuid})
        guest.do(lambda domain: domain.blockJobAbort(target, 0) and None)
    guest.do(lambda domain: domain.blockCopy(target, xml, {}, flags) and None, must_exist=True, once=True)
    while True:
        has_job = bool(_info(guest, target))       # before the disk is read: a job ends after it is ready
        if _mirror_of(_disk(guest, old), wanted) == _READY:
            return
        if not has_job:
            raise exception.DriverRefusal(what="Exchanging a volume", reason=f"the copy of {target} broke off")
        time.sleep(POLL)


def _change_over(guest: Guest, old: BlockDevice, wanted: etree._Element, target: str, note: Noter) -> None:
    """The guest writes to the new disk only. When libvirt refuses, the guest has the old disk, and no copy is under way."""
    lib = guest.lib
    try:
        guest.do(lambda domain: domain.blockJobAbort(target, lib.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT) and None, must_exist=True,
                 once=True)
    except ConnectionLost:      # it is read again
        raise
    except exception.VirtDriverError:
        disk = _disk(guest, old)
        if is_same_source(disk, wanted):
            return
        if _mirror_of(disk, wanted) != _PIVOTS:     # libvirt is at it: that is seen later
            note(old)
            if _info(guest, target):
                guest.do(lambda domain: domain.blockJobAbort(target, 0) and None)
        raise


def _info(guest: Guest, target: str) -> dict[str, Any]:
    """{} without a job."""
    return dict(guest.do(lambda domain: domain.blockJobInfo(target, 0), must_exist=True) or {})
