"""From a server (flavor with extra specs, image properties, nics, files) to the GuestConfig of its domain. Pure: it reads no
file, and does not call libvirt. What a flavor or image asks for and this driver does not offer is BuildAborted, never ignored.
"""
from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nova_lite import exception, units, version
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.hardware import cpu, devices, limits, pci
from nova_lite.objects.hardware.asked import Asked, is_true
from nova_lite.objects.hardware.placement import BoundCell
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt import device_names
from nova_lite.virt.libvirt import encryption, images, volumes
from nova_lite.virt.libvirt.config import (
    Cpu,
    Description,
    Disk,
    DiskPool,
    Firmware,
    Graphics,
    GuestConfig,
    Nic,
    Port,
    Rng,
    Tpm,
)
from nova_lite.virt.libvirt.files import GuestDirectory, image_name

T = TypeVar("T")

SCSI_MODELS = ("virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078", "buslogic", "vmpvscsi")
VIF_MODELS = ("virtio", "e1000", "e1000e", "rtl8139", "pcnet", "ne2k_pci")
# VIF type -> kind of nic, and which of the port's details are its source and mode
_VIF_TYPES = {"bridge": ("bridge", "bridge", ""), "ovs": ("ovs", "bridge", ""),
              "vhostuser": ("vhostuser", "vhostuser_socket", "vhostuser_mode"),
              "macvtap": ("direct", "macvtap_source", "macvtap_mode"), "hw_veb": ("hostdev", "pci_slot", "")}
VIDEO_MODELS = ("virtio", "vga", "cirrus", "qxl", "bochs", "none")
TB_CACHE_MB = 32
MOST_QUEUES = 256        # that a tap has
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class HostFacts:
    """The properties of all guests of this host, from the configuration and from libvirt's capabilities."""

    virt_type: str
    arch: str = "x86_64"
    machine: str = "pc"
    cpu_mode: str = ""
    cpu_model: str = ""
    cache_mode: str = "none"
    disk_format: str = "qcow2"          # of the guest's root disk
    pool: DiskPool | None = None        # where the guests' own disks are, if not in their directories
    listen: str = ""                    # where consoles listen
    graphics: tuple[str, ...] = ()      # vnc, spice
    video: str = "virtio"
    uefi: bool = True
    secure_boot: bool = False
    tpm_versions: tuple[str, ...] = ()


def make(instance: Instance, name: str, vifs: Iterable[VIF], files: GuestDirectory, host: HostFacts,
         cells: tuple[BoundCell, ...] = (), hostdevs: Sequence[str] = ()) -> GuestConfig:
    """The guest as it is to be started, bound to ``cells`` of the host, with ``hostdevs`` of its PCI devices. Raises
    BuildAborted or InvalidHardware for a guest that no host can have, BuildFailed for one that only this host cannot have."""
    asked = Asked(instance.flavor, instance.image)
    vifs = list(vifs)
    kvm = host.virt_type == "kvm"
    machine = str(_property(instance, "hw_machine_type", host.machine))
    return GuestConfig(
        uuid=instance.uuid, name=name, virt_type=host.virt_type, arch=host.arch, machine=machine,
        memory_mb=instance.flavor.memory_mb, cpu=_cpu(asked, host), console_log=str(files.console_log),
        description=_description(instance, vifs), disks=_disks(instance, files, host),
        nics=tuple(nic(instance, vif) for vif in vifs if vif.type != "null"), graphics=_graphics(instance, host),
        rng=_rng(asked), firmware=_firmware(instance, files, host, machine), tpm=_tpm(instance, host),
        boot_menu=is_true(asked.either("boot_menu")), local_time=_property(instance, "os_type", "linux") == "windows",
        has_hpet=is_true(asked.property("hw_time_hpet")),
        scsi_model=_choice(instance, "hw_scsi_model", SCSI_MODELS, "virtio-scsi"), guest_agent=has_agent(instance),
        watchdog=devices.watchdog(asked), serial_ports=devices.serial_ports(asked), cells=cells,
        hostdevs=_hostdevs(instance, hostdevs),
        hide_hypervisor=kvm and _hides_hypervisor(asked), tb_cache_mb=None if kvm else TB_CACHE_MB)


def check(instance: Instance, vifs: Iterable[VIF], files: GuestDirectory, host: HostFacts, hostdevs: Sequence[str]) -> None:
    """Raises as ``make`` does; whether it can be bound to the host, and whether it has its root volume yet, is left open."""
    devices_here = [d for d in instance.block_devices if not d.is_root or d.connection_info]
    make(dataclasses.replace(instance, block_devices=devices_here), instance.uuid, vifs, files, host, hostdevs=hostdevs)


def volume(instance: Instance, device: BlockDevice) -> Disk:
    """One connected volume as it is to be attached to the guest that lives; it may be in ``instance.block_devices`` or not."""
    others = [d for d in instance.block_devices if d.id != device.id]
    names = device_names.assign(dataclasses.replace(instance, block_devices=[*others, device]))
    return volumes.disk(instance, device, names[device.id])


def _aborted(instance: Instance, reason: str) -> exception.BuildAborted:
    return exception.BuildAborted(instance_id=instance.uuid, reason=reason)


def _property(instance: Instance, name: str, default: T) -> T | str:
    if instance.image is None:
        return default
    value = instance.image.properties.get(name)
    return default if value in (None, "") else value


def _choice(instance: Instance, name: str, allowed: Iterable[str], default: str) -> str:
    value = str(_property(instance, name, default)).lower()
    allowed = tuple(allowed)
    if value not in allowed:
        raise _aborted(instance, f"image property {name}={value} is not one of {', '.join(allowed)}")
    return value


def has_agent(instance: Instance) -> bool:
    """Whether the image says that QEMU's agent runs in it."""
    return is_true(_property(instance, "hw_qemu_guest_agent", False))


def check_agent(instance: Instance) -> None:
    """Raises Conflict where the admin password cannot be set."""
    if not has_agent(instance):
        raise exception.Conflict(f"Failed to set admin password on {instance.uuid}: QEMU guest agent is not enabled (the "
                                 "image needs hw_qemu_guest_agent=yes, and the agent in it).")


def requires_quiesce(instance: Instance) -> bool:
    """Whether the image wants no snapshot of a running guest without quiet file systems."""
    return is_true(_property(instance, "os_require_quiesce", False))


def admin_user(instance: Instance) -> str:
    """Whose password is meant by "the admin password"."""
    named = _property(instance, "os_admin_user", "")
    return str(named) if named else "Administrator" if _property(instance, "os_type", "") == "windows" else "root"


def _cpu(asked: Asked, host: HostFacts) -> Cpu:
    sockets, cores, threads = cpu.topology(asked)
    return Cpu(asked.flavor.vcpus, sockets, cores, threads, host.cpu_mode, host.cpu_model, limits.cpu(asked),
               asked.agreed_flag("pmu"))


def _hides_hypervisor(asked: Asked) -> bool:
    return is_true(asked.spec("hw:hide_hypervisor_id") or asked.spec("hide_hypervisor_id")
                   or asked.property("img_hide_hypervisor_id"))


def _firmware(instance: Instance, files: GuestDirectory, host: HostFacts, machine: str) -> Firmware | None:
    asked = Asked(instance.flavor, instance.image)
    if not devices.is_uefi(asked):
        return None
    if not host.uefi:
        raise _lacks(instance, "the image asks for hw_firmware_type=uefi, and this host has no UEFI (Debian: ovmf)")
    wanted, able = devices.secure_boot(asked), host.secure_boot and "q35" in machine
    if wanted == devices.REQUIRED and not able:
        raise _lacks(instance, "secure boot is required, which this host offers with hw_machine_type=q35" if host.secure_boot
                     else "secure boot is required, and this host has no firmware for it")
    return Firmware(str(files.nvram), able and wanted != devices.DISABLED)


def _tpm(instance: Instance, host: HostFacts) -> Tpm | None:
    asked = devices.tpm(Asked(instance.flavor, instance.image))
    if asked is None:
        return None
    if asked.version not in host.tpm_versions:
        raise _lacks(instance, f"a TPM {asked.version} is asked for, and this host has none (Debian: swtpm, swtpm-tools)")
    return Tpm(asked.version, asked.model)


def _hostdevs(instance: Instance, claimed: Sequence[str]) -> tuple[str, ...]:
    """A guest does not start without what its flavor promises."""
    asked = pci.count(instance.flavor.pci_requests)
    if len(claimed) != asked:
        raise _lacks(instance, f"{asked} PCI devices are asked for, and it holds {len(claimed)} of this host")
    return tuple(claimed)


def _lacks(instance: Instance, reason: str) -> exception.BuildFailed:
    """Another host may have it."""
    return exception.BuildFailed(instance_id=instance.uuid, reason=reason)


def _disks(instance: Instance, files: GuestDirectory, host: HostFacts) -> tuple[Disk, ...]:
    bus = _choice(instance, "hw_disk_bus", device_names.PREFIXES, "virtio")
    tune = limits.disk(Asked(instance.flavor, instance.image))
    names, said = device_names.assign(instance), device_names.local_devices(instance)
    secret = luks_secret(instance, host)
    own = ((device_names.ROOT, files.disk, host.disk_format),
           *((device_names.ephemeral(number), path, "raw") for number, path in enumerate(files.ephemerals)),
           (device_names.SWAP, files.swap, "raw"))
    buses = {kind: device.disk_bus or bus for kind, device in said.items()}
    disks = [placed(Disk("", names[kind], buses.get(kind, bus), images.OVERLAY if secret else form, cache=host.cache_mode,
                         tune=tune, discard=True, luks_secret=secret), path, host)
             for kind, path, form in own if kind in names]
    connected = [device for device in instance.block_devices if device.is_volume and device.connection_info]
    disks += [volumes.disk(instance, device, names[device.id]) for device in connected]
    if device_names.ROOT not in names and not any(device.is_root for device in connected):
        raise _aborted(instance, "the volume that it boots from is not connected")
    disks = _in_boot_order(disks, connected, names)
    if instance.config_drive:
        q35 = "q35" in str(_property(instance, "hw_machine_type", host.machine))
        cd_bus = _choice(instance, "hw_cdrom_bus", device_names.PREFIXES, "sata" if q35 else "ide")
        target = names[device_names.config_drive_key(device_names.PREFIXES[cd_bus])]
        disks.append(Disk(str(files.config_drive), target, cd_bus, "raw", "cdrom", host.cache_mode))
    return tuple(disks)


def luks_secret(instance: Instance, host: HostFacts) -> str:
    """Of the guest's own disks; empty: they are plain. Raises BuildFailed where this host cannot encrypt them."""
    encrypted = encryption.of_disks(instance)
    if encrypted is None:
        return ""
    if host.pool is not None or host.disk_format != images.OVERLAY:
        raise _lacks(instance, encryption.NOT_HERE)
    return encrypted.secret_uuid


def placed(disk: Disk, path: pathlib.Path, host: HostFacts) -> Disk:
    """A disk of the guest's own, with ``path`` as its file or, by the name that follows from it, in the host's pool."""
    return dataclasses.replace(disk, path=str(path), network=host.pool.source(image_name(path)) if host.pool else None)


def _in_boot_order(disks: list[Disk], connected: list[BlockDevice], names: dict[str, str]) -> list[Disk]:
    """By name, the root disk first. Only where there are volumes does each disk say itself when it is to boot."""
    if not connected:
        return disks
    index = {names[d.id]: d.boot_index for d in connected if d.boot_index is not None and d.boot_index >= 0}
    if device_names.ROOT in names:
        index[names[device_names.ROOT]] = -1
    order = {target: number for number, target in enumerate(sorted(index, key=lambda t: (index[t], t)), 1)}
    disks = sorted(disks, key=lambda disk: (order.get(disk.target) != 1, len(disk.target), disk.target))
    return [dataclasses.replace(disk, boot_order=order.get(disk.target)) for disk in disks]


def nic(instance: Instance, vif: VIF) -> Nic:
    """The nic of a port; raises BuildAborted for one that this driver does not offer."""
    kind, source_key, mode_key = _VIF_TYPES.get(vif.type, ("", "", ""))
    if not kind:
        raise _aborted(instance, f"port {vif.id} has VIF type {vif.type}, which this driver does not offer")
    details = vif.details
    if not details.get(source_key):
        raise _aborted(instance, f"port {vif.id} of VIF type {vif.type} names no {source_key}")
    model = _choice(instance, "hw_vif_model", VIF_MODELS, "virtio")
    asked = Asked(instance.flavor, instance.image)
    queues = min(instance.flavor.vcpus, MOST_QUEUES) if asked.agreed_flag("vif_multiqueue_enabled") else 1
    return Nic(vif.mac_address, str(details[source_key]), vif.devname, model, vif.mtu, limits.vif(asked), kind,
               str(details.get(mode_key, "")), int(details["vlan"]) if kind == "hostdev" and details.get("vlan") else None,
               queues=queues,
               # Open vSwitch in user space passes packets on as it finds them in the tap, unfinished checksums and all
               offload=not (kind == "ovs" and details.get("datapath_type") == "netdev"))


def _graphics(instance: Instance, host: HostFacts) -> Graphics | None:
    if not host.graphics:
        return None
    video = _choice(instance, "hw_video_model", VIDEO_MODELS, host.video)
    asked = Asked(instance.flavor, instance.image)
    megabytes, bus = devices.video_ram(asked), asked.property("hw_input_bus") or "usb"
    tablet = _property(instance, "hw_pointer_model", "usbtablet") == "usbtablet"
    return Graphics(host.listen, video, bus.lower() if tablet else "", megabytes * units.KiB if megabytes else None,
                    host.graphics)


def _rng(asked: Asked) -> Rng | None:
    if not is_true(asked.spec("hw_rng:allowed") or "true"):
        return None
    return Rng(asked.number("hw_rng:rate_bytes"), asked.number("hw_rng:rate_period"))


def _description(instance: Instance, vifs: list[VIF]) -> Description:
    flavor = instance.flavor
    ports = tuple(Port(vif.id, tuple((ip.address, ip.version) for ip in vif.fixed_ips)) for vif in vifs)
    created = instance.created_at.strftime("%Y-%m-%d %H:%M:%S") if instance.created_at else ""
    return Description(
        package=version.VERSION, name=_text(instance.display_name), created=created, flavor_name=_text(flavor.name),
        flavor_id=_text(flavor.flavorid), memory_mb=flavor.memory_mb, root_gb=flavor.root_gb, swap_mb=flavor.swap,
        ephemeral_gb=flavor.ephemeral_gb, vcpus=flavor.vcpus,
        extra_specs={_text(k): _text(v) for k, v in flavor.extra_specs.items()}, image_id=instance.image_ref,
        user_id=_text(instance.user_id), project_id=_text(instance.project_id), ports=ports)


def _text(value: str) -> str:
    """Without the characters that XML cannot carry."""
    return _ILLEGAL.sub("?", value)
