"""Small devices: random numbers, balloon, guest agent channel, watchdog, TPM; the slots that devices are plugged into."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import GuestConfig, Rng
from nova_lite.virt.libvirt.domain_xml.elements import pci_address

PORTS = 16      # on PCI Express each device takes one, and none can be added to a guest that lives


def elements(config: GuestConfig) -> list[etree._Element]:
    """The small devices of the guest. Memory diagnostics come from the statistics of the balloon."""
    found = []
    if "q35" in config.machine or config.machine.startswith("virt"):
        found += [E.controller(type="pci", index=str(n), model="pcie-root-port") for n in range(1, PORTS + 1)]
    if config.guest_agent:
        found.append(E.channel(E.target(type="virtio", name="org.qemu.guest_agent.0"), type="unix"))
    if config.watchdog:
        found.append(E.watchdog(model="i6300esb", action=config.watchdog))
    if config.tpm is not None:
        found.append(E.tpm(E.backend(type="emulator", version=config.tpm.version), model=config.tpm.model))
    found += [_hostdev(address) for address in config.hostdevs]
    if config.rng is not None:
        found.append(_rng(config.rng))
    found.append(E.memballoon(E.stats(period=str(config.balloon_period)), model="virtio"))
    return found


def _hostdev(address: str) -> etree._Element:
    """libvirt takes it from its driver when the guest starts, and gives it back when that ends."""
    return E.hostdev(E.source(pci_address(address)), mode="subsystem", type="pci", managed="yes")


def _rng(rng: Rng) -> etree._Element:
    element = E.rng(model="virtio")
    if rng.rate_bytes:
        element.append(E.rate(bytes=str(rng.rate_bytes), **({"period": str(rng.rate_period)} if rng.rate_period else {})))
    element.append(E.backend("/dev/urandom", model="random"))
    return element
