"""Hosts with room. The claim in the database decides; these filters avoid most refused claims."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


def _fits(amount: int, used: np.ndarray, capacity: np.ndarray, physical: np.ndarray) -> np.ndarray:
    # a guest shares a host with others beyond what it has, but is never itself larger than the host
    return (used + amount <= capacity) & (physical >= amount)


class CoreFilter(Filter):
    """Enough vCPUs within cpu_allocation_ratio."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return _fits(request.vcpus, snapshot.vcpus_used, snapshot.vcpus_capacity, snapshot.vcpus)


class RamFilter(Filter):
    """Enough memory within ram_allocation_ratio."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return _fits(request.memory_mb, snapshot.memory_mb_used, snapshot.memory_mb_capacity, snapshot.memory_mb)


class DiskFilter(Filter):
    """Enough disk within disk_allocation_ratio. A flavor without disk fits everywhere."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        if not request.disk_gb:
            return snapshot.everything()
        return _fits(request.disk_gb, snapshot.local_gb_used, snapshot.local_gb_capacity, snapshot.local_gb)
