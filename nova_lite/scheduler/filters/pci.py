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
        mask = snapshot.nothing()
        for row in np.flatnonzero(np.isin(snapshot.ids, list(request.pci_devices))):       # few hosts have any
            before = int(snapshot.placed[row]) if snapshot.placed.size else 0       # of this request
            mask[row] = pci.choose(request.pci_devices[int(snapshot.ids[row])], asked * (before + 1)) is not None
        return mask
