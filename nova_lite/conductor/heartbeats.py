"""The reports of compute hosts: liveness, inventory, leases. Reports that come at about the same time are written together."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import retry
from nova_lite.conductor.gathering import Gatherer
from nova_lite.db import core, hosts
from nova_lite.db import heartbeats as statements
from nova_lite.db.core import Database
from nova_lite.db.heartbeats import Report

LOG = log.getLogger(__name__)
GATHER_SECONDS = 0.1


class Heartbeats:
    """Takes reports. One transaction writes those that come within GATHER_SECONDS, at most ``together()``."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, together: Callable[[], int],
                 clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf, self.db = conf, db
        self._gatherer: Gatherer[Report, list[int]] = Gatherer(self._write, GATHER_SECONDS, together, clock)

    def take(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Store one report; returns the ids of the actions that wait for the host. Raises the error of an inventory that the
        database refuses; the leases are renewed nevertheless."""
        # before the inventory: a wrong inventory must not cost the host its leases
        waiting = self._gatherer.ask(Report.of(report))
        if report.get("inventory") is not None:
            self.db.write(hosts.upsert_node, report["host"], report["inventory"], report["ratios"], report["reserved"])
        return {"actions": waiting}

    def _write(self, reports: list[Report]) -> Sequence[list[int] | Exception]:
        try:
            return self._write_some(reports)
        except Exception as error:
            if len(reports) == 1 or core.is_unavailable(error):
                raise
            LOG.warning("%s reports are written one by one: %s", len(reports), error)
        return [self._write_one(report) for report in reports]

    def _write_one(self, report: Report) -> list[int] | Exception:
        try:
            return self._write_some([report])[0]
        except Exception as error:
            if core.is_unavailable(error):
                raise
            LOG.warning("the report of host %s is refused: %s", report.host, error)
            return error

    def _write_some(self, reports: list[Report]) -> list[list[int]]:
        return self.db.write(statements.take, reports, self.conf.conductor.lease_seconds)
