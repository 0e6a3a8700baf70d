"""What a filter is."""
from __future__ import annotations

import numpy as np
from oslo_config import cfg

from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot


class Filter:
    """Checks all hosts at once. Made once per process with the configuration; does no I/O and keeps no state."""

    per_instance = False
    """True when the answer changes with each instance of a batch that has found its place."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        """One bool per node: may an instance of this request go there?"""
        raise NotImplementedError
