"""Hosts that have what the guest's hardware needs: a TPM, UEFI, secure boot; NUMA nodes, CPUs and huge pages of its own."""
from __future__ import annotations

import functools
import json

import numpy as np

from nova_lite.objects import hardware
from nova_lite.objects.hardware import numa, placement
from nova_lite.objects.hardware.placement import HostCell
from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class HostTraitsFilter(Filter):
    """The host has reported the traits that follow from flavor and image (not those that a flavor names itself)."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        wanted = hardware.traits(request.spec.flavor, request.spec.image)
        if not wanted or not snapshot.size:
            return snapshot.everything()
        fits = np.array([wanted <= have for have in snapshot.traits], dtype=bool)
        return fits[snapshot.trait]


class NUMATopologyFilter(Filter):
    """The NUMA nodes of the guest fit on NUMA nodes of the host, by the host's last report. The host may have less room by now:
    then it refuses, and the build goes to the next host."""

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        demand = hardware.demand(request.spec.flavor, request.spec.image)
        if demand is None or not snapshot.size:
            return snapshot.everything()
        fits = np.array([_fits(demand, text) for text in snapshot.numas], dtype=bool)
        return fits[snapshot.numa]


@functools.lru_cache(maxsize=20_000)
def _fits(demand: numa.Demand, text: str) -> bool:
    """Cached: many hosts are alike, and most have not changed since the last request."""
    return placement.place(demand, [HostCell.from_primitive(cell) for cell in json.loads(text) or ()]) is not None
