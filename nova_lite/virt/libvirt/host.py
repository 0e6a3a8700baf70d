"""The resources and features of the host, as libvirt reports them."""
from __future__ import annotations

import shutil
from typing import Any

from lxml import etree
from oslo_config import cfg

from nova_lite import units
from nova_lite.objects import hardware
from nova_lite.objects.hardware import disk_encryption, pci
from nova_lite.objects.hardware.pci import PciDevice
from nova_lite.virt.driver import Inventory
from nova_lite.virt.libvirt import disks, files, host_cells, node_devices, virt_type
from nova_lite.virt.libvirt.bindings import Bindings
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.guest_config import HostFacts

_MACHINES = {"x86_64": "pc", "i686": "pc", "aarch64": "virt", "ppc64le": "pseries", "s390x": "s390-ccw-virtio"}
_MOST = (1 << 31) - 1       # what the database takes


class Host:
    """Asked once at start for what does not change; :meth:`inventory` asks for the rest each time."""

    def __init__(self, conf: cfg.ConfigOpts, connection: Connection, disk_maker: disks.DiskMaker) -> None:
        self._connection, self._disks = connection, disk_maker
        self._root = files.instances_root(conf)
        self._root.mkdir(mode=0o711, parents=True, exist_ok=True)
        files.close_to_others(self._root)
        self.capabilities = connection.run(lambda c: c.getCapabilities())
        self._arch = etree.fromstring(self.capabilities).findtext("host/cpu/arch") or "x86_64"
        self.hostname, self._type, self._version = connection.run(
            lambda c: (c.getHostname(), c.getType(), c.getVersion()))
        self.facts = self._facts(conf)
        self.cells = host_cells.of_capabilities(self.capabilities)
        self._device_specs = pci.device_specs(conf.pci.device_spec)
        self.bindings = Bindings(self._root, conf.host)

    def inventory(self) -> Inventory:
        """CPUs, memory and disk of now."""
        info = self._connection.run(lambda c: c.getInfo())
        total, free, unclaimed = self._disks.space()
        least = unclaimed // units.GiB
        kvm = self.facts.virt_type == virt_type.KVM
        supported = [[arch, domain_type, "hvm"] for arch, domain_type in virt_type.offers(self.capabilities)
                     if kvm or domain_type != virt_type.KVM]
        return Inventory(hypervisor_hostname=self.hostname, hypervisor_type=self._type, hypervisor_version=self._version,
                         vcpus=info[2], memory_mb=info[1], local_gb=total // units.GiB, free_disk_gb=free // units.GiB,
                         disk_available_least=max(-_MOST, min(least, _MOST)),
                         cpu_info=self._cpu_info(), supported_instances=supported, traits=self._traits(),
                         numa_topology=[cell.to_primitive() for cell in self.bindings.in_use(self.cells)],
                         pci_devices=[device.to_primitive() for device in self._pci_devices()])

    def _pci_devices(self) -> list[PciDevice]:
        return pci.offered(node_devices.all_pci(self._connection), self._device_specs) if self._device_specs else []

    def _facts(self, conf: cfg.ConfigOpts) -> HostFacts:
        options = conf.libvirt
        chosen = virt_type.choose(options.virt_type, self._arch, self.capabilities)
        machine = options.machine_type or _MACHINES.get(self._arch, "virt")
        mode = options.cpu_mode or ("host-model" if chosen == virt_type.KVM else "none")
        cache = options.disk_cachemode
        if cache == "none" and not disks.takes_direct_io(self._root):
            cache = "writeback"
        offered = tuple(protocol for protocol in ("vnc", "spice") if conf[protocol].enabled)
        able = self._domain_capabilities(chosen, machine)
        q35 = self._domain_capabilities(chosen, "q35") if self._arch == "x86_64" else able
        versions = _values(able, "devices/tpm[@supported='yes']", "backendVersion")
        pool = self._disks.place()
        return HostFacts(uefi="efi" in _values(able, "os", "firmware"),
                         secure_boot="yes" in _values(q35, "os/loader", "secure"),
                         tpm_versions=tuple(versions) if shutil.which("swtpm_setup") else (),
                         virt_type=chosen, arch=self._arch, machine=machine, cpu_mode="" if mode == "none" else mode,
                         cpu_model=options.cpu_model, cache_mode=cache, disk_format=self._disks.disk_format, pool=pool,
                         listen=conf.console.server_listen, graphics=offered, video=_video(able))

    def _domain_capabilities(self, chosen: str, machine: str) -> etree._Element:
        """What guests of a machine type can have."""
        found = self._connection.run(lambda c: c.getDomainCapabilities(None, self._arch, machine, chosen))
        return etree.fromstring(found)

    def _traits(self) -> list[str]:
        """What the scheduler asks for by Nova's names, where not every host has it."""
        traits = [f"COMPUTE_SECURITY_TPM_{version.replace('.', '_')}" for version in self.facts.tpm_versions]
        if self.facts.uefi:
            traits.append(hardware.UEFI)
        if self.facts.secure_boot:
            traits.append(hardware.SECURE_BOOT)
        if self._disks.encrypts:
            traits += [disk_encryption.TRAIT, disk_encryption.LUKS_TRAIT]
        return traits

    def _cpu_info(self) -> dict[str, Any]:
        cpu = etree.fromstring(self.capabilities).find("host/cpu")
        if cpu is None:
            return {}
        topology = cpu.find("topology")
        cells = etree.fromstring(self.capabilities).findall("host/topology/cells/cell")
        counts = {"cells": max(1, len(cells))}
        if topology is not None:
            counts |= {k: int(topology.get(k, "1")) for k in ("sockets", "cores", "threads")}
        return {"arch": self._arch, "model": cpu.findtext("model") or "", "vendor": cpu.findtext("vendor") or "",
                "topology": counts, "features": sorted(f.get("name", "") for f in cpu.iterfind("feature"))}


def _video(able: etree._Element) -> str:
    """virtio where QEMU has it (it may be in a package of its own), else the model that every QEMU has."""
    return "virtio" if "virtio" in _values(able, "devices/video", "modelType") else "vga"


def _values(able: etree._Element, path: str, name: str) -> list[str]:
    return [value.text or "" for value in able.iterfind(f"{path}/enum[@name='{name}']/value")]
