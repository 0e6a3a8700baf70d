"""Hosts of the zone that was asked for."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class AvailabilityZoneFilter(Filter):
    """A host's zone is the availability_zone of its aggregates' metadata, else [compute] default_availability_zone."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        wanted = request.spec.availability_zone
        if not wanted:
            return snapshot.everything()
        if wanted not in snapshot.zones:
            return snapshot.nothing()
        return snapshot.zone == snapshot.zones.index(wanted)
