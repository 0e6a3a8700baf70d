"""What a hypervisor counts of a running guest."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record

DISK = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")
NIC = ("rx_octets", "rx_errors", "rx_drop", "rx_packets", "rx_rate", "tx_octets", "tx_errors", "tx_drop", "tx_packets",
       "tx_rate")

Counts = dict[str, Any]


@dataclass
class Diagnostics(Record):
    """Since the guest's start. ``uptime`` is seconds, memory MiB; what is not known is None or missing.

    ``cpus``: [{"id", "time" (nanoseconds), "utilisation" (percent)}]; ``disks``: [{"name", and those of DISK}];
    ``nics``: [{"name", "mac_address", and those of NIC}]; ``memory``: further counts in KiB, by the hypervisor's names.
    """

    state: str
    driver: str
    hypervisor: str | None = None
    hypervisor_os: str | None = None
    uptime: int | None = None
    config_drive: bool = False
    memory_maximum: int | None = None
    memory_used: int | None = None
    cpus: list[Counts] = field(default_factory=list)
    disks: list[Counts] = field(default_factory=list)
    nics: list[Counts] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
