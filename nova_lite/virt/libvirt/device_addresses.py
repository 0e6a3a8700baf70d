"""Where a guest finds its devices: the addresses that libvirt gave them, read from the configuration of a domain."""
from __future__ import annotations

from lxml import etree

from nova_lite.objects.instance import Instance
from nova_lite.virt import device_names


def addresses_of(xml: str, instance: Instance) -> dict[str, str]:
    """MAC address of a nic, or id of a block device -> its address: as PCI devices have it (``0000:00:05.0``), or
    ``controller:bus:target:unit`` of a drive, or ``bus:port`` on USB. A device that has none is left out."""
    domain = etree.fromstring(xml)
    ids = {name: key for names in (device_names.assign(instance), device_names.by_device(instance))
           for key, name in names.items()}
    found = {}
    for kind, owner, name in (("interface", "mac", "address"), ("disk", "target", "dev")):
        for device in domain.iterfind(f"devices/{kind}"):
            key, address = device.find(owner), device.find("address")
            if key is not None and address is not None:
                told = str(key.get(name))
                found[told.lower() if kind == "interface" else ids.get(told, told)] = _form(address)
    return {key: address for key, address in found.items() if address}


def _form(address: etree._Element) -> str:
    kind = address.get("type")
    if kind == "pci":
        domain, bus, slot, function = (int(address.get(part, "0"), 0) for part in ("domain", "bus", "slot", "function"))
        return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
    parts = {"drive": ("controller", "bus", "target", "unit"), "usb": ("bus", "port")}.get(str(kind), ())
    return ":".join(address.get(part, "0") for part in parts)
