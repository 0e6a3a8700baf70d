"""The machine itself: CPUs, memory, firmware, SMBIOS, features, clock."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite import version
from nova_lite.virt.libvirt.config import Cpu, Firmware, GuestConfig
from nova_lite.virt.libvirt.domain_xml import numa
from nova_lite.virt.libvirt.domain_xml.elements import child

# cloud-init knows OpenStack by this product name
PRODUCT = "OpenStack Compute"
MANUFACTURER = "OpenStack Foundation"


def elements(config: GuestConfig) -> list[etree._Element]:
    """Everything between <memory> and <devices>."""
    found = [E.vcpu(str(config.cpu.vcpus)), E.iothreads("1"), *numa.elements(config)]
    tune = [child(name, str(value)) for name, value in sorted(config.cpu.tune.items())] + numa.pins(config)
    if tune:
        found.append(E.cputune(*tune))
    found += [_sysinfo(config), _os(config), _features(config), _cpu(config), _clock(config),
              E.on_poweroff("destroy"), E.on_reboot("restart"), E.on_crash("destroy")]
    return found


def _sysinfo(config: GuestConfig) -> etree._Element:
    entries = {"manufacturer": MANUFACTURER, "product": PRODUCT, "version": version.VERSION, "serial": config.uuid,
               "uuid": config.uuid, "family": "Virtual Machine"}
    return E.sysinfo(E.system(*(E.entry(value, name=name) for name, value in entries.items())), type="smbios")


def _os(config: GuestConfig) -> etree._Element:
    element = E.os(E.type("hvm", arch=config.arch, machine=config.machine))
    if config.firmware is not None:
        _uefi(element, config.firmware)
    if not any(disk.boot_order for disk in config.disks):
        element.append(E.boot(dev="hd"))
    element.append(E.smbios(mode="sysinfo"))
    if config.boot_menu:
        element.append(E.bootmenu(enable="yes"))
    return element


def _uefi(element: etree._Element, firmware: Firmware) -> None:
    """libvirt chooses the firmware's file among those of the host. secure-boot is always set: else libvirt might choose a file
    with secure boot."""
    state = "yes" if firmware.secure_boot else "no"
    element.set("firmware", "efi")
    element.append(E.firmware(E.feature(enabled=state, name="enrolled-keys"), E.feature(enabled=state, name="secure-boot")))
    if firmware.secure_boot:
        element.append(E.loader(secure="yes"))
    element.append(E.nvram(firmware.variables))


def _features(config: GuestConfig) -> etree._Element:
    element = E.features(E.acpi(), E.apic(), E.vmcoreinfo(state="on"))
    if config.hide_hypervisor:
        element.append(E.kvm(E.hidden(state="on")))
    if config.cpu.pmu is not None:
        element.append(E.pmu(state="on" if config.cpu.pmu else "off"))
    if config.firmware is not None and config.firmware.secure_boot:
        element.append(E.smm(state="on"))
    if config.tb_cache_mb:
        element.append(E.tcg(child("tb-cache", str(config.tb_cache_mb))))
        element[-1][0].set("unit", "MiB")
    return element


def _cpu(config: GuestConfig) -> etree._Element:
    element = _cpu_model(config.cpu)
    if config.cells:
        element.append(numa.guest_cells(config))
    return element


def _cpu_model(cpu: Cpu) -> etree._Element:
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
    element.append(E.timer(name="hpet", present="yes" if config.has_hpet else "no"))
    return element
