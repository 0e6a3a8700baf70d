"""Domain XML from a GuestConfig: a pure function, one file per family of devices."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import Disk, GuestConfig, Nic
from nova_lite.virt.libvirt.domain_xml import consoles, description, disks, interfaces, machine, others


def build(config: GuestConfig) -> str:
    """The XML that libvirt's ``defineXML`` takes."""
    devices = E.devices(*disks.elements(config), *interfaces.elements(config), *consoles.elements(config),
                        *others.elements(config))
    domain = E.domain(E.uuid(config.uuid), E.name(config.name), description.element(config),
                      E.memory(str(config.memory_mb), unit="MiB"), *machine.elements(config), devices,
                      type=config.virt_type)
    return etree.tostring(domain, pretty_print=True, encoding="unicode")


def build_disk(disk: Disk) -> str:
    """The XML of one disk, to be given to a guest that lives."""
    return etree.tostring(disks.element(disk), encoding="unicode")


def build_nic(nic: Nic) -> str:
    """The XML of one nic, to be given to a guest that lives."""
    return etree.tostring(interfaces.element(nic), encoding="unicode")
