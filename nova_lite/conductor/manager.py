"""The conductor: owns the actions in flight and reads and writes the database for the compute hosts."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.compute import states
from nova_lite.compute.rpcapi import ComputeAPI
from nova_lite.conductor import endings, heartbeats, power_states
from nova_lite.conductor.leases import Leases
from nova_lite.conductor.reconcile import INTERVAL as RECONCILE_INTERVAL
from nova_lite.conductor.reconcile import Reconciler
from nova_lite.conductor.sweeper import Sweeper
from nova_lite.conductor.tasks.build import BuildTask
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, instances, networks
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.scheduler.rpcapi import SchedulerAPI

LOG = log.getLogger(__name__)
BINARY = "nova-conductor"
expected = messaging.expected_exceptions(exception.NovaLiteError)
BUILD_STATES = (states.SCHEDULING, states.NETWORKING, states.BLOCK_DEVICE_MAPPING, states.SPAWNING)


class ConductorManager:
    """The server side of ``conductor/rpcapi.py``. Any number of processes may run one."""

    def __init__(self, conf: cfg.ConfigOpts, transport: messaging.RPCTransport) -> None:
        self.conf, self.db = conf, Database(conf)
        self.lease_seconds = conf.conductor.lease_seconds
        self.leases = Leases(conf, self.db)
        self.compute = ComputeAPI(transport)
        self.builds = BuildTask(conf, self.db, self.leases, SchedulerAPI(transport), self.compute)
        self.heartbeats = heartbeats.Heartbeats(conf, self.db)
        self.sweeper = Sweeper(conf, self.db)
        self.reconciler = Reconciler(conf, self.db)
        self.ports = networks.DatabasePortStore(self.db)
        self.endpoints: list[object] = [self]

    # the life of the process ----------------------------------------------------------------------------------------
    def start(self) -> None:
        """Say that this conductor lives."""
        self._register()

    def stop(self) -> None:
        """Let go of the database; leases that are left run out and are taken over."""
        self.heartbeats.flush()
        self.db.dispose()

    def periodics(self) -> list[tuple[float, Callable[[], None]]]:
        """(seconds, function) of what has to be run again and again."""
        return [(self.lease_seconds / 3, self.leases.renew), (self.conf.conductor.sweep_interval, self._sweep),
                (heartbeats.FLUSH_SECONDS, self.heartbeats.flush), (self.conf.compute.report_interval, self._register),
                (RECONCILE_INTERVAL, self.reconciler.run), (3600, self.reconciler.purge)]

    def _register(self) -> None:
        self.db.write(heartbeats.register, self.conf.host, BINARY)

    def _sweep(self) -> None:
        found = self.sweeper.sweep()
        context = admin_context()
        for action in found.compute:
            self.compute.wake(context, action.host or "", endings.operation(action).method, action.id)
        if found.run:
            self.run_action(context, found.run)
        if found.schedule:
            self.builds.schedule(context, found.schedule)
        self.sweeper.settle_orphans()

    # casts of the API -----------------------------------------------------------------------------------------------
    def schedule_and_build_instances(self, context: RequestContext, action_ids: list[int]) -> None:
        """Find hosts for new servers."""
        self.builds.schedule(context, action_ids)

    def run_action(self, context: RequestContext, action_ids: list[int]) -> None:
        """Deletes of servers that have no host."""
        self.db.write(self._run, action_ids)

    def _run(self, conn: sa.Connection, action_ids: Sequence[int]) -> None:
        for action in actions.claim(conn, action_ids, self.leases.owner, self.lease_seconds, objects.CONDUCTOR):
            if endings.is_delete(action):
                endings.succeed(conn, action, {})
                LOG.info("deleted without a host", extra={"instance_uuid": action.instance_uuid})

    # compute hosts --------------------------------------------------------------------------------------------------
    def heartbeat(self, context: RequestContext, report: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`ConductorAPI.heartbeat`."""
        return self.heartbeats.take(report)

    def host_started(self, context: RequestContext, host: str, owner: str, guests: list[str]) -> dict[str, Any]:
        """See :meth:`ConductorAPI.host_started`."""
        return self.db.write(self._host_started, host, owner, guests)

    def _host_started(self, conn: sa.Connection, host: str, owner: str, guests: list[str]) -> dict[str, Any]:
        mine = actions.open_of_host(conn, host, lock=True)
        orphaned = [a.id for a in mine if a.state == objects.RUNNING and a.owner != owner]
        actions.release(conn, orphaned, self.lease_seconds, died=True)
        here = instances.on_host(conn, host)
        known = instances.get_many(conn, guests, deleted=True)
        # a guest whose server is deleted or lives on another host; what the database does not know is not ours to touch
        remove = [i.to_primitive() for i in known.values() if i.deleted or i.host != host]
        return {"actions": [a.id for a in mine], "instances": [i.to_primitive() for i in here], "remove": remove}

    @expected
    def claim_action(self, context: RequestContext, action_id: int, host: str, owner: str) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.claim_action`."""
        return self.db.write(self._claim_action, action_id, host, owner)

    def _claim_action(self, conn: sa.Connection, action_id: int, host: str, owner: str) -> dict[str, Any] | None:
        taken = actions.claim(conn, [action_id], owner, self.lease_seconds, objects.COMPUTE, host)
        # the caller's own already: it asks again after a lost answer, or to see the server anew
        action = taken[0] if taken else actions.held(conn, [action_id], owner).get(action_id)
        if action is None:
            return None
        found = instances.get_many(conn, [action.instance_uuid], lock=True, tags=False).get(action.instance_uuid)
        if found is None:
            actions.finish(conn, [action.id], arguments=actions.without_secrets(action.arguments))
            return None
        operation = endings.operation(action)
        if operation.verb == "build":
            if found.task_state not in BUILD_STATES or found.host != host:
                endings.cancel(conn, action)
                return None
            found.task_state = states.NETWORKING
            instances.update(conn, found.uuid, {"task_state": states.NETWORKING})
        elif not endings.is_delete(action) and found.task_state != operation.task_state:
            LOG.info("'%s' is dropped: task_state is %s", operation.verb, found.task_state, extra={"instance_uuid": found.uuid})
            actions.finish(conn, [action.id], failed=True)
            return None
        return {"action": action.to_primitive(), "instance": found.to_primitive()}

    @expected
    def instance_update(self, context: RequestContext, instance_uuid: str, updates: dict[str, Any],
                        expected_task_states: list[str | None], action_id: int, owner: str) -> None:
        """See :meth:`ConductorAPI.instance_update`."""
        def write(conn: sa.Connection) -> None:
            actions.check_held(conn, action_id, owner)
            instances.update(conn, instance_uuid, updates, expected_task_states)
        self.db.write(write)

    @expected
    def finish_action(self, context: RequestContext, action_id: int, owner: str, updates: dict[str, Any],
                      events: list[dict[str, Any]], error: str | None) -> None:
        """See :meth:`ConductorAPI.finish_action`."""
        def write(conn: sa.Connection) -> None:
            action = actions.held(conn, [action_id], owner).get(action_id)
            if action is None:
                if _ended_by(conn, action_id, owner):
                    return      # told twice: the answer to the first time was lost
                raise exception.LeaseLost(action_id=action_id, owner=owner)
            if error is None:
                endings.succeed(conn, action, updates)
            else:
                endings.fail(conn, action, error, updates=updates)
            actions.add_events(conn, [(action_id, e) for e in events])
        self.db.write(write)

    @expected
    def build_failed(self, context: RequestContext, action_id: int, owner: str, reason: str, details: str,
                     events: list[dict[str, Any]], reschedule: bool) -> None:
        """See :meth:`ConductorAPI.build_failed`."""
        def write(conn: sa.Connection) -> str | None:
            action = actions.get(conn, action_id)
            if action is None or action.owner != owner or action.state != objects.RUNNING:
                return None      # told twice, or another worker's by now
            action = actions.check_held(conn, action_id, owner)
            actions.add_events(conn, [(action_id, e) for e in events])
            return self.builds.failed_on_host(conn, action, reason, details, reschedule)
        host = self.db.write(write)
        if host is not None:
            self.compute.build_and_run_instance(context, host, action_id)

    def power_state_changed(self, context: RequestContext, instance_uuid: str, host: str, power_state: int) -> None:
        """See :meth:`ConductorAPI.power_state_changed`."""
        self.db.write(power_states.sync, host, {instance_uuid: power_state})

    def sync_power_states(self, context: RequestContext, host: str, states: dict[str, int]) -> None:
        """See :meth:`ConductorAPI.sync_power_states`."""
        self.db.write(power_states.sync, host, states)

    @expected
    def get_instance(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        """See :meth:`ConductorAPI.get_instance`."""
        with self.db.read() as conn:
            return instances.get(conn, instance_uuid).to_primitive()

    # the embedded network and the metadata service ------------------------------------------------------------------
    @expected
    def list_networks(self, context: RequestContext, project_id: str | None) -> list[dict[str, Any]]:
        """See ``network.base.PortStore``, as the next three."""
        return _plain(self.ports.list_networks(project_id))

    @expected
    def allocate_ports(self, context: RequestContext, instance_uuid: str, project_id: str, host: str,
                       requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ports for a server."""
        return _plain(self.ports.allocate_ports(instance_uuid, project_id, host, requests))

    @expected
    def release_ports(self, context: RequestContext, instance_uuid: str) -> None:
        """Give them back."""
        self.ports.release_ports(instance_uuid)

    @expected
    def list_host_ports(self, context: RequestContext, host: str) -> list[dict[str, Any]]:
        """All ports of a host."""
        return _plain(self.ports.list_host_ports(host))

    def instance_by_address(self, context: RequestContext, address: str, network_id: str | None) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.instance_by_address`."""
        with self.db.read() as conn:
            ports = [p for p in networks.list_ports(conn, address=address, network_uuid=network_id) if p["instance_uuid"]]
            # one address on two networks names nobody: better no answer than another tenant's
            if len(ports) != 1:
                return None
            found = instances.get_many(conn, [ports[0]["instance_uuid"]])
        return next((i.to_primitive() for i in found.values()), None)

    def instance_metadata(self, context: RequestContext, instance_uuid: str) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.instance_metadata`."""
        with self.db.read() as conn:
            found = instances.get_many(conn, [instance_uuid])
        return next((i.to_primitive() for i in found.values()), None)


def _ended_by(conn: sa.Connection, action_id: int, owner: str) -> bool:
    action = actions.get(conn, action_id)
    return action is not None and action.owner == owner and action.state in (objects.DONE, objects.ERROR)


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without times, which no reader of ports needs and which are no JSON."""
    return [{k: _plain([v])[0] if isinstance(v, dict) else v for k, v in row.items() if k not in ("created_at", "updated_at")}
            for row in rows]
