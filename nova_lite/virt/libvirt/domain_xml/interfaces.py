"""Nics: libvirt makes the tap and puts it where it belongs, and removes it when the guest ends. ``taps.py`` does so for nics on
Open vSwitch."""
from __future__ import annotations

from collections.abc import Callable

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import GuestConfig, Nic
from nova_lite.virt.libvirt.domain_xml.elements import pci_address

_OFFLOADS = ("csum", "gso", "tso4", "tso6", "ecn", "ufo")       # what a guest may leave to the host


def elements(config: GuestConfig) -> list[etree._Element]:
    """All nics in their order."""
    return [element(nic) for nic in config.nics]


def element(nic: Nic) -> etree._Element:
    """One nic."""
    return _KINDS[nic.kind](nic)


def _bridge(nic: Nic) -> etree._Element:
    made = E.interface(E.mac(address=nic.mac), E.source(bridge=nic.source), E.target(dev=nic.devname), type="bridge")
    return _on_tap(made, nic)


def _ovs(nic: Nic) -> etree._Element:
    made = E.interface(E.mac(address=nic.mac), E.target(dev=nic.devname, managed="no"), type="ethernet")
    return _on_tap(made, nic)


def _on_tap(made: etree._Element, nic: Nic) -> etree._Element:
    made.append(E.model(type=nic.model))
    driver = E.driver()
    if not nic.offload and nic.model == "virtio":
        driver.append(E.host(**dict.fromkeys(_OFFLOADS, "off")))
    return _tuned(_queued(made, nic, driver), nic)


def _queued(made: etree._Element, nic: Nic, driver: etree._Element) -> etree._Element:
    if nic.queues > 1 and nic.model == "virtio":
        driver.set("queues", str(nic.queues))
    if driver.attrib or len(driver):
        made.append(driver)
    return made


def _vhostuser(nic: Nic) -> etree._Element:
    made = E.interface(E.mac(address=nic.mac), E.source(type="unix", path=nic.source, mode=nic.mode or "client"),
                       E.model(type=nic.model), type="vhostuser")
    return _tuned(_queued(made, nic, E.driver()), nic)


def _direct(nic: Nic) -> etree._Element:
    return E.interface(E.mac(address=nic.mac), E.source(dev=nic.source, mode=nic.mode or "vepa"), E.model(type=nic.model),
                       type="direct")


def _hostdev(nic: Nic) -> etree._Element:
    made = E.interface(E.mac(address=nic.mac), E.source(pci_address(nic.source, type="pci")), type="hostdev", managed="yes")
    if nic.vlan is not None:
        made.append(E.vlan(E.tag(id=str(nic.vlan))))
    return made


_KINDS: dict[str, Callable[[Nic], etree._Element]] = {
    "bridge": _bridge, "ovs": _ovs, "vhostuser": _vhostuser, "direct": _direct, "hostdev": _hostdev}


def _tuned(made: etree._Element, nic: Nic) -> etree._Element:
    if nic.mtu:
        made.append(E.mtu(size=str(nic.mtu)))
    if nic.bandwidth:
        bandwidth = E.bandwidth()
        for direction in ("inbound", "outbound"):
            limits = {name: str(value) for (way, name), value in sorted(nic.bandwidth.items()) if way == direction}
            if limits:
                bandwidth.append(etree.Element(direction, limits))
        made.append(bandwidth)
    return made
