"""What a weigher is."""
from __future__ import annotations

import numpy as np
from oslo_config import cfg

from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class Weigher:
    """Gives each host a number, the larger the better. The numbers of the hosts that passed the filters are scaled to 0..1
    and multiplied by the weigher's entry in [scheduler] weight_multipliers; the sum over the weighers ranks the hosts."""

    lowest: float | None = None
    """What scales to 0; None: the smallest number among the hosts."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def applies(self, request: Request) -> bool:
        """False saves the work where the weigher has nothing to say about a request."""
        return True

    def weigh(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        """One number per node."""
        raise NotImplementedError
