"""The data of an image, the same for each driver."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record


@dataclass
class ImageMeta(Record):
    """``size`` is bytes, ``min_disk`` GiB, ``min_ram`` MiB; ``properties`` are hw_*, os_*, img_* and any others.

    ``checksum`` is the hexadecimal digest of the data by ``hash_algo``; None: the data is not checked.
    """

    id: str
    name: str = ""
    status: str = "active"
    visibility: str = "public"
    owner: str = ""
    size: int = 0
    min_disk: int = 0
    min_ram: int = 0
    disk_format: str = "qcow2"
    container_format: str = "bare"
    hash_algo: str = "sha512"
    checksum: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    created_at: str = ""
    updated_at: str = ""
    protected: bool = False
