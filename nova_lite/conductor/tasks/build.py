"""Builds, as the conductor sees them: find hosts for new servers, hand them over, try the next host after a failure."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, units
from nova_lite.compute import states
from nova_lite.compute.rpcapi import ComputeAPI
from nova_lite.conductor import endings
from nova_lite.conductor.leases import Leases
from nova_lite.context import RequestContext
from nova_lite.db import actions, claims, hosts, instances, server_groups
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.scheduling import RequestSpec, Selection
from nova_lite.scheduler.rpcapi import SchedulerAPI

LOG = log.getLogger(__name__)
EVENT = "schedule_instances"


class BuildTask:
    """The conductor's half of a build."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, leases: Leases, scheduler: SchedulerAPI,
                 compute: ComputeAPI) -> None:
        self.conf, self.db, self.leases = conf, db, leases
        self.scheduler, self.compute = scheduler, compute
        self.lease_seconds = conf.conductor.lease_seconds

    def schedule(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Take those of the actions that are free and send each server to a host."""
        with self.leases.taking(action_ids):
            taken = self.db.write(actions.claim, list(action_ids), self.leases.owner, self.lease_seconds, objects.CONDUCTOR)
            alike: dict[tuple, list[Action]] = defaultdict(list)
            for action in taken:
                # servers of one request are placed together; those that failed somewhere must not go there again
                alike[(action.request_id, tuple(action.arguments.get("ignore_hosts", ())))].append(action)
            for batch in alike.values():
                self._place(RequestContext.from_rpc(batch[0].context or {}), batch)

    def _place(self, context: RequestContext, batch: list[Action]) -> None:
        started = units.utcnow()
        with self.db.read() as conn:
            found = instances.get_many(conn, [a.instance_uuid for a in batch], tags=False)
            waiting = [a for a in batch if a.instance_uuid in found
                       and found[a.instance_uuid].task_state == states.SCHEDULING]
            group = self._group(conn, found[waiting[0].instance_uuid]) if waiting else None
        for action in batch:
            if action not in waiting:
                self.db.write(endings.cancel, action)
        if not waiting:
            return
        spec = _spec(found[waiting[0].instance_uuid], waiting[0], group)
        try:
            selections = self.scheduler.select_destinations(context, spec, [a.instance_uuid for a in waiting])
        except exception.NoValidHost as error:
            self.db.write(self._bury, waiting, error.message, started)
            return
        except messaging.MessagingTimeout:
            LOG.warning("the scheduler did not answer; %d builds will be tried again", len(waiting))
            self.db.write(actions.release, [a.id for a in waiting], 0, True)
            return
        except Exception as error:
            LOG.exception("scheduling failed")
            self.db.write(self._bury, waiting, f"Scheduling failed: {error}", started)
            return
        for action, host in self.db.write(self._assign, waiting, selections, started):
            self.compute.build_and_run_instance(context, host, action.id)

    def _group(self, conn: sa.Connection, instance: Instance) -> dict[str, Any] | None:
        uuid = server_groups.of_instances(conn, [instance.uuid]).get(instance.uuid)
        if uuid is None:
            return None
        group = server_groups.get(conn, uuid)
        return {"uuid": uuid, "policy": group["policy"], "rules": group["rules"]}

    def _assign(self, conn: sa.Connection, batch: list[Action], selections: dict[str, list[Selection]],
                started: Any) -> list[tuple[Action, str]]:
        """Write the hosts down and hand the actions over; what was deleted or lost in between is left out."""
        held = actions.held(conn, [a.id for a in batch], self.leases.owner)
        sent: list[tuple[Action, str]] = []
        same: dict[tuple, list[Action]] = defaultdict(list)
        for action in batch:
            if action.id in held:
                places = selections[action.instance_uuid]
                same[tuple((s.host, s.compute_node_id) for s in places)].append(action)
        for alike in same.values():
            places = selections[alike[0].instance_uuid]
            chosen = places[0]
            values = {"host": chosen.host, "node": chosen.node, "launched_on": chosen.host,
                      "availability_zone": chosen.availability_zone}
            ready = self._write_host(conn, alike, values)
            if ready:
                arguments = {**ready[0].arguments, "alternates": [s.to_primitive() for s in places[1:]]}
                actions.hand_over(conn, [a.id for a in ready], self.lease_seconds, objects.COMPUTE, chosen.host, arguments)
                sent += [(a, chosen.host) for a in ready]
        event = actions.event(EVENT, self.conf.host, started)
        actions.add_events(conn, [(a.id, event) for a, _ in sent])
        return sent

    def _write_host(self, conn: sa.Connection, alike: list[Action], values: dict[str, Any]) -> list[Action]:
        expected = [states.SCHEDULING]
        # arguments may hold a server's own secret: actions are only handled alike when theirs are
        if len({repr(a.arguments) for a in alike}) > 1:
            raise exception.NovaLiteError("actions of one request differ in their arguments")
        if instances.update_many(conn, [a.instance_uuid for a in alike], values, expected) == len(alike):
            return alike
        ready = []
        for action in alike:
            found = instances.get_many(conn, [action.instance_uuid], lock=True).get(action.instance_uuid)
            if found is not None and found.task_state == states.SCHEDULING:
                ready.append(action)
            else:
                endings.cancel(conn, action)
        return ready

    def _bury(self, conn: sa.Connection, batch: list[Action], message: str, started: Any) -> None:
        held = actions.held(conn, [a.id for a in batch], self.leases.owner)
        event = actions.event(EVENT, self.conf.host, started, error=message)
        for action in held.values():
            LOG.info("no host: %s", message, extra={"instance_uuid": action.instance_uuid})
            endings.fail(conn, action, message)
        actions.add_events(conn, [(action_id, event) for action_id in held])

    # the next host --------------------------------------------------------------------------------------------------
    def failed_on_host(self, conn: sa.Connection, action: Action, reason: str, details: str, reschedule: bool) -> str | None:
        """After a failure on ``action.host``: the next host, to which the action belongs now; None: the server is in ERROR."""
        claims.release(conn, action.instance_uuid)
        hosts.count_failed_build(conn, action.host or "")
        tried = [*action.arguments.get("tried", ()), action.host]
        found = instances.get_many(conn, [action.instance_uuid], lock=True).get(action.instance_uuid)
        if found is None or found.task_state == states.DELETING:
            endings.cancel(conn, action)
            return None
        rest = [Selection.from_primitive(s) for s in action.arguments.get("alternates", ())] if reschedule else []
        group = self._group(conn, found)
        while rest:
            place = rest.pop(0)
            flavor = found.flavor
            if not claims.claim(conn, found.uuid, place.compute_node_id, flavor.vcpus, flavor.memory_mb, flavor.disk_gb, group):
                continue
            instances.update(conn, found.uuid, {
                "host": place.host, "node": place.node, "launched_on": place.host, "task_state": states.SCHEDULING,
                "availability_zone": place.availability_zone, "network_info": []})
            arguments = {**action.arguments, "tried": tried, "alternates": [s.to_primitive() for s in rest]}
            actions.hand_over(conn, [action.id], self.lease_seconds, objects.COMPUTE, place.host, arguments)
            return place.host
        where = f" Hosts tried: {', '.join(str(h) for h in tried)}." if len(tried) > 1 else ""
        endings.fail(conn, action, reason + where, details, {"host": None, "node": None} if reschedule else None)
        return None


def _spec(instance: Instance, action: Action, group: dict[str, Any] | None) -> RequestSpec:
    return RequestSpec(
        flavor=instance.flavor, project_id=instance.project_id, user_id=instance.user_id, image=instance.image,
        availability_zone=instance.pinned_availability_zone, requested_destination=instance.requested_destination,
        ignore_hosts=list(action.arguments.get("ignore_hosts", ())), scheduler_hints=instance.scheduler_hints, group=group)
