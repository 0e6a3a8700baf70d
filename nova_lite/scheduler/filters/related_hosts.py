"""Hosts near to, or apart from, other servers: the hints same_host and different_host."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class SameHostFilter(Filter):
    """At least one of the servers of the hint same_host is on the host."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        if request.same_hosts is None:
            return snapshot.everything()
        return snapshot.on_hosts(request.same_hosts)


class DifferentHostFilter(Filter):
    """None of the servers of the hint different_host is on the host."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        if request.different_hosts is None:
            return snapshot.everything()
        return ~snapshot.on_hosts(request.different_hosts)
