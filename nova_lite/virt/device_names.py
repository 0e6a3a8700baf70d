"""The names of the disks of a server: vda, vdb, ... by their bus. Pure, so that the API and the driver use the same names.

The names of the flavor's disks come first, in a fixed order; a volume keeps the name that it got. A requested name that does
not fit its bus, or is taken, is replaced: guests choose the names of disks by themselves anyway.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance

PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd", "usb": "sd"}
DEFAULT_BUS = "virtio"
ROOT, SWAP = "root", "swap"
_FORM = re.compile(r"(?:/dev/)?((?:vd|sd|hd)[a-z]{1,2})")


def disk_bus(instance: Instance, device: BlockDevice | None = None) -> str:
    """The bus of a device, or of the flavor's disks: that of the request, else that of the image, else virtio."""
    asked = device.disk_bus if device is not None else None
    said = instance.image.properties.get("hw_disk_bus") if instance.image is not None else None
    return str(asked or said or DEFAULT_BUS).lower()


def local_devices(instance: Instance) -> dict[str, BlockDevice]:
    """The devices of a request that describe the flavor's disks, by the words above."""
    said: dict[str, BlockDevice] = {}
    for device in instance.block_devices:
        if device.is_swap:
            said[SWAP] = device
        elif device.is_ephemeral:
            if device.size != 0:
                said[ephemeral(len(said.keys() - {ROOT, SWAP}))] = device
        elif not device.is_volume:
            said[ROOT] = device
    return said


def assign(instance: Instance) -> dict[str, str]:
    """Names without /dev/ of all disks of a server: of the host's own by the words above, of volumes by the device's id."""
    names = _local(instance)
    volumes = [d for d in instance.block_devices if d.is_volume]
    root = next((d for d in volumes if d.is_root), None)
    if root is not None:
        names[root.id] = names.pop(ROOT)
    waiting = []
    for device in volumes:
        asked = _asked(instance, device)
        if device is root:
            continue
        if asked is None or asked in names.values():
            waiting.append(device)
        else:
            names[device.id] = asked
    for device in waiting:
        names[device.id] = next_free(disk_bus(instance, device), names.values())
    return names


def by_device(instance: Instance) -> dict[str, str]:
    """Names without /dev/ by the id of each block device that has one."""
    names = assign(instance)
    local = {device.id: names[kind] for kind, device in local_devices(instance).items() if kind in names}
    return local | {device.id: names[device.id] for device in instance.block_devices if device.id in names}


def ephemeral(number: int) -> str:
    """The key of the name of an empty disk of the host, counted from 0; Nova's word for it, too."""
    return f"ephemeral{number}"


def config_drive_key(prefix: str) -> str:
    """The key of the config drive's name on buses with this prefix: which bus it is may be the host's to choose."""
    return f"config-drive {prefix}"


def _cdrom_prefixes(instance: Instance) -> set[str]:
    said = instance.image.properties.get("hw_cdrom_bus") if instance.image is not None else None
    return {PREFIXES.get(str(said).lower(), "hd")} if said else {"hd", "sd"}


def _local(instance: Instance) -> dict[str, str]:
    said, names = local_devices(instance), dict[str, str]()
    for kind in (ROOT, *map(ephemeral, range(len(instance.ephemeral_disks))), *([SWAP] if instance.swap_mb else [])):
        names[kind] = next_free(disk_bus(instance, said.get(kind)), names.values())
    if instance.config_drive:
        names |= {config_drive_key(prefix): _first(prefix, names.values()) for prefix in _cdrom_prefixes(instance)}
    return names


def _asked(instance: Instance, device: BlockDevice) -> str | None:
    match = _FORM.fullmatch(device.device_name or "")
    if match is None or not match[1].startswith(PREFIXES.get(disk_bus(instance, device), "?")):
        return None
    return match[1]


def next_free(bus: str, taken: Iterable[Any]) -> str:
    """The first name on a bus that is not among those that are taken; none has /dev/."""
    return _first(PREFIXES.get(bus, PREFIXES[DEFAULT_BUS]), taken)


def _first(prefix: str, taken: Iterable[Any]) -> str:
    known = set(taken)
    return next(name for name in (prefix + letters for letters in _letters()) if name not in known)


def _letters() -> Iterator[str]:
    """a ... z, aa ... zz"""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    yield from alphabet
    yield from (one + two for one in alphabet for two in alphabet)
