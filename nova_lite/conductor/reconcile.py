"""The reconciler: releases claims that belong to no server, claims room for servers that have none, and corrects the sums of
hosts.
"""
from __future__ import annotations

import datetime
from collections.abc import Collection

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import units
from nova_lite.db import actions, claims, console_auth_tokens, instances, models, moves
from nova_lite.db.core import Database
from nova_lite.objects import migration as objects

LOG = log.getLogger(__name__)
INTERVAL, PURGE_INTERVAL = 60.0, 3600.0
AT_ONCE = 200
ALLOCATIONS, INSTANCES, NODES = models.allocations, models.instances, models.compute_nodes


class Reconciler:
    """Finds nothing in a healthy cloud. It logs all that it corrects."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self.conf, self.db = conf, db

    def run(self) -> None:
        """Compare all claims and nodes once."""
        for uuid, node_id in self.db.write(self._orphaned_claims):
            LOG.warning("released a claim on node %s that belonged to no server there", node_id, extra={"instance_uuid": uuid})
        with self.db.read() as conn:
            unclaimed = self._without_claim(conn)
        for uuid, host in self.db.write(self._claim_again, unclaimed) if unclaimed else ():
            LOG.warning("the server held no room on its host %s: claimed again", host, extra={"instance_uuid": uuid})
        with self.db.read() as conn:
            wrong = claims.wrong_nodes(conn)
        for node_id in wrong:
            if self.db.write(claims.recompute, node_id):
                LOG.warning("corrected the sums of node %s", node_id)

    def _orphaned_claims(self, conn: sa.Connection) -> list[tuple[str, int]]:
        # newer claims may belong to a placement that is under way
        before = units.utcnow() - datetime.timedelta(seconds=2 * self.conf.conductor.lease_seconds)
        there = sa.and_(INSTANCES.c.uuid == ALLOCATIONS.c.instance_uuid, INSTANCES.c.deleted == 0)
        placed = sa.and_(INSTANCES.c.host == NODES.c.host, INSTANCES.c.node == NODES.c.hypervisor_hostname)
        joined = ALLOCATIONS.join(NODES, NODES.c.id == ALLOCATIONS.c.compute_node_id, isouter=True).join(
            INSTANCES, there, isouter=True)
        is_orphaned = sa.or_(INSTANCES.c.uuid.is_(None), NODES.c.id.is_(None), INSTANCES.c.host.is_(None), sa.not_(placed))
        query = sa.select(ALLOCATIONS.c.instance_uuid, ALLOCATIONS.c.compute_node_id).select_from(joined).where(
            ALLOCATIONS.c.created_at < before, is_orphaned)
        rows = conn.execute(query).all()
        busy = set(actions.open_of_instances(conn, [r.instance_uuid for r in rows])) | moves.holding(
            conn, [r.instance_uuid for r in rows])
        orphaned = [(r.instance_uuid, r.compute_node_id) for r in rows if r.instance_uuid not in busy]
        for uuid, node_id in orphaned:
            claims.release(conn, uuid, node_id, before)     # a claim that was made since the query stays
        return orphaned

    def _without_claim(self, conn: sa.Connection, uuids: Collection[str] | None = None) -> dict[str, int]:
        """Server -> its node, for idle servers that hold no room there: the scheduler would place others in their room. A build
        that failed holds no room by design."""
        placed = sa.and_(INSTANCES.c.host == NODES.c.host, INSTANCES.c.node == NODES.c.hypervisor_hostname)
        held = sa.and_(ALLOCATIONS.c.instance_uuid == INSTANCES.c.uuid, ALLOCATIONS.c.compute_node_id == NODES.c.id)
        query = sa.select(INSTANCES.c.uuid, NODES.c.id).select_from(
            INSTANCES.join(NODES, placed).join(ALLOCATIONS, held, isouter=True)).where(
            INSTANCES.c.deleted == 0, INSTANCES.c.task_state.is_(None), INSTANCES.c.launched_at.is_not(None),
            ALLOCATIONS.c.id.is_(None))
        if uuids is not None:
            query = query.where(INSTANCES.c.uuid.in_(sorted(uuids)))
        rows = conn.execute(query.order_by(INSTANCES.c.id).limit(AT_ONCE)).all()
        uuids = [row.uuid for row in rows]
        busy = set(actions.open_of_instances(conn, uuids))
        # a move that was not finished holds the room of the server
        busy |= {m.instance_uuid for m in moves.open_of(conn, uuids) if m.status != objects.FINISHED}
        return {row.uuid: row.id for row in rows if row.uuid not in busy}

    def _claim_again(self, conn: sa.Connection, unclaimed: Collection[str]) -> list[tuple[str, str]]:
        found = instances.get_many(conn, unclaimed, lock=True, tags=False)
        claimed = []
        for uuid, node_id in self._without_claim(conn, list(found)).items():
            if claims.write_down(conn, claims.Claim.of(uuid, node_id, found[uuid].placed_flavor)):
                claimed.append((uuid, found[uuid].host or ""))
        return claimed

    def purge(self) -> None:
        """Delete the rows of servers that were deleted ``[database] purge_deleted_after`` seconds ago, and expired tokens."""
        self.db.write(console_auth_tokens.purge)
        age = self.conf.database.purge_deleted_after
        if not age:
            return
        while self.db.write(instances.purge, units.utcnow() - datetime.timedelta(seconds=age)):
            LOG.info("purged servers that were deleted more than %s s ago", age)
