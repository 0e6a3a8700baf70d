"""The machine itself: CPUs, firmware, SMBIOS, features, clock."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite import version
from nova_lite.virt.libvirt.config import Cpu, GuestConfig

# cloud-init knows OpenStack by this product name
PRODUCT = "OpenStack Compute"
MANUFACTURER = "OpenStack Foundation"


def elements(config: GuestConfig) -> list[etree._Element]:
    """Everything between <memory> and <devices>."""
    found = [E.vcpu(str(config.cpu.vcpus))]
    if any(nic.kind == "vhostuser" for nic in config.nics):     # the switch reads and writes the guest's memory
        found.insert(0, E.memoryBacking(E.source(type="memfd"), E.access(mode="shared")))
    if config.cpu.tune:
        found.append(E.cputune(*(child(name, str(value)) for name, value in sorted(config.cpu.tune.items()))))
    found += [_sysinfo(config), _os(config), _features(config), _cpu(config.cpu), _clock(config),
              E.on_poweroff("destroy"), E.on_reboot("restart"), E.on_crash("destroy")]
    return found


def child(tag: str, text: str) -> etree._Element:
    """An element whose name is only known at run time."""
    made = etree.Element(tag)
    made.text = text
    return made


def _sysinfo(config: GuestConfig) -> etree._Element:
    entries = {"manufacturer": MANUFACTURER, "product": PRODUCT, "version": version.VERSION, "serial": config.uuid,
               "uuid": config.uuid, "family": "Virtual Machine"}
    return E.sysinfo(E.system(*(E.entry(value, name=name) for name, value in entries.items())), type="smbios")


def _os(config: GuestConfig) -> etree._Element:
    attributes = {"firmware": config.firmware} if config.firmware else {}
    element = E.os(E.type("hvm", arch=config.arch, machine=config.machine), **attributes)
    if not any(disk.boot_order for disk in config.disks):
        element.append(E.boot(dev="hd"))
    element.append(E.smbios(mode="sysinfo"))
    if config.boot_menu:
        element.append(E.bootmenu(enable="yes"))
    return element


def _features(config: GuestConfig) -> etree._Element:
    element = E.features(E.acpi(), E.apic(), E.vmcoreinfo(state="on"))
    if config.tb_cache_mb:
        element.append(E.tcg(child("tb-cache", str(config.tb_cache_mb))))
        element[-1][0].set("unit", "MiB")
    return element


def _cpu(cpu: Cpu) -> etree._Element:
    topology = E.topology(sockets=str(cpu.sockets), cores=str(cpu.cores), threads=str(cpu.threads))
    if not cpu.mode:
        return E.cpu(topology)
    element = E.cpu(mode=cpu.mode)
    if cpu.mode == "custom":
        element.set("match", "exact")
        element.append(E.model(cpu.model))
    elif cpu.mode == "host-passthrough":
        element.set("check", "none")
    element.append(topology)
    return element


def _clock(config: GuestConfig) -> etree._Element:
    element = E.clock(offset="localtime" if config.local_time else "utc")
    if config.virt_type == "kvm":
        element.extend([E.timer(name="pit", tickpolicy="delay"), E.timer(name="rtc", tickpolicy="catchup")])
    element.append(E.timer(name="hpet", present="no"))
    return element
