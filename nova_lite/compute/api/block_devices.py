"""The meaning of ``block_device_mapping`` and ``block_device_mapping_v2`` of a request. Pure: nothing is looked up in here.

Both become :class:`BlockDevice` records without ids; every server of the request gets its own copies (:func:`for_server`).
"""
from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import strutils, uuidutils

from nova_lite import exception, json_in
from nova_lite.compute.api import image_mapping
from nova_lite.objects.block_device import BLANK, FORMATS, IMAGE, LOCAL, MAX_LOCAL, SNAPSHOT, VOLUME, BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import device_names

Mappings = Sequence[Mapping[str, Any]]
MAX_DEVICES = 26        # letters of disk names
ROOT = "vda"
_EPHEMERAL = re.compile(r"ephemeral\d+")
_DEFAULT_DESTINATION = {VOLUME: VOLUME, SNAPSHOT: VOLUME, IMAGE: LOCAL, BLANK: LOCAL}
_COMBINATIONS = {(IMAGE, LOCAL), (BLANK, LOCAL), (IMAGE, VOLUME), (SNAPSHOT, VOLUME), (BLANK, VOLUME), (VOLUME, VOLUME)}


def parse(mapping: Mappings, legacy: Mappings, image_id: str, root_name: str = "") -> list[BlockDevice]:
    """The devices of a request, the image on the local root disk among them when they name or imply it; [] for a request
    without any mapping. ``root_name`` is the device name that means the root disk in the legacy form.

    Raises InvalidBlockDevice and BootSequenceInvalid (400).
    """
    if mapping and legacy:
        raise exception.Invalid("Using different block_device_mapping syntaxes is not allowed in the same request.")
    if legacy:
        devices = _legacy_devices(legacy, image_id, root_name or ROOT)
    else:
        devices = [_device(one, image_id) for one in mapping if not _is_no_device(one)]
    if devices:
        _check_sequence(devices)
        _check_unique([d.volume_id for d in devices if d.volume_id], "volume")
        _check_unique([d.tag for d in devices if d.tag], "device tag")
        if len(devices) > MAX_DEVICES:
            raise exception.TooManyDiskDevices(maximum=MAX_DEVICES)
    elif not image_id:
        raise exception.Invalid("Invalid imageRef provided.")
    return devices


def with_those_of_image(mapping: Mappings, image: ImageMeta) -> Mappings:
    """The mapping of a request, together with the mapping of an image of a server with volumes: the snapshots of its volumes.
    Devices of the request, and its root disk, replace those of the image. Raises InvalidBlockDevice."""
    if not strutils.bool_from_string(image.properties.get("bdm_v2")):
        return mapping
    own = image.properties.get("block_device_mapping") or "[]"
    try:
        known = image_mapping.entries(json_in.loads(own) if isinstance(own, str) else own)
    except ValueError as error:
        raise _invalid(f"the block_device_mapping of image {image.id} is not one: {error}") from error
    if any(_is_root(one) for one in known):
        mapping = [one for one in mapping if (one.get("source_type"), one.get("uuid")) != (IMAGE, image.id)]
    # an image of an earlier version names file systems that had no effect then
    known = [{**one, "guest_format": None} if one.get("guest_format") not in (None, "swap", *FORMATS) else one for one in known]
    names = {one.get("device_name") for one in mapping} - {None}
    has_root = any(_is_root(one) for one in mapping)
    return [*(one for one in known if one.get("device_name") not in names and not (has_root and _is_root(one))), *mapping]


def _is_root(one: Mapping[str, Any]) -> bool:
    return str(one.get("boot_index")) == "0"


def as_mapping(device: BlockDevice, snapshot_id: str | None) -> dict[str, Any]:
    """One entry of the mapping of an image of a server: ``snapshot_id`` is that of the device's volume."""
    source = {"source_type": SNAPSHOT, "destination_type": VOLUME, "snapshot_id": snapshot_id} if snapshot_id \
        else {"source_type": device.source_type, "destination_type": device.destination_type}
    return {**source, "boot_index": device.boot_index, "volume_size": device.size, "device_name": device.device_name,
            "device_type": device.device_type, "disk_bus": device.disk_bus, "guest_format": device.guest_format,
            "delete_on_termination": device.delete_on_termination, "tag": device.tag, "volume_type": device.volume_type,
            "volume_id": None, "image_id": None, "no_device": None}


def _invalid(reason: str) -> exception.InvalidBlockDevice:
    return exception.InvalidBlockDevice(reason=reason)


def _is_no_device(one: Mapping[str, Any]) -> bool:
    value = one.get("no_device")
    return strutils.bool_from_string(value, default=bool(value)) if isinstance(value, str) else bool(value)


# block_device_mapping_v2 --------------------------------------------------------------------------------------------------
def _device(one: Mapping[str, Any], image_id: str) -> BlockDevice:
    source = one.get("source_type")
    if not source:
        raise _invalid("Missing source_type field.")
    destination = one.get("destination_type") or _DEFAULT_DESTINATION[source]
    given, boot_index = one.get("uuid"), _boot_index(one.get("boot_index"))
    _check_source(source, destination, given, boot_index, image_id)
    volume_type = one.get("volume_type")
    if volume_type and destination == LOCAL:
        raise _invalid("Specifying a volume_type with destination_type=local is not supported.")
    if volume_type and source == VOLUME:
        raise _invalid(f"Specifying a volume_type for the existing volume {given} is not supported.")
    return BlockDevice(
        id="", source_type=source, destination_type=destination, source_id=given, boot_index=boot_index,
        size=_size(one.get("volume_size")), volume_id=given if source == VOLUME else None, volume_type=volume_type or None,
        delete_on_termination=_flag(one.get("delete_on_termination")), device_name=_device_name(one.get("device_name")),
        device_type=_device_type(one.get("device_type")), disk_bus=_bus(one.get("disk_bus")),
        guest_format=_format(source, destination, one.get("guest_format")), tag=one.get("tag"))


def _check_source(source: str, destination: str, given: str | None, boot_index: int | None, image_id: str) -> None:
    if source == BLANK and given:
        raise _invalid("Invalid device UUID.")
    if source != BLANK and not given:
        raise _invalid("Missing device UUID.")
    if given and not uuidutils.is_uuid_like(given):
        raise _invalid(f"{given} is not the id of a{'n' if source == IMAGE else ''} {source}.")
    if (source, destination) not in _COMBINATIONS:
        raise _invalid(f"a {source} cannot be a {destination} disk.")
    if (source, destination) == (IMAGE, LOCAL):
        if not (image_id and boot_index == 0):
            raise _invalid("Mapping image to local is not supported.")
        if given != image_id:
            raise _invalid(f"image {given} is not the image {image_id} of the server.")


def _boot_index(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        index = int(str(value)[:10])
    except ValueError as error:
        raise _invalid("Boot index is invalid.") from error
    return index if index >= 0 else None


def _size(value: Any) -> int | None:
    return None if value in (None, "") else int(value)


def _flag(value: Any) -> bool:
    return strutils.bool_from_string(value) if value is not None else False


def _bus(value: str | None) -> str | None:
    if value and value not in device_names.PREFIXES:
        raise _invalid(f"disk_bus {value} is not one of {', '.join(sorted(device_names.PREFIXES))}.")
    return value or None


def _format(source: str, destination: str, value: str | None) -> str | None:
    """What a host makes of an empty disk. On other disks it has no effect, as in Nova."""
    if (source, destination) == (BLANK, LOCAL) and value and value not in ("swap", *FORMATS):
        raise _invalid(f"guest_format {value} is not offered: an empty disk is swap, {', '.join(FORMATS)}.")
    return value or None


def _device_type(value: str | None) -> str | None:
    if value and value != "disk":
        raise _invalid(f"device_type {value} is not offered: each block device is a disk.")
    return value or None


def _device_name(value: str | None) -> str | None:
    if value is None:
        return None
    if not value or " " in value:
        raise _invalid("Device name is empty or contains spaces.")
    return value


def _check_sequence(devices: Sequence[BlockDevice]) -> None:
    indexes = sorted(d.boot_index for d in devices if d.boot_index is not None)
    if not indexes or indexes != list(range(len(indexes))):
        raise exception.BootSequenceInvalid()


def _check_unique(values: Sequence[str], what: str) -> None:
    if len(set(values)) < len(values):
        raise _invalid(f"The same {what} is given more than once.")


# block_device_mapping -----------------------------------------------------------------------------------------------------
def _legacy_devices(legacy: Mappings, image_id: str, root_name: str) -> list[BlockDevice]:
    """The old form names no boot order: the device with the root disk's name is the root, else the image is."""
    devices = [_legacy_device(one) for one in legacy if not _is_no_device(one)]
    root = next((d for d in devices if d.is_volume and _short(d.device_name) == _short(root_name)), None)
    if root is not None:
        root.boot_index = 0
        return devices
    if not image_id:
        raise exception.BootSequenceInvalid()
    return [BlockDevice("", IMAGE, LOCAL, image_id, 0, delete_on_termination=True, device_type="disk"), *devices]


def _legacy_device(one: Mapping[str, Any]) -> BlockDevice:
    name, virtual = _device_name(one.get("device_name")), one.get("virtual_name") or ""
    common: dict[str, Any] = {"id": "", "device_name": name, "size": _size(one.get("volume_size"))}
    flag = _flag(one.get("delete_on_termination"))
    if virtual == "swap" or _EPHEMERAL.fullmatch(virtual):
        return BlockDevice(source_type=BLANK, destination_type=LOCAL, delete_on_termination=True,
                           guest_format="swap" if virtual == "swap" else None, **common)
    if one.get("snapshot_id"):
        return BlockDevice(source_type=SNAPSHOT, source_id=one["snapshot_id"], delete_on_termination=flag, **common)
    if one.get("volume_id"):
        volume = one["volume_id"]
        return BlockDevice(source_type=VOLUME, source_id=volume, volume_id=volume, delete_on_termination=flag, **common)
    raise _invalid("Unrecognized legacy format.")


def _short(name: str | None) -> str | None:
    return name.removeprefix("/dev/") if name else name


# against the flavor -------------------------------------------------------------------------------------------------------
def check_local(devices: Sequence[BlockDevice], flavor: Flavor) -> None:
    """Raise Invalid or a subclass (400) for disks of the host that the flavor does not give."""
    if sum(flavor.ephemeral_gb if d.size is None else d.size for d in devices if d.is_ephemeral) > flavor.ephemeral_gb:
        raise exception.Invalid("Ephemeral disks requested are larger than the instance type allows. If no size is given in "
                                "one block device mapping, flavor ephemeral size will be used.")
    swap = [d for d in devices if d.is_swap]
    if len(swap) > 1:
        raise _invalid("More than one swap drive requested.")
    if swap and (swap[0].size or 0) > flavor.swap:
        raise exception.Invalid("Swap drive requested is larger than instance type allows.")
    of_flavor = [flavor.ephemeral_gb and not any(d.is_ephemeral for d in devices),
                 flavor.swap and not any(d.is_swap for d in devices)]
    if sum(not d.is_volume for d in devices) + sum(map(bool, of_flavor)) > MAX_LOCAL:
        raise _invalid("You specified more local devices than the limit allows")


# for one server -----------------------------------------------------------------------------------------------------------
def for_server(devices: Sequence[BlockDevice], flavor: Flavor, image: ImageMeta, config_drive: bool) -> list[BlockDevice]:
    """Copies for one server, with ids and device names. A device that only repeats the flavor is left out."""
    kept = [dataclasses.replace(d, id=str(uuid.uuid4())) for d in devices if _says_something(d)]
    made = Instance("", "", "", "", flavor, image=image, block_devices=kept, config_drive=config_drive)
    names = device_names.by_device(made)
    for device in made.block_devices:
        name = names.get(device.id)
        device.device_name = f"/dev/{name}" if name else None
    return made.block_devices


def root_name(devices: Sequence[BlockDevice], image: ImageMeta) -> str:
    """What the root disk of a server with these devices is called."""
    root = next((d for d in devices if d.is_root), None)
    if root is not None and root.device_name:
        return root.device_name
    flavor = Flavor("", "", 0, 0, 0)
    return f"/dev/{device_names.assign(Instance('', '', '', '', flavor, image=image))[device_names.ROOT]}"


def _says_something(device: BlockDevice) -> bool:
    is_image = (device.source_type, device.destination_type) == (IMAGE, LOCAL)
    return not is_image or any((device.tag, device.disk_bus, device.device_type not in (None, "disk")))
