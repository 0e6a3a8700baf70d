"""The conductor: owns the open actions, and reads and writes the database for the compute hosts."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, notifications, operations, retry
from nova_lite.conductor import completion, heartbeats, host_access, host_writes, limits, move_completion, power_states
from nova_lite.conductor.between_hosts import BetweenHosts
from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.cleanup import Cleanup
from nova_lite.conductor.confirmer import INTERVAL as CONFIRM_INTERVAL
from nova_lite.conductor.confirmer import Confirmer
from nova_lite.conductor.deferred_cleanup import INTERVAL as DEFERRED_INTERVAL
from nova_lite.conductor.deferred_cleanup import DeferredCleanup
from nova_lite.conductor.expiry import Expiry
from nova_lite.conductor.gathering import Gatherer, one_by_one_after_error
from nova_lite.conductor.leaked_resources import LeakedResources
from nova_lite.conductor.leases import Leases
from nova_lite.conductor.periodic import PeriodicTasks, Task
from nova_lite.conductor.reconcile import INTERVAL as RECONCILE_INTERVAL
from nova_lite.conductor.reconcile import PURGE_INTERVAL, Reconciler
from nova_lite.conductor.rpc_permissions import RULES
from nova_lite.conductor.security_group_notifier import SecurityGroupNotifier
from nova_lite.conductor.steps import Steps
from nova_lite.conductor.sweeper import Sweeper
from nova_lite.conductor.tasks.base import Tools
from nova_lite.conductor.tasks.build import BuildTask
from nova_lite.conductor.tasks.runner import Tasks
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import (
    actions,
    clock,
    cloud,
    console_auth_tokens,
    core,
    host_keys,
    instances,
    networks,
    server_passwords,
    server_states,
    services,
)
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.operations import WithoutHost
from nova_lite.rpc import cloud_id, expected, sender
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.scheduler import SchedulerAPI
from nova_lite.runtime.rpc_callers import WINDOW, Callers
from nova_lite.runtime.rpc_senders import Senders
from nova_lite.volume import base as volume_base

LOG = log.getLogger(__name__)
LOOKS_SECONDS = 0.5     # for which looks of hosts are gathered: each host looks once a minute
# verbs that release one volume at a conductor. An attach is done here only when its request died: no guest has that volume
_WITH_ONE_VOLUME = (WithoutHost.DETACH, WithoutHost.UNDO)


class _Todo(NamedTuple):
    """Builds to place, tasks to run, actions whose ports and volumes have to be released first, and deleted servers."""

    builds: list[int]
    tasks: list[tuple[Action, Instance]]
    neighbours: list[tuple[Action, Instance]]
    gone: list[Instance]


class ConductorManager:
    """The server side of ``rpc/conductor.py``. Any number of processes may run one."""

    def __init__(self, conf: cfg.ConfigOpts, transport: messaging.RPCTransport, clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf, self.db = conf, Database(conf)
        notifications.attach(conf, self.db, "conductor")
        self.lease_seconds = conf.conductor.lease_seconds
        self.leases = Leases(conf, self.db)
        self.compute = ComputeAPI(transport, sender.to_hosts(conf, host_keys.Generations(self.db)))
        self.conductor = ConductorAPI(transport, sender.of_control(conf))
        scheduler = SchedulerAPI(transport, sender.of_control(conf))
        self.group_notifier = SecurityGroupNotifier(self.db, self.compute)
        self.ports = DatabasePortStore(self.db)
        volume = volume_base.load(conf)
        self.cleanup = Cleanup(conf, volume, clock)
        self.deferred_cleanup = DeferredCleanup(conf, self.db, volume, clock)
        self.bus_health = BusHealth(conf, self.db, self.conductor.ping)
        self.builds = BuildTask(conf, self.db, self.leases, scheduler, self.compute, self.cleanup,
                                self.bus_health)
        # two batches take all threads: one is written while the next is gathered
        self.heartbeats = heartbeats.Heartbeats(conf, self.db, lambda: max(1, conf.executor_thread_pool_size // 2), clock)
        self.looks: Gatherer[power_states.Look, dict[str, Any]] = Gatherer(
            one_by_one_after_error(self._compare, core.is_unavailable), LOOKS_SECONDS,
            lambda: max(1, conf.executor_thread_pool_size // 4), clock)
        self.sweeper = Sweeper(conf, self.db, self.bus_health)
        self.tasks = Tasks(Tools(conf, self.db, self.leases, scheduler, self.compute, self.conductor,
                                 self.bus_health))
        self.reconciler = Reconciler(conf, self.db)
        self.confirmer = Confirmer(conf, self.db, self.compute)
        self.expiry = Expiry(conf, self.db, self.compute)
        self.leaked_resources = LeakedResources(conf, self.db, self.cleanup)
        self.limits = limits.LimitsMirror(conf, self.db)
        self.periodic_tasks = PeriodicTasks(self.db, self.leases.owner, self._cluster_tasks(), clock)
        self.callers = Callers(conf, RULES, Senders(conf, self.db), self._cloud)
        self.endpoints = self.callers.before([self, Steps(conf, self.db, self.builds, self.compute, self.conductor),
                                              BetweenHosts(conf, self.db, self.compute),
                                              cloud_id.Member(conf.host, self._cloud)])

    # the life of the process ----------------------------------------------------------------------------------------
    def start(self) -> None:
        """Register this conductor."""
        self.periodic_tasks.start()
        self._register()

    def stop(self) -> None:
        """Close the database connections. Leases that are left run out, and other conductors claim the actions."""
        self.tasks.stop()
        self.cleanup.stop()
        self.periodic_tasks.stop()
        self.db.dispose()

    def periodics(self) -> list[tuple[float, Callable[[], None]]]:
        """(seconds, function) of the periodic work: what each conductor does for itself, and the tasks of the cluster."""
        return [(self.lease_seconds / 3, self.leases.renew), (self.conf.compute.report_interval, self._show_life),
                (clock.INTERVAL, lambda: clock.watch(self.db)), (WINDOW, self.callers.forget), *self.periodic_tasks.loops()]

    def _cluster_tasks(self) -> list[Task]:
        """What one conductor does for all. Beside each task: why a second run at the same time does no harm."""
        return [
            # the actions are read under a lock, without those that are locked. A conductor that hears no hosts gives nobody up
            Task("sweep", self.conf.conductor.sweep_interval, self._sweep, is_fit=self.bus_health.is_steady),
            # a claim is released if it is older than the search, and made under the lock of its server; sums are made under
            # the lock of their node
            Task("reconcile", RECONCILE_INTERVAL, self.reconciler.run),
            # rows that are gone are not deleted again
            Task("purge", PURGE_INTERVAL, self.reconciler.purge),
            # move and server are locked and read again
            Task("confirm", CONFIRM_INTERVAL, self.confirmer.run),
            # what is released twice is released. The checks that were done are known to their conductor only
            Task("leaked resources", self.leaked_resources.interval, self.leaked_resources.run, stays=True),
            # each action that is due is taken by one run
            Task("deferred cleanup", DEFERRED_INTERVAL, self.deferred_cleanup.run),
            # the server is locked and read again, and a second action is refused
            Task("expiry", self.expiry.interval, self.expiry.run),
            # the same limits are written; older ones, of a late owner, until the next run
            Task("limits", limits.INTERVAL, self.limits.run)]

    def _cloud(self) -> str | None:
        with self.db.read() as conn:
            return cloud.find_id(conn)

    def _register(self) -> None:
        self.db.write(services.heard_from, self.conf.host, services.CONDUCTOR)

    def _show_life(self) -> None:
        self._register()
        self.bus_health.check()

    def _sweep(self) -> None:
        self.sweeper.settle_orphans()       # before all that needs a broker
        found = self.sweeper.sweep()
        context = admin_context()
        self.run_action(context, found.run)
        for action in found.compute:
            self.compute.wake(context, action.host or "", [action.id])
        if found.schedule:      # by a cast: a scheduler that is slow to answer must not keep the sweeper waiting
            self.conductor.schedule_and_build_instances(context, found.schedule)

    # casts of the API -----------------------------------------------------------------------------------------------
    def schedule_and_build_instances(self, context: RequestContext, action_ids: list[int]) -> None:
        """Find hosts for new servers."""
        self.builds.schedule(context, action_ids)

    def run_action(self, context: RequestContext, action_ids: list[int]) -> None:
        """Do the actions that a conductor begins, such as moves, and those that need no host: deletes and detaches of servers
        without a host, and attaches that are undone. Builds are placed."""
        builds: list[int] = []
        for action_id in action_ids:        # in its own transaction: one that fails does not stop the others
            try:
                todo = self.db.write(self._run, [action_id])
                builds += todo.builds
                for action, instance in todo.tasks:
                    self.tasks.start(action, instance)
                for action, instance in todo.neighbours:
                    # renewed from now on: the action may wait long for a thread
                    self.leases.take([action.id])
                    self.cleanup.later(self._clean_up, action, instance)
                for instance in todo.gone:
                    self.cleanup.later(self.leaked_resources.give_back_now, instance)
            except Exception:
                LOG.exception("action %s was not done; the sweeper will try it again", action_id)
        if builds:
            self.builds.schedule(context, builds)

    def _run(self, conn: sa.Connection, action_ids: Sequence[int]) -> _Todo:
        """Claim actions, and do what the database alone allows. Returns the rest, which is done outside of the transaction."""
        todo = _Todo([], [], [], [])
        claimed = actions.claim(conn, action_ids, self.leases.owner, self.lease_seconds, objects.CONDUCTOR)
        servers = instances.get_many(conn, [a.instance_uuid for a in claimed], tags=False)
        for action in claimed:
            server, verb = servers.get(action.instance_uuid), operations.of(action)
            if verb.new_server:
                todo.builds.append(action.id)
            elif server is not None and verb.begins is operations.Begins.CONDUCTOR:
                todo.tasks.append((action, server))
            elif server is not None and (verb.without_host in _WITH_ONE_VOLUME or
                                         verb.is_delete and self.cleanup.is_needed(server)):
                todo.neighbours.append((action, server))
            elif verb.is_delete:
                completion.succeed(conn, action, {})
                LOG.info("deleted without a host", extra={"instance_uuid": action.instance_uuid})
                todo.gone.extend([server] if server is not None else [])
            else:
                completion.fail(conn, action, f"'{action.action}' needs a host, and the server has none")
        actions.release(conn, todo.builds, self.lease_seconds, died=False)
        return todo

    def _clean_up(self, action: Action, instance: Instance) -> None:
        device = next((d for d in instance.volumes if d.id == action.arguments.get("device_id")), None)
        error = ""
        try:
            if completion.is_delete(action):
                self.cleanup.delete(instance)
                self.leaked_resources.give_back_now(instance)
            elif device is not None:
                self.cleanup.detach(instance, device)
        except Exception as raised:
            LOG.exception("'%s' failed", action.action, extra={"instance_uuid": instance.uuid})
            error = exception.public_of(raised)
        try:
            self.db.write(self._end, action, device.id if device else None, error)
        except Exception:
            LOG.exception("the end of action %s was not written; the sweeper will try it again", action.id)
        finally:
            self.leases.drop([action.id])

    def _end(self, conn: sa.Connection, action: Action, device_id: str | None, error: str) -> None:
        if action.id not in actions.held(conn, [action.id], self.leases.owner):
            return
        if error:
            completion.fail(conn, action, error, updates={})
            return
        updates = {"block_device": {"id": device_id, "values": None}} if device_id is not None else {}
        if operations.of(action).without_host is WithoutHost.UNDO:
            completion.fail(conn, action, "its request ended in the middle", updates=updates)
            LOG.info("undid an attach whose request died", extra={"instance_uuid": action.instance_uuid})
            return
        completion.change_device(conn, action, updates)
        completion.succeed(conn, action, {})
        LOG.info("'%s' done without a host", action.action, extra={"instance_uuid": action.instance_uuid})

    # compute hosts --------------------------------------------------------------------------------------------------
    def ping(self, context: RequestContext) -> str:
        """See :meth:`ConductorAPI.wait_until_there`."""
        return self.conf.host

    def heartbeat(self, context: RequestContext, report: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`ConductorAPI.heartbeat`."""
        return self.heartbeats.take(report)

    def host_started(self, context: RequestContext, host: str, owner: str, guests: list[str]) -> dict[str, Any]:
        """See :meth:`ConductorAPI.host_started`."""
        return self.db.write(self._host_started, host, owner, guests)

    def _host_started(self, conn: sa.Connection, host: str, owner: str, guests: list[str]) -> dict[str, Any]:
        mine = actions.open_of_host(conn, host, lock=True)
        orphaned = [a for a in mine if (a.state == objects.RUNNING and a.owner != owner) or (
            a.attempts >= self.conf.conductor.max_attempts and completion.guest_may_run(conn, a))]     # it waited for us alone
        for action in orphaned:
            if action.attempts + 1 >= self.conf.conductor.max_attempts and operations.of(action).is_given_up:
                # an action that kills the daemon each time must end
                reason = f"'{action.action}' was given up: {action.attempts + 1} workers died over it"
                if not move_completion.give_back(conn, action, reason, self.lease_seconds):
                    completion.fail(conn, action, reason)
                mine.remove(action)
            else:
                actions.release(conn, [action.id], self.lease_seconds, died=True)
        [(here, of_guests)] = server_states.with_guests(conn, [(host, guests)])
        # guests that the database does not know are left alone
        unexpected = power_states.unexpected_guests(conn, of_guests, host)
        return {"cloud": cloud.find_id(conn), "actions": [a.id for a in mine],
                "instances": [power_states.for_host(state) for state in here.values()],
                "remove": power_states.removals(conn, unexpected.remove)}

    @expected
    def power_state_changed(self, context: RequestContext, instance_uuid: str, host: str, power_state: int) -> None:
        """See :meth:`ConductorAPI.power_state_changed`."""
        host_writes.check_readable(host, {"power_state": power_state})
        self.db.write(power_states.sync, host, {instance_uuid: power_state})

    def sync_power_states(self, context: RequestContext, host: str, states: dict[str, int]) -> dict[str, Any]:
        """See :meth:`ConductorAPI.sync_power_states`."""
        return self.looks.ask(power_states.Look(host, states))

    def _compare(self, looks: list[power_states.Look]) -> list[dict[str, Any]]:
        with self.db.read() as conn:
            return power_states.compare(conn, looks)

    def not_wanted(self, context: RequestContext, host: str, instance_uuids: list[str]) -> list[str]:
        """See :meth:`ConductorAPI.not_wanted`."""
        with self.db.read() as conn:
            return list(power_states.unexpected_guests(conn, server_states.of(conn, instance_uuids), host).remove)

    def settled_here(self, context: RequestContext, host: str, instance_uuids: list[str]) -> list[str]:
        """See :meth:`ConductorAPI.settled_here`."""
        with self.db.read() as conn:
            return sorted(power_states.settled(conn, host, instance_uuids))

    def must_be_off(self, context: RequestContext, host: str, instance_uuids: list[str]) -> list[str]:
        """See :meth:`ConductorAPI.must_be_off`."""
        with self.db.read() as conn:
            return sorted(power_states.must_be_off(conn, host, instance_uuids))

    @expected
    def network_info_changed(self, context: RequestContext, instance_uuid: str, host: str,
                             network_info: list[dict[str, Any]]) -> None:
        """See :meth:`ConductorAPI.network_info_changed`."""
        host_writes.check_readable(host, {"network_info": network_info})
        self.db.write(self._network_info_changed, instance_uuid, host, network_info)

    @staticmethod
    def _network_info_changed(conn: sa.Connection, instance_uuid: str, host: str, network_info: list[dict[str, Any]]) -> None:
        found = instances.get_many(conn, [instance_uuid], lock=True, tags=False).get(instance_uuid)
        if found is not None and found.host == host:
            instances.update(conn, instance_uuid, {"network_info": network_info})

    @expected
    def get_instance(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        """See :meth:`ConductorAPI.get_instance`."""
        with self.db.read() as conn:
            return host_access.readable(conn, context.caller, instances.get(conn, instance_uuid)).to_primitive()

    def share_is_used(self, context: RequestContext, host: str, share_id: str, besides: str) -> bool:
        """See :meth:`ConductorAPI.share_is_used`."""
        with self.db.read() as conn:
            return instances.share_is_used(conn, host, share_id, besides)

    # the embedded network and the metadata service ------------------------------------------------------------------
    @expected
    def list_networks(self, context: RequestContext, project_id: str | None) -> list[dict[str, Any]]:
        """See ``network.base.PortStore``, as the next three."""
        found = _plain(self.ports.list_networks(project_id))
        # a host needs addresses and bridges, not whose networks these are
        return found if context.caller is None else [{**network, "name": "", "project_id": None} for network in found]

    @expected
    def allocate_ports(self, context: RequestContext, instance_uuid: str, project_id: str, host: str,
                       requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ports for a server."""
        self._check(host_access.check_ports, context, instance_uuid, project_id)
        ports = _plain(self.ports.allocate_ports(instance_uuid, project_id, host, requests))
        self.group_notifier(networks={port["network_uuid"] for port in ports})
        return ports

    @expected
    def release_ports(self, context: RequestContext, instance_uuid: str) -> None:
        """Give them back."""
        self._check(host_access.check, context, instance_uuid, True)
        self.ports.release_ports(instance_uuid)

    @expected
    def release_port(self, context: RequestContext, instance_uuid: str, port_id: str | None, key: str | None) -> None:
        """Release one port."""
        self._check(host_access.check, context, instance_uuid)
        self.ports.release_port(instance_uuid, port_id, key)

    @expected
    def move_ports(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        """Bind all ports of a server to another host."""
        self._check(host_access.check_destination, context, instance_uuid, host)
        self.ports.move_ports(instance_uuid, host)

    @expected
    def list_server_ports(self, context: RequestContext, instance_uuid: str) -> list[dict[str, Any]]:
        """All ports of a server."""
        self._check(host_access.check, context, instance_uuid)
        return _plain(self.ports.list_server_ports(instance_uuid))

    @expected
    def list_host_ports(self, context: RequestContext, host: str) -> list[dict[str, Any]]:
        """All ports of a host."""
        return _plain(self.ports.list_host_ports(host))

    def rules_for(self, context: RequestContext, group_ids: list[str]) -> dict[str, Any]:
        """The rules of security groups; for a compute host those of groups that none of its ports is in are empty."""
        if context.caller is None:
            return self.ports.rules_for(group_ids)
        with self.db.read() as conn:
            mine = host_access.groups_of(conn, context.caller, group_ids)
        found = self.ports.rules_for(sorted(mine))
        return {**found, "rules": {**dict.fromkeys(group_ids, []), **found["rules"]}}

    def _check(self, check: Callable[..., None], context: RequestContext, *arguments: object) -> None:
        if context.caller is not None:
            with self.db.read() as conn:
                check(conn, context.caller, *arguments)

    def instance_by_address(self, context: RequestContext, address: str, network_id: str | None) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.instance_by_address`."""
        with self.db.read() as conn:
            ports = [p for p in networks.list_ports(conn, address=address, network_uuid=network_id) if p["instance_uuid"]]
            # an address on two networks is ambiguous: no answer, rather than that of another tenant
            if len(ports) != 1:
                return None
            return self._metadata_of(conn, context, ports[0]["instance_uuid"])

    def instance_metadata(self, context: RequestContext, instance_uuid: str) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.instance_metadata`."""
        with self.db.read() as conn:
            return self._metadata_of(conn, context, instance_uuid)

    @staticmethod
    def _metadata_of(conn: sa.Connection, context: RequestContext, instance_uuid: str) -> dict[str, Any] | None:
        if context.caller is not None and not host_access.of_host(conn, context.caller, [instance_uuid]):
            return None
        return next((i.to_primitive() for i in instances.get_many(conn, [instance_uuid]).values()), None)

    def get_console_auth_token(self, context: RequestContext, token_digest: str) -> dict[str, Any] | None:
        """See :meth:`ConductorAPI.get_console_auth_token`."""
        with self.db.read() as conn:
            found = console_auth_tokens.find(conn, token_digest)
        return found.to_primitive() if found is not None else None

    def key_generations(self, context: RequestContext, host: str) -> list[int]:
        """See :meth:`ConductorAPI.key_generations`."""
        with self.db.read() as conn:
            return host_keys.to_sign_with(conn, host)

    @expected
    def set_server_password(self, context: RequestContext, instance_uuid: str, password: str) -> None:
        """See :meth:`ConductorAPI.set_server_password`."""
        self._check(host_access.check, context, instance_uuid)
        self.db.write(server_passwords.set_once, instance_uuid, password)


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without times, which no reader of ports needs and which are no JSON."""
    return [{k: _plain([v])[0] if isinstance(v, dict) else v for k, v in row.items() if k not in ("created_at", "updated_at")}
            for row in rows]
