"""Ends what has a time limit: shelved servers leave their host, soft-deleted servers are deleted."""
from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.conductor import completion
from nova_lite.context import RequestContext
from nova_lite.db import actions, clock, instances, models, services
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.instance import SHELVED_AT, Instance
from nova_lite.rpc.compute import ComputeAPI

LOG = log.getLogger(__name__)
T, SERVICES = models.instances, models.services
INTERVAL = 60.0
BATCH = 200


class Expiry:
    """Any number of conductors may run it: of two that find the same server, one begins the action."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, compute: ComputeAPI) -> None:
        self._conf, self._db, self._compute = conf, db, compute
        waits = [s for s in (conf.compute.shelved_offload_time, conf.compute.reclaim_instance_interval) if s > 0]
        self.interval = max(1.0, min([INTERVAL, *(seconds / 2 for seconds in waits)]))

    def run(self) -> None:
        """Begin the actions that are due."""
        compute = self._conf.compute
        with self._db.read() as conn:
            now = clock.read(conn)      # a conductor with a wrong clock would delete servers that can still be restored
        if compute.reclaim_instance_interval > 0:
            before = now - datetime.timedelta(seconds=compute.reclaim_instance_interval)
            self._begin_all("delete", states.SOFT_DELETED,
                            lambda server: server.deleted_at is not None and server.deleted_at <= before)
        if compute.shelved_offload_time > 0:
            limit = (now - datetime.timedelta(seconds=compute.shelved_offload_time)).isoformat()
            self._begin_all("shelveOffload", states.SHELVED,
                            lambda server: str(server.system_metadata.get(SHELVED_AT) or "") < limit,
                            services.is_down(compute.service_down_time, now))

    def _begin_all(self, verb: str, vm_state: str, is_due: Callable[[Instance], bool],
                   without: sa.ColumnElement[bool] | None = None) -> None:
        """``without``: servers whose service is so are left out. A host that is down cannot offload a server."""
        query = sa.select(T.c.uuid).where(T.c.deleted == 0, T.c.vm_state == vm_state, T.c.task_state.is_(None),
                                          T.c.host.is_not(None))
        if without is not None:
            query = query.where(~sa.exists().where(SERVICES.c.host == T.c.host, SERVICES.c.binary == services.COMPUTE, without))
        with self._db.read() as conn:
            found = conn.execute(query.order_by(T.c.updated_at).limit(BATCH)).scalars().all()
            servers: Mapping[str, Instance] = instances.get_many(conn, found, tags=False)
        for server in servers.values():
            if is_due(server):
                self._begin(verb, vm_state, server, is_due)

    def _begin(self, verb: str, vm_state: str, server: Instance, is_due: Callable[[Instance], bool]) -> None:
        context = RequestContext(user_id=server.user_id, project_id=server.project_id, is_admin=True, overwrite=False)
        try:
            action_id, host = self._db.write(self._write, context, verb, vm_state, server.uuid, is_due)
        except (exception.UnexpectedTaskState, exception.InstanceNotFound, exception.InstanceIsBusy):
            return      # another operation has the server, or attaches a volume to it
        if action_id is not None:
            LOG.info("'%s' is due", verb, extra={"instance_uuid": server.uuid})
            self._compute.wake(context, host, [action_id])

    def _write(self, conn: sa.Connection, context: RequestContext, verb: str, vm_state: str, uuid: str,
               is_due: Callable[[Instance], bool]) -> tuple[int | None, str]:
        """Action and host. No action for a server that was restored or unshelved since it was read: its time begins again."""
        server = instances.get(conn, uuid, lock=True)
        if server.host is None or not is_due(server):
            return None, ""
        instances.update(conn, uuid, {"task_state": operations.VERBS[verb].task_state}, [None], [vm_state])
        actions.check_not_busy(conn, verb, uuid)
        return actions.create(conn, context, verb, [uuid], self._conf.conductor.lease_seconds, objects.COMPUTE, server.host,
                              {completion.RECLAIM: True} if operations.VERBS[verb].is_delete else None)[0], server.host
