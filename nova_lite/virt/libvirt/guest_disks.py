"""Disks that come and go while a guest lives, found by their serial: the id of the volume."""
from __future__ import annotations

from lxml import etree

from nova_lite import units
from nova_lite.virt.libvirt.guest_devices import GuestDevices


class GuestDisks(GuestDevices):
    """The volumes of one guest."""

    kind = "volume"

    @staticmethod
    def element(domain: etree._Element, key: str) -> etree._Element | None:
        """By serial."""
        return next((d for d in domain.iterfind("devices/disk") if d.findtext("serial") == key), None)

    def resize(self, serial: str, gigabytes: int) -> None:
        """Tell a running guest the new size; one that is off sees it when it starts."""
        found = self.find(serial, self.lib.VIR_DOMAIN_AFFECT_LIVE)
        if found is None:
            return
        target = etree.fromstring(found).find("target")
        name, flag = target.get("dev") if target is not None else None, self.lib.VIR_DOMAIN_BLOCK_RESIZE_BYTES
        self.guest.do(lambda domain: domain.blockResize(name, gigabytes * units.GiB, flag))
