"""The host that was asked for."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class ForcedHostFilter(Filter):
    """Only the requested host or node, when one is named. With "force" the other filters are skipped (see ``select``)."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return requested(snapshot, request)


def requested(snapshot: Snapshot, request: Request) -> np.ndarray:
    """A mask that is true for the requested host and node; everywhere when none is named."""
    host, node = request.destination.get("host"), request.destination.get("node")
    mask = snapshot.on_hosts([host]) if host else snapshot.everything()
    if node:
        mask &= np.fromiter((name == node for name in snapshot.nodes), dtype=bool, count=snapshot.size)
    return mask
