"""Disks and their controllers."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import Disk, GuestConfig
from nova_lite.virt.libvirt.domain_xml.machine import child


def elements(config: GuestConfig) -> list[etree._Element]:
    """All disks in their order, then a SCSI controller when one is used."""
    found = [_disk(disk) for disk in config.disks]
    if any(disk.bus == "scsi" for disk in config.disks):
        found.append(E.controller(type="scsi", index="0", model=config.scsi_model or "virtio-scsi"))
    return found


def _disk(disk: Disk) -> etree._Element:
    element = E.disk(E.driver(name="qemu", type=disk.format, cache=disk.cache), E.source(file=disk.path),
                     E.target(dev=disk.target, bus=disk.bus), type="file", device=disk.device)
    if disk.tune:
        element.append(E.iotune(*(child(name, str(value)) for name, value in sorted(disk.tune.items()))))
    if disk.device == "cdrom":
        element.append(E.readonly())
    if disk.serial:
        element.append(E.serial(disk.serial))
    if disk.boot_order:
        element.append(E.boot(order=str(disk.boot_order)))
    return element
