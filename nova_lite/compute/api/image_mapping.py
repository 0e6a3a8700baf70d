"""The block_device_mapping of an image. It is a property, so the creator of the image writes it: it is checked like that of a
request. Unknown fields are left out, as Nova writes some of its own.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from oslo_utils import uuidutils

from nova_lite.objects.block_device import BLANK, IMAGE, LOCAL, SNAPSHOT, VOLUME

MAX_GIB = 0x7FFFFFFF
_NUMBER = re.compile(r"[0-9]{1,10}")
_BOOT_INDEX = re.compile(r"-?[0-9]{1,9}")


def _text(pattern: str) -> Callable[[Any], bool]:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _is_size(value: Any) -> bool:
    return not isinstance(value, bool) and bool(_NUMBER.fullmatch(str(value))) and int(value) <= MAX_GIB


def _is_boot_index(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool) and bool(_BOOT_INDEX.fullmatch(str(value)))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or value in (0, 1) or _SHORT(value)


_SHORT = _text(r"[^\x00-\x1f]{0,255}")
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "source_type": _text("|".join((VOLUME, IMAGE, SNAPSHOT, BLANK))), "destination_type": _text(f"{LOCAL}|{VOLUME}"),
    "snapshot_id": uuidutils.is_uuid_like, "volume_id": uuidutils.is_uuid_like, "image_id": uuidutils.is_uuid_like,
    "volume_size": _is_size, "boot_index": _is_boot_index, "delete_on_termination": _is_flag, "no_device": _is_flag,
    "device_name": _text(r"[a-zA-Z0-9._/-]{1,255}"), "device_type": _SHORT, "disk_bus": _SHORT, "guest_format": _SHORT,
    "volume_type": _SHORT, "tag": _text(r"[^,/\x00-\x1f]{1,60}")}


def entries(value: Any) -> list[dict[str, Any]]:
    """The entries in the form of block_device_mapping_v2. Raises ValueError with the reason."""
    if not isinstance(value, list):
        raise ValueError("it is not a list")
    return [_entry(one) for one in value]


def _entry(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError("an entry is not an object")
    found = {name: value for name, value in given.items() if name in _FIELDS and value is not None}
    for name, value in found.items():
        if not _FIELDS[name](value):
            raise ValueError(f"{name} cannot be {str(value)[:100]!r}")
    found["uuid"] = found.get("snapshot_id") or found.get("volume_id") or found.get("image_id")
    return found
