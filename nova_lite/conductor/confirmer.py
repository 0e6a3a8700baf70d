"""Confirms resizes and cold migrations that the user has not confirmed or reverted within ``[compute] resize_confirm_window``.
"""
from __future__ import annotations

import datetime

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances, moves
from nova_lite.db.core import Database
from nova_lite.objects import migration as migration_objects
from nova_lite.objects import states
from nova_lite.objects.migration import Migration
from nova_lite.rpc.compute import ComputeAPI

LOG = log.getLogger(__name__)
INTERVAL = 10.0
VERB = "confirmResize"


class Confirmer:
    """Any number of conductors may run one: each server is locked, and then read again."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, compute: ComputeAPI) -> None:
        self.conf, self.db, self.compute = conf, db, compute

    def run(self) -> None:
        """Confirm the moves that are due."""
        window = self.conf.compute.resize_confirm_window
        if not window:
            return
        with self.db.read() as conn:
            waiting = moves.unconfirmed(conn, units.utcnow() - datetime.timedelta(seconds=window))
        for move in waiting:
            context = RequestContext(user_id=move.user_id, project_id=move.project_id, is_admin=True, overwrite=False)
            action_id = self.db.write(self._confirm, context, move)
            if action_id is not None:
                LOG.info("confirmed after %s s", window, extra={"instance_uuid": move.instance_uuid})
                self.compute.wake(context, move.source_compute or "", [action_id])

    def _confirm(self, conn: sa.Connection, context: RequestContext, move: Migration) -> int | None:
        try:
            server = instances.get(conn, move.instance_uuid, lock=True)
            operations.check(operations.VERBS[VERB], server, may_override_lock=True)
        except (exception.Conflict, exception.InstanceNotFound) as error:
            LOG.debug("not confirmed: %s", error, extra={"instance_uuid": move.instance_uuid})
            return None
        if moves.get(conn, move.id, lock=True).status != migration_objects.FINISHED:
            return None
        instances.update(conn, server.uuid, {"task_state": states.RESIZE_CONFIRMING})
        moves.update(conn, move.id, {"status": migration_objects.CONFIRMING})
        return actions.create(conn, context, VERB, [server.uuid], self.conf.conductor.lease_seconds,
                              host=move.source_compute, arguments={"migration_id": move.id})[0]
