"""Binds a guest to NUMA nodes, CPUs and huge pages of the host, and describes the nodes that the guest has."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import GuestConfig


def elements(config: GuestConfig) -> list[etree._Element]:
    """<memoryBacking> and <numatune>, where they are needed."""
    found = []
    shared = any(nic.kind == "vhostuser" for nic in config.nics)     # the switch reads and writes the guest's memory
    pages = [E.page(size=str(cell.page_kib), unit="KiB", nodeset=str(number))
             for number, cell in enumerate(config.cells) if cell.page_kib]
    if pages or shared:
        backing = E.memoryBacking(*([E.hugepages(*pages)] if pages else [E.source(type="memfd")]))
        if shared:
            backing.append(E.access(mode="shared"))
        found.append(backing)
    if config.cells:
        everywhere = ",".join(str(number) for number in sorted({cell.host_cell for cell in config.cells}))
        nodes = [E.memnode(cellid=str(number), mode="strict", nodeset=str(cell.host_cell))
                 for number, cell in enumerate(config.cells)]
        found.append(E.numatune(E.memory(mode="strict", nodeset=everywhere), *nodes))
    return found


def pins(config: GuestConfig) -> list[etree._Element]:
    """The children of <cputune> for bound CPUs; emulator and disks run where any of them may."""
    found = [E.vcpupin(vcpu=str(vcpu), cpuset=cpus) for cell in config.cells for vcpu, cpus in sorted(cell.pins.items())]
    if found:
        everywhere = ",".join(dict.fromkeys(cpus for cell in config.cells for _, cpus in sorted(cell.pins.items())))
        found += [E.emulatorpin(cpuset=everywhere), E.iothreadpin(iothread="1", cpuset=everywhere)]
    return found


def guest_cells(config: GuestConfig) -> etree._Element:
    """<numa> of <cpu>: the nodes as the guest sees them."""
    shared = {"memAccess": "shared"} if any(nic.kind == "vhostuser" for nic in config.nics) else {}
    return E.numa(*(E.cell(id=str(number), cpus=",".join(str(vcpu) for vcpu in sorted(cell.pins)),
                           memory=str(cell.memory_mb), unit="MiB", **shared) for number, cell in enumerate(config.cells)))
