"""Hosts that work."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class ComputeFilter(Filter):
    """The compute service is enabled, not forced down, and has reported within [compute] service_down_time."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.up & snapshot.enabled
