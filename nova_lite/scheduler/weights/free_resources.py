"""Weighs by free room: a positive multiplier spreads servers over the hosts, a negative one fills hosts one after the other."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot
from nova_lite.scheduler.weights.base import Weigher


class RAMWeigher(Weigher):
    """Free memory."""

    lowest = 0.0

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.memory_mb_capacity - snapshot.memory_mb_used


class CPUWeigher(Weigher):
    """Free vCPUs."""

    lowest = 0.0

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.vcpus_capacity - snapshot.vcpus_used


class DiskWeigher(Weigher):
    """Free disk."""

    lowest = 0.0

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.local_gb_capacity - snapshot.local_gb_used
