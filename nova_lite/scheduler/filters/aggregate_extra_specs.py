"""Hosts of aggregates whose metadata fit the flavor's extra specs."""
from __future__ import annotations

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.filters.operators import match
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(Filter):
    """Each ``aggregate_instance_extra_specs:KEY`` must match the metadata KEY of an aggregate of the host.

    A key without a scope counts too, as in Nova, but only when some aggregate has it in its metadata: otherwise another
    component reads it. Keys of other scopes (``hw:``, ``quota:`` ...) are ignored.
    """

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        mask = snapshot.everything()
        for full_key, wanted in request.spec.flavor.extra_specs.items():
            scope, colon, key = full_key.partition(":")
            if colon and scope != SCOPE:
                continue
            if not colon:
                key = full_key
                if not any(key in a.values for a in snapshot.aggregates):
                    continue
            met = snapshot.nothing()
            for aggregate in snapshot.aggregates:
                if any(match(value, wanted) for value in aggregate.values.get(key, ())):
                    met |= aggregate.mask
            mask &= met
        return mask
