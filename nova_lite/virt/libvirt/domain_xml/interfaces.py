"""Nics: libvirt makes the tap and puts it on the bridge, and removes it when the guest ends."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import GuestConfig, Nic


def elements(config: GuestConfig) -> list[etree._Element]:
    """All nics in their order."""
    return [_nic(nic) for nic in config.nics]


def _nic(nic: Nic) -> etree._Element:
    element = E.interface(E.mac(address=nic.mac), E.source(bridge=nic.bridge), E.target(dev=nic.devname),
                          E.model(type=nic.model), type="bridge")
    if nic.mtu:
        element.append(E.mtu(size=str(nic.mtu)))
    if nic.bandwidth:
        bandwidth = E.bandwidth()
        for direction in ("inbound", "outbound"):
            limits = {name: str(value) for (way, name), value in sorted(nic.bandwidth.items()) if way == direction}
            if limits:
                bandwidth.append(etree.Element(direction, limits))
        element.append(bandwidth)
    return element
