"""Disks and their controllers."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import Disk, GuestConfig
from nova_lite.virt.libvirt.domain_xml.elements import child

IOTHREAD = "1"      # the one of machine.py: what virtio disks do is not done by the thread that the rest of QEMU waits for


def elements(config: GuestConfig) -> list[etree._Element]:
    """All disks in their order, then a SCSI controller when one is used."""
    found = [element(disk) for disk in config.disks]
    if any(disk.bus == "scsi" for disk in config.disks):
        model = config.scsi_model or "virtio-scsi"
        controller = E.controller(type="scsi", index="0", model=model)
        if model == "virtio-scsi":
            controller.append(E.driver(iothread=IOTHREAD))
        found.append(controller)
    return found


def element(disk: Disk) -> etree._Element:
    """One <disk>, as in a domain or to be attached by itself."""
    driver = E.driver(name="qemu", type=disk.format, cache=disk.cache)
    if disk.discard:
        driver.set("discard", "unmap")
    if disk.bus == "virtio":
        driver.set("iothread", IOTHREAD)
    kind = "network" if disk.network else "block" if disk.block else "file"
    made = E.disk(driver, _source(disk), E.target(dev=disk.target, bus=disk.bus), type=kind, device=disk.device)
    if disk.tune:
        made.append(E.iotune(*(child(name, str(value)) for name, value in sorted(disk.tune.items()))))
    if disk.readonly or disk.device == "cdrom":
        made.append(E.readonly())
    if disk.shareable:
        made.append(E.shareable())
    if disk.serial:
        made.append(E.serial(disk.serial))
    if disk.boot_order:
        made.append(E.boot(order=str(disk.boot_order)))
    if disk.alias:
        made.append(E.alias(name=disk.alias))
    return made


def _source(disk: Disk) -> etree._Element:
    made = _place(disk)
    if disk.luks_secret:
        made.append(E.encryption(E.secret(type="passphrase", uuid=disk.luks_secret), format="luks"))
    return made


def _place(disk: Disk) -> etree._Element:
    if disk.network is None:
        return E.source(dev=disk.path) if disk.block else E.source(file=disk.path)
    network = disk.network
    made = E.source(protocol=network.protocol, name=network.name)
    for host, port in network.hosts:
        made.append(E.host(name=host, **({"port": port} if port else {})))
    if network.auth is not None:
        auth = network.auth
        made.append(E.auth(E.secret(type=auth.kind, uuid=auth.secret_uuid), username=auth.username))
    if network.initiator:
        made.append(E.initiator(E.iqn(name=network.initiator)))
    return made
