"""XML elements that lxml's builder cannot make."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.objects.hardware import pci


def child(tag: str, text: str) -> etree._Element:
    """An element whose name is only known at run time."""
    made = etree.Element(tag)
    made.text = text
    return made


def pci_address(address: str, **more: str) -> etree._Element:
    """<address> of a PCI function, with ``more`` attributes. Raises ValueError for what is no address."""
    parts = (f"0x{part}" for part in pci.address_parts(address))
    return E.address(**more, **dict(zip(("domain", "bus", "slot", "function"), parts, strict=True)))
