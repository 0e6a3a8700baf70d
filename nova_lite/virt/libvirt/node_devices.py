"""The PCI devices of a machine, as libvirt lists them."""
from __future__ import annotations

from typing import Any

from lxml import etree

from nova_lite.objects.hardware import pci
from nova_lite.objects.hardware.pci import PciDevice
from nova_lite.virt.libvirt.connection import Connection


def all_pci(connection: Connection) -> list[PciDevice]:
    """Every one of them."""
    flag = connection.libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV

    def read(c: Any) -> list[str]:
        return [device.XMLDesc(0) for device in c.listAllDevices(flag)]

    return [parse(xml) for xml in connection.run(read)]


def parse(xml: str) -> PciDevice:
    """One, from libvirt's description."""
    found = etree.fromstring(xml).find("capability[@type='pci']")
    assert found is not None
    domain, bus, slot, function = (int(found.findtext(name) or "0", 0) for name in ("domain", "bus", "slot", "function"))
    node = found.find("numa")
    parent = found.find("capability[@type='phys_function']/address")
    splits = found.find("capability[@type='virt_functions']")
    kind = pci.VIRTUAL if parent is not None else pci.STANDARD
    if splits is not None and (splits.get("maxCount", "0") != "0" or len(splits)):
        kind = pci.PHYSICAL
    return PciDevice(address=_address(domain, bus, slot, function), vendor_id=_id(found, "vendor"),
                     product_id=_id(found, "product"), dev_type=kind,
                     numa_node=int(node.get("node", "0")) if node is not None else None,
                     parent=_address(*(int(parent.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")))
                     if parent is not None else None)


def _id(found: etree._Element, name: str) -> str:
    element = found.find(name)
    return f"{int(element.get('id', '0'), 16):04x}" if element is not None else "0000"


def _address(domain: int, bus: int, slot: int, function: int) -> str:
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
