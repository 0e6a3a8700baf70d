"""Hosts that are kept for certain images."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class IsolatedHostsFilter(Filter):
    """[scheduler] isolated_images run on isolated_hosts only, and isolated_hosts run nothing else."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        hosts, images = self.conf.scheduler.isolated_hosts, self.conf.scheduler.isolated_images
        if not hosts and not images:
            return snapshot.everything()
        isolated = snapshot.on_hosts(hosts)
        return isolated if request.spec.image and request.spec.image.id in images else ~isolated
