"""Hosts with PCI devices to give away."""
from __future__ import annotations

import numpy as np

from nova_lite.objects.hardware import pci
from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class PciPassthroughFilter(Filter):
    """The host has as many free devices as the flavor asks for by ``pci_passthrough:alias``. The claim decides."""

    per_instance = True

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        asked = request.spec.flavor.pci_requests
        if not asked:
            return snapshot.everything()
        free = {pool: counts.copy() for pool, counts in snapshot.pci_free.items()}
        fits = snapshot.everything()
        for each in asked:
            missing = (snapshot.placed + 1) * int(each["count"])    # those of this request that are there take theirs, too
            for pool, left in free.items():
                if pci.is_meant(pool, each):
                    taken = np.minimum(left, missing)
                    left -= taken
                    missing -= taken
            fits &= missing == 0
        return fits
