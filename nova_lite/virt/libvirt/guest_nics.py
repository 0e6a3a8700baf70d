"""Nics that come and go while a guest lives, found by their hardware address."""
from __future__ import annotations

import pathlib
import subprocess

from lxml import etree

from nova_lite.objects.network import VIF
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


def remove_tap(vif: VIF, netns: str) -> None:
    """libvirt removes the tap of a guest that ends; a killed libvirtd may not have. ``netns``: where it is, if not here."""
    prefix = ["ip", "-n", netns] if netns else ["ip"]
    if not netns and not pathlib.Path("/sys/class/net", vif.devname).exists():
        return
    subprocess.run([*prefix, "link", "delete", "dev", vif.devname], capture_output=True, check=False)  # noqa: S603
