"""A flavor, and its snapshot inside an instance."""
from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record


@dataclass
class Flavor(Record):
    """``flavorid`` is the public id. memory_mb and swap are MiB, root_gb and ephemeral_gb GiB. ``pci_requests`` is the meaning
    of ``pci_passthrough:alias`` (``hardware.pci.requests``). Only the flavor of a server has it: the server keeps the meaning
    that the alias had when it was created or resized."""

    flavorid: str
    name: str
    memory_mb: int
    vcpus: int
    root_gb: int
    ephemeral_gb: int = 0
    swap: int = 0
    rxtx_factor: float = 1.0
    disabled: bool = False
    is_public: bool = True
    description: str | None = None
    extra_specs: dict[str, str] = field(default_factory=dict)
    id: int | None = None
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    pci_requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def disk_gb(self) -> int:
        """GiB that a server of this flavor claims on its host: root, ephemeral and swap (rounded up)."""
        return self.root_gb + self.ephemeral_gb + -(-self.swap // 1024)
