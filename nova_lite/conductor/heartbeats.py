"""The reports of compute hosts: liveness, inventory, leases. Reports that come at about the same time are written together."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg

from nova_lite import retry
from nova_lite.conductor.gathering import Gatherer, one_by_one_after_error
from nova_lite.db import core, hosts
from nova_lite.db import heartbeats as statements
from nova_lite.db.core import Database
from nova_lite.db.heartbeats import Report

GATHER_SECONDS = 0.2


class Heartbeats:
    """Takes reports. One transaction writes those that come within GATHER_SECONDS, at most ``together()``."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, together: Callable[[], int],
                 clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf, self.db = conf, db
        self._gatherer: Gatherer[Report, list[int]] = Gatherer(
            one_by_one_after_error(self._write, core.is_unavailable), GATHER_SECONDS, together, clock)

    def take(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Store one report; returns the ids of the actions that wait for the host. Raises the error of an inventory that the
        database refuses; the leases are renewed nevertheless."""
        # before the inventory: a wrong inventory must not cost the host its leases
        waiting = self._gatherer.ask(Report.of(report))
        if report.get("inventory") is not None:
            self.db.write(hosts.upsert_node, report["host"], report["inventory"], report["ratios"], report["reserved"])
        return {"actions": waiting}

    def _write(self, reports: list[Report]) -> list[list[int]]:
        return self.db.write(statements.take, reports, self.conf.conductor.lease_seconds)
