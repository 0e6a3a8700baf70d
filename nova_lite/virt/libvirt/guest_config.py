"""From a server (flavor with extra specs, image properties, nics, files) to the GuestConfig of its domain.

Pure: no file is looked at and nothing is asked of libvirt. What a flavor or image asks and this driver cannot give is
BuildAborted, never left out in silence.
"""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from nova_lite import exception, units, version
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt import device_names
from nova_lite.virt.libvirt import volumes
from nova_lite.virt.libvirt.config import Cpu, Description, Disk, Graphics, GuestConfig, Nic, Port, Rng
from nova_lite.virt.libvirt.files import GuestDirectory

T = TypeVar("T")

DISK_BUSES = device_names.PREFIXES
SCSI_MODELS = ("virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078", "buslogic", "vmpvscsi")
VIF_MODELS = ("virtio", "e1000", "e1000e", "rtl8139", "pcnet", "ne2k_pci")
# VIF type -> kind of nic, and which of the port's details are its source and mode
_VIF_TYPES = {"bridge": ("bridge", "bridge", ""), "ovs": ("ovs", "bridge", ""),
              "vhostuser": ("vhostuser", "vhostuser_socket", "vhostuser_mode"),
              "macvtap": ("direct", "macvtap_source", "macvtap_mode"), "hw_veb": ("hostdev", "pci_slot", "")}
VIDEO_MODELS = ("virtio", "vga", "cirrus", "qxl", "bochs", "none")
WATCHDOG_ACTIONS = ("disabled", "reset", "poweroff", "pause", "none")
TB_CACHE_MB = 32
# asked for by a flavor, but not to be had here: key -> the values that mean "no"
_REFUSED: dict[str, tuple[str, ...]] = {
    "hw:cpu_policy": ("shared",), "hw:mem_page_size": ("any", "small"), "hw:numa_nodes": (), "hw:cpu_realtime": ("no", "false"),
    "hw:mem_encryption": ("false",), "hw:tpm_model": (), "hw:tpm_version": (), "hw:pmem": (), "pci_passthrough:alias": (),
    "accel:device_profile": (), "os:secure_boot": ("disabled", "optional")}
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class HostFacts:
    """What the guests of this host are like, from configuration and from what libvirt says the host can do."""

    virt_type: str
    arch: str = "x86_64"
    machine: str = "pc"
    cpu_mode: str = ""
    cpu_model: str = ""
    cache_mode: str = "none"
    disk_format: str = "qcow2"
    listen: str = ""                    # where consoles listen
    graphics: tuple[str, ...] = ()      # vnc, spice
    video: str = "virtio"


def make(instance: Instance, name: str, vifs: Iterable[VIF], files: GuestDirectory, host: HostFacts) -> GuestConfig:
    """The guest as it is to be started; raises BuildAborted for what cannot be had."""
    _refuse(instance)
    vifs = list(vifs)
    specs = instance.flavor.extra_specs
    kvm = host.virt_type == "kvm"
    disks = _disks(instance, files, host)
    return GuestConfig(
        uuid=instance.uuid, name=name, virt_type=host.virt_type, arch=host.arch,
        machine=str(_property(instance, "hw_machine_type", host.machine)), memory_mb=instance.flavor.memory_mb,
        cpu=_cpu(instance, host), console_log=str(files.console_log), description=_description(instance, vifs),
        disks=disks, nics=tuple(nic(instance, vif) for vif in vifs if vif.type != "null"),
        graphics=_graphics(instance, host), rng=_rng(instance),
        firmware="efi" if _property(instance, "hw_firmware_type", "bios") == "uefi" else None,
        boot_menu=_true(specs.get("hw:boot_menu", _property(instance, "hw_boot_menu", False))),
        local_time=_property(instance, "os_type", "linux") == "windows",
        scsi_model=_choice(instance, "hw_scsi_model", SCSI_MODELS, "virtio-scsi"),
        guest_agent=has_agent(instance), watchdog=_watchdog(instance),
        tb_cache_mb=None if kvm else TB_CACHE_MB)


def volume(instance: Instance, device: BlockDevice) -> Disk:
    """One connected volume as it is to be attached to the guest that lives; it may be in ``instance.block_devices`` or not."""
    others = [d for d in instance.block_devices if d.id != device.id]
    names = device_names.assign(dataclasses.replace(instance, block_devices=[*others, device]))
    return volumes.disk(instance, device, names[device.id])


def _refuse(instance: Instance) -> None:
    for key, harmless in _REFUSED.items():
        value = instance.flavor.extra_specs.get(key)
        if value is not None and value.lower() not in harmless:
            raise _aborted(instance, f"flavor {instance.flavor.name} asks for {key}={value}, which this host's driver does "
                                     f"not offer")


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
    return _true(_property(instance, "hw_qemu_guest_agent", False))


def admin_user(instance: Instance) -> str:
    """Whose password is meant by "the admin password"."""
    named = _property(instance, "os_admin_user", "")
    return str(named) if named else "Administrator" if _property(instance, "os_type", "") == "windows" else "root"


def _true(value: object) -> bool:
    return str(value).lower() in ("true", "yes", "1", "on")


def _number(instance: Instance, specs: dict[str, str], key: str, minimum: int = 0) -> int | None:
    value = specs.get(key)
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise _aborted(instance, f"flavor extra spec {key}={value} is not a number of at least {minimum}")
    return number


def _tuned(instance: Instance, names: dict[str, str], convert: Callable[[int], int] = int) -> dict[str, int]:
    """{extra spec: name of ours} -> {name of ours: value} for what the flavor has."""
    found = ((name, _number(instance, instance.flavor.extra_specs, key)) for key, name in names.items())
    return {name: convert(value) for name, value in found if value is not None}


def _cpu(instance: Instance, host: HostFacts) -> Cpu:
    vcpus = instance.flavor.vcpus
    sockets, cores, threads = (_topology(instance, part) for part in ("sockets", "cores", "threads"))
    cores, threads = cores or 1, threads or 1
    sockets = sockets or max(1, vcpus // (cores * threads))
    if sockets * cores * threads != vcpus:
        raise _aborted(instance, f"{sockets} sockets of {cores} cores of {threads} threads are not {vcpus} vcpus")
    tune = _tuned(instance, {f"quota:cpu_{name}": name for name in ("shares", "period", "quota")})
    return Cpu(vcpus, sockets, cores, threads, host.cpu_mode, host.cpu_model, tune)


def _topology(instance: Instance, part: str) -> int | None:
    wanted = _number(instance, instance.flavor.extra_specs, f"hw:cpu_{part}", 1)
    if wanted is None:
        value = _property(instance, f"hw_cpu_{part}", "")
        wanted = _number(instance, {f"hw_cpu_{part}": str(value)} if value else {}, f"hw_cpu_{part}", 1)
    return wanted


def _disks(instance: Instance, files: GuestDirectory, host: HostFacts) -> tuple[Disk, ...]:
    bus = _choice(instance, "hw_disk_bus", DISK_BUSES, "virtio")
    tune = _tuned(instance, {f"quota:disk_{name}_sec": f"{name}_sec" for name in (
        "read_bytes", "read_iops", "write_bytes", "write_iops", "total_bytes", "total_iops")})
    names = device_names.assign(instance)
    own = ((device_names.ROOT, files.disk, host.disk_format), (device_names.EPHEMERAL, files.ephemeral, "raw"),
           (device_names.SWAP, files.swap, "raw"))
    disks = [Disk(str(path), names[kind], bus, form, cache=host.cache_mode, tune=tune)
             for kind, path, form in own if kind in names]
    connected = [device for device in instance.block_devices if device.is_volume and device.connection_info]
    disks += [volumes.disk(instance, device, names[device.id]) for device in connected]
    if device_names.ROOT not in names and not any(device.is_root for device in connected):
        raise _aborted(instance, "the volume that it boots from is not connected")
    disks = _in_boot_order(disks, connected, names)
    if instance.config_drive:
        q35 = "q35" in str(_property(instance, "hw_machine_type", host.machine))
        cd_bus = _choice(instance, "hw_cdrom_bus", DISK_BUSES, "sata" if q35 else "ide")
        target = names[device_names.config_drive_key(DISK_BUSES[cd_bus])]
        disks.append(Disk(str(files.config_drive), target, cd_bus, "raw", "cdrom", host.cache_mode))
    return tuple(disks)


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
    names = {f"quota:vif_{way}_{name}": f"{way} {name}" for way in ("inbound", "outbound")
             for name in ("average", "peak", "burst")}
    bandwidth = {(key.split()[0], key.split()[1]): value for key, value in _tuned(instance, names).items()}
    return Nic(vif.mac_address, str(details[source_key]), vif.devname, model, vif.mtu, bandwidth, kind, vif.id,
               str(details.get(mode_key, "")), int(details["vlan"]) if kind == "hostdev" and details.get("vlan") else None,
               # Open vSwitch in user space passes packets on as it finds them in the tap, unfinished checksums and all
               offload=not (kind == "ovs" and details.get("datapath_type") == "netdev"))


def _graphics(instance: Instance, host: HostFacts) -> Graphics | None:
    if not host.graphics:
        return None
    video = _choice(instance, "hw_video_model", VIDEO_MODELS, host.video)
    megabytes = _number(instance, instance.flavor.extra_specs, "hw_video:ram_max_mb", 1)
    tablet = _property(instance, "hw_pointer_model", "usbtablet") == "usbtablet"
    return Graphics(host.listen, video, tablet, megabytes * units.KiB if megabytes else None, host.graphics)


def _rng(instance: Instance) -> Rng | None:
    specs = instance.flavor.extra_specs
    if not _true(specs.get("hw_rng:allowed", "true")):
        return None
    return Rng(_number(instance, specs, "hw_rng:rate_bytes", 1), _number(instance, specs, "hw_rng:rate_period", 1))


def _watchdog(instance: Instance) -> str | None:
    action = instance.flavor.extra_specs.get("hw:watchdog_action", _property(instance, "hw_watchdog_action", "disabled"))
    if action not in WATCHDOG_ACTIONS:
        raise _aborted(instance, f"watchdog action {action} is not one of {', '.join(WATCHDOG_ACTIONS)}")
    return None if action == "disabled" else action


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
