"""A disk of a running guest copied to another one, to which the guest then changes over: QEMU's mirror job, pivoted.

Until the job has ended the guest writes to both, so nothing is lost whenever it breaks off: the guest has the old disk then.
"""
from __future__ import annotations

import time
from typing import Any

from lxml import etree
from oslo_log import log

from nova_lite import exception
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_disks import GuestDisks

LOG = log.getLogger(__name__)
POLL = 0.3                  # seconds between looks at the job
PIVOT_TIMEOUT = 60.0        # seconds that a job whose copy is complete may take until it can be pivoted
_PORTS = {"nbd": "10809", "iscsi": "3260", "rbd": "6789"}


def swap(guest: Guest, serial: str, xml: str, larger: bool = False) -> None:
    """Let the disk with ``serial`` have the source of ``xml``; one that has it already keeps it. Raises VirtDriverError.

    ``larger``: the new source is. QEMU mirrors only what has the same size, so the guest is given the front part of it, and
    sees the rest when it is started the next time.
    """
    domain = GuestDisks(guest).side(guest.lib.VIR_DOMAIN_AFFECT_LIVE)
    if domain is None and _starts_with(guest, serial, etree.fromstring(xml)):
        return      # it changed over, and went off before anybody was told
    disk = None if domain is None else GuestDisks.element(domain, serial)
    if domain is None or disk is None:
        raise exception.VirtDriverError(what="Exchanging a volume", reason=f"the guest has no disk {serial}, or does not run")
    xml = GuestDisks.fitted(xml, domain)
    wanted = etree.fromstring(xml)
    if any(one.find(".//encryption") is not None for one in (disk, wanted)):
        raise exception.NotImplementedByDriver(what="the exchange of encrypted volumes under a guest")
    if not is_same_source(disk, wanted):
        target = str(disk.find("target").get("dev"))    # type: ignore[union-attr]  # every disk has one
        _mirror(guest, target, _front_part(guest, target, xml) if larger else xml)
    # the configuration of the next start; what names the disk inside the guest stays as it is
    serial_element = wanted.find("serial")
    if serial_element is not None:
        serial_element.text = serial
    kept = etree.tostring(wanted, encoding="unicode")
    guest.do(lambda domain: domain.updateDeviceFlags(kept, guest.lib.VIR_DOMAIN_AFFECT_CONFIG) and None, must_exist=True)


def _starts_with(guest: Guest, serial: str, wanted: etree._Element) -> bool:
    """Whether the guest, which is off, has the wanted source at its next start: that is written after the pivot."""
    configured = GuestDisks(guest).side(guest.lib.VIR_DOMAIN_AFFECT_CONFIG)
    disk = None if configured is None else GuestDisks.element(configured, serial)
    return disk is not None and is_same_source(disk, wanted)


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


def _mirror(guest: Guest, target: str, xml: str) -> None:
    lib = guest.lib
    flags = lib.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | lib.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    if _info(guest, target):
        LOG.warning("Ending a copy of %s that nobody waits for", target, extra={"instance_uuid": guest.uuid})
        guest.do(lambda domain: domain.blockJobAbort(target, 0) and None)
    guest.do(lambda domain: domain.blockCopy(target, xml, {}, flags) and None, must_exist=True)
    deadline: float | None = None
    while True:
        info = _info(guest, target)
        if not info:
            raise exception.VirtDriverError(what="Exchanging a volume", reason=f"the copy of {target} broke off")
        if info["end"] and info["cur"] == info["end"]:
            deadline = deadline or time.monotonic() + PIVOT_TIMEOUT
            if _pivot(guest, target, time.monotonic() > deadline):
                return
        time.sleep(POLL)


def _pivot(guest: Guest, target: str, last: bool) -> bool:
    """False when the job is not ready yet, of which the counters say nothing."""
    lib = guest.lib

    def pivot(domain: Any) -> bool:
        try:
            domain.blockJobAbort(target, lib.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
            return True
        except lib.libvirtError as error:
            if last or error.get_error_code() != lib.VIR_ERR_BLOCK_COPY_ACTIVE:
                raise
            return False

    return bool(guest.do(pivot, must_exist=True))


def _info(guest: Guest, target: str) -> dict[str, Any]:
    """{} without a job."""
    return dict(guest.do(lambda domain: domain.blockJobInfo(target, 0), must_exist=True, retry=True) or {})
