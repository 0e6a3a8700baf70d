"""The soft policies of server groups."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.request import SOFT_AFFINITY, SOFT_ANTI_AFFINITY, Request
from nova_lite.scheduler.snapshot import Snapshot
from nova_lite.scheduler.weights.base import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """Members of the group on the host."""

    def applies(self, request: Request) -> bool:
        return request.group_policy == SOFT_AFFINITY

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return snapshot.group_members


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """The fewer members of the group on the host the better."""

    def applies(self, request: Request) -> bool:
        return request.group_policy == SOFT_ANTI_AFFINITY

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        return -snapshot.group_members
