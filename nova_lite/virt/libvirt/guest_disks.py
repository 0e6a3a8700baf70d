"""Disks that come and go while a guest lives, found by their serial: the id of the volume."""
from __future__ import annotations

from typing import Any

from lxml import etree

from nova_lite import exception, units
from nova_lite.virt.libvirt import paused_copy
from nova_lite.virt.libvirt.guest_devices import GuestDevices


class GuestDisks(GuestDevices):
    """The volumes of one guest."""

    kind = "volume"

    @staticmethod
    def element(domain: etree._Element, key: str) -> etree._Element | None:
        """By serial."""
        return next((d for d in domain.iterfind("devices/disk") if d.findtext("serial") == key), None)

    @staticmethod
    def fitted(xml: str, domain: etree._Element) -> str:
        """A guest that was started by an older version has no thread for its disks."""
        disk = etree.fromstring(xml)
        driver = disk.find("driver")
        if domain.find("iothreads") is not None or driver is None or "iothread" not in driver.attrib:
            return xml
        del driver.attrib["iothread"]
        return etree.tostring(disk, encoding="unicode")

    def resize(self, serial: str, gigabytes: int) -> None:
        """Notify a running guest of the new size; a guest that is off sees it at its start. Raises VirtDriverError for a guest
        that was copied while it was paused: see paused_copy.py."""
        found = self.find(serial, self.lib.VIR_DOMAIN_AFFECT_LIVE)
        if found is None:
            return
        if self.guest.was_copied_paused():
            raise exception.DriverRefusal(what="Resizing its disk", reason=paused_copy.REASON)
        disk = etree.fromstring(found)
        target, is_encrypted = disk.find("target"), disk.find(".//encryption") is not None
        name, flag = target.get("dev") if target is not None else None, self.lib.VIR_DOMAIN_BLOCK_RESIZE_BYTES

        def resize(domain: Any) -> None:
            size = gigabytes * units.GiB
            if is_encrypted:        # the header takes the rest to a whole number of gigabytes; the guest does not see it
                size -= -domain.blockInfo(name)[0] % units.GiB
            domain.blockResize(name, size, flag)

        self.guest.do(resize)
