"""Nics that come and go while a guest lives, found by their hardware address."""
from __future__ import annotations

from lxml import etree

from nova_lite.virt.libvirt.guest_devices import GuestDevices


class GuestNics(GuestDevices):
    """The nics of one guest."""

    kind = "nic"

    @staticmethod
    def element(domain: etree._Element, key: str) -> etree._Element | None:
        """By hardware address, which is written in small letters or not."""
        for found in domain.iterfind("devices/interface"):
            mac = found.find("mac")
            if mac is not None and str(mac.get("address")).lower() == key.lower():
                return found
        return None
