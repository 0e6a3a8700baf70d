"""Resources that other services still hold for servers that are deleted.

A service that did not answer in time may have done, or may still do, what it was asked: nobody has recorded the port or
attachment that it made. So the conductor checks each server that was deleted, or whose build failed, some time later, and
releases what it finds. In a healthy cloud it finds nothing, and costs one call to the Network service for a hundred servers,
and a few calls to the Volume service for each server with volumes.
"""
from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, units
from nova_lite.conductor.cleanup import Cleanup
from nova_lite.context import admin_context
from nova_lite.db import actions, instances, models
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.network import base as network_base
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
LOOKS = (5, 15, 60)     # times of the checks after the end of a server, in units of [service_user] timeout
LIMIT = 1000            # servers in one run; the next run takes the others
AT_ONCE = 100           # servers in one question


@dataclass(frozen=True)
class _Ended:
    """A server that needs no resources any more, and the number of the check that is due."""

    uuid: str
    looks: int


class LeakedResources:
    """Run by one conductor. The checks that were done are kept in its memory: its successor repeats one for each server."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, cleanup: Cleanup) -> None:
        self._conf, self._db, self._cleanup = conf, db, cleanup
        self.interval = float(conf.service_user.timeout)
        self._looked: dict[str, int] = {}
        self._network: network_base.NetworkAPI | None = None

    def run(self) -> None:
        """Check the servers that are due. A service that is down is tried again in the next run."""
        with self._db.read() as conn:
            ended = self._due(conn)
            due = [e for e in ended if e.looks > self._looked.get(e.uuid, 0)][:LIMIT]
            found = instances.get_many(conn, [e.uuid for e in due], deleted=True, tags=False)
            busy = actions.open_of_instances(conn, list(found))
        self._looked = {e.uuid: self._looked[e.uuid] for e in ended if e.uuid in self._looked}
        servers = [found[e.uuid] for e in due if e.uuid in found and e.uuid not in busy]
        looks = {e.uuid: e.looks for e in due}
        for start in range(0, len(servers), AT_ONCE):
            group = servers[start:start + AT_ONCE]
            try:
                self._give_back(group)
            except exception.ServiceUnavailable as error:
                LOG.warning("leaked resources of %d servers are searched for later: %s", len(servers) - start, error)
                return
            self._looked |= {server.uuid: looks[server.uuid] for server in group}

    def _due(self, conn: sa.Connection) -> list[_Ended]:
        """The servers in the window of each check. A window is as long as the time before the first check."""
        table, now = models.instances, units.utcnow()
        failed = sa.and_(table.c.deleted == 0, table.c.vm_state == states.ERROR, table.c.launched_at.is_(None),
                         table.c.task_state.is_(None))
        found: list[_Ended] = []
        for number, look in enumerate(LOOKS, 1):
            begin, end = (now - datetime.timedelta(seconds=n * self.interval) for n in (look + LOOKS[0], look))
            for end_of, chosen in ((table.c.deleted_at, table.c.deleted != 0), (table.c.updated_at, failed)):
                query = sa.select(table.c.uuid).where(chosen, end_of.between(begin, end)).order_by(end_of)
                found += [_Ended(uuid, number) for uuid in conn.execute(query).scalars()]
        return found

    def give_back_now(self, server: Instance) -> None:
        """Release the ports of a server that was deleted without a host, if it ever had one: its user may want to delete the
        network next. When the Network service does not answer, :meth:`run` does so later."""
        if server.launched_on is None or server.network_request == "none":
            return
        try:
            self._api().deallocate(admin_context(), server)
        except Exception as error:
            LOG.warning("its ports are released later: %s", error, extra={"instance_uuid": server.uuid})

    def _api(self) -> network_base.NetworkAPI:
        if self._network is None:
            self._network = network_base.load(self._conf, DatabasePortStore(self._db))
        return self._network

    def _give_back(self, servers: Sequence[Instance]) -> None:
        context = admin_context()
        named = self._api().servers_with_ports(context, [s.uuid for s in servers])
        for server in servers:
            if server.uuid in named:
                LOG.warning("the Network service still has ports of it: releasing them", extra={"instance_uuid": server.uuid})
                self._unless_refused("ports", lambda one: self._api().deallocate(context, one), server)
            if server.volumes:
                self._unless_refused("volumes", self._cleanup.look_again if server.deleted else self._cleanup.release, server)

    @staticmethod
    def _unless_refused(what: str, give_back: Callable[[Instance], None], server: Instance) -> None:
        try:
            give_back(server)
        except exception.ServiceUnavailable:
            raise
        except exception.NovaLiteError as error:    # the others of its group are still checked
            LOG.warning("not all %s of the server were released: %s", what, error, extra={"instance_uuid": server.uuid})
