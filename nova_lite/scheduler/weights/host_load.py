"""Hosts that are busy or in trouble; their multipliers are negative."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot
from nova_lite.scheduler.weights.base import Weigher


class IoOpsWeigher(Weigher):
    """Builds, moves and snapshots under way on the host."""

    lowest = 0.0

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.io_ops


class BuildFailureWeigher(Weigher):
    """Builds that failed there since the last one that went well."""

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.failed_builds
