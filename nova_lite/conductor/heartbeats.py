"""The reports of compute hosts: liveness, inventory, leases. Written in bulk, and only where something has changed."""
from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from nova_lite.db import actions, clock, hosts, models, services
from nova_lite.db.core import Database

SERVICES = models.services
FLUSH_SECONDS = 1.0


class Heartbeats:
    """Takes reports. One statement writes ``last_seen_at`` of all hosts that reported within a second."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self.conf, self.db = conf, db
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._seen: set[str] = set()

    def take(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Store one report; returns the ids of the actions that wait for the host. Raises the error of an inventory that the
        database refuses; the leases are renewed nevertheless."""
        host, is_seen = report["host"], report.get("seen", True)
        if is_seen and host not in self._known:
            self.db.write(services.heard_from, host, services.COMPUTE)
            self._known.add(host)
        # before the inventory: a wrong inventory must not cost the host its leases
        waiting = self.db.write(self._renew, host, report["owner"], report["actions"])
        if is_seen:
            with self._lock:
                self._seen.add(host)
        if report.get("inventory") is not None:
            self.db.write(hosts.upsert_node, host, report["inventory"], report["ratios"], report["reserved"])
        return {"actions": waiting}

    def _renew(self, conn: sa.Connection, host: str, owner: str, in_flight: Collection[int]) -> list[int]:
        actions.renew(conn, owner, in_flight, self.conf.conductor.lease_seconds)
        hosts.set_io_ops(conn, host, len(in_flight))
        return actions.pending_ids_of_host(conn, host)

    def flush(self) -> None:
        """Write ``last_seen_at`` of the hosts that have reported."""
        with self._lock:
            seen, self._seen = self._seen, set()
        if seen:
            try:
                self.db.write(_write_seen, seen)
            except Exception:
                with self._lock:
                    self._seen |= seen
                raise


def _write_seen(conn: sa.Connection, seen: Collection[str]) -> None:
    of_seen = sa.and_(SERVICES.c.binary == services.COMPUTE, SERVICES.c.host.in_(sorted(seen)))
    if conn.execute(sa.update(SERVICES).where(of_seen).values(last_seen_at=clock.after(conn))).rowcount == len(seen):
        return
    # a service that an operator deleted, and that lives all the same
    there = set(conn.execute(sa.select(SERVICES.c.host).where(of_seen)).scalars())
    for host in sorted(set(seen) - there):
        services.heard_from(conn, host, services.COMPUTE)
