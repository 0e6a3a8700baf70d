"""The hard policies of server groups. The claim checks them again under the group's lock."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import AFFINITY, ANTI_AFFINITY, Request
from nova_lite.scheduler.snapshot import Snapshot


class ServerGroupAffinityFilter(Filter):
    """All members of a group with the policy affinity share one host; the first may go anywhere."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        if request.group_policy != AFFINITY:
            return snapshot.everything()
        if not request.group_hosts and not snapshot.group_members.any():
            return snapshot.everything()
        return snapshot.group_members > 0


class ServerGroupAntiAffinityFilter(Filter):
    """At most max_server_per_host (one) members of a group with the policy anti-affinity share a host."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        if request.group_policy != ANTI_AFFINITY:
            return snapshot.everything()
        return snapshot.group_members < request.max_server_per_host
