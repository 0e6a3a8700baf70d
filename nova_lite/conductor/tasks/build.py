"""The conductor's part of builds: find hosts for new servers, hand the actions over, and try the next host after a failure."""
from __future__ import annotations

import datetime
import json
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, units
from nova_lite.conductor import completion
from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.cleanup import Cleanup
from nova_lite.conductor.leases import Leases
from nova_lite.conductor.tasks.base import group_facts, group_of, request_spec
from nova_lite.context import RequestContext
from nova_lite.db import actions, claims, hosts, instances, server_groups
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.scheduling import RequestSpec, Selection
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.scheduler import SchedulerAPI

LOG = log.getLogger(__name__)
EVENT = "schedule_instances"


class _Build(NamedTuple):
    action: Action
    spec: RequestSpec


class BuildTask:
    """The conductor's half of a build."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, leases: Leases, scheduler: SchedulerAPI,
                 compute: ComputeAPI, cleanup: Cleanup, bus_health: BusHealth) -> None:
        self.conf, self.db, self.leases, self.cleanup, self.bus_health = conf, db, leases, cleanup, bus_health
        self.scheduler, self.compute = scheduler, compute
        self.lease_seconds = conf.conductor.lease_seconds
        self._lock = threading.Lock()
        self._waiting: list[int] = []
        self._placing = False

    def schedule(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Claim those of the actions that are free, and send each server to a host.

        One thread of the process places builds. Requests that arrive meanwhile form its next batch. Many requests at once make
        large batches, so a burst costs few calls of the scheduler and few transactions.
        """
        with self._lock:
            self._waiting += action_ids
            if self._placing:
                return
            self._placing = True
        while ids := self._next_batch():
            try:
                self._schedule(ids)
            except Exception:
                # their leases run out, and the sweeper tries them again
                LOG.exception("a batch of %d builds was not placed", len(ids))

    def _next_batch(self) -> list[int]:
        with self._lock:
            ids, self._waiting = self._waiting, []
            self._placing = bool(ids)
            return ids

    def _schedule(self, action_ids: Sequence[int]) -> None:
        with self.leases.taking(action_ids):
            taken = self.db.write(actions.claim, list(action_ids), self.leases.owner, self.lease_seconds, objects.CONDUCTOR)
            started = units.utcnow()
            for batch in self._alike(taken):
                self._place(batch, started)

    def _alike(self, taken: Sequence[Action]) -> list[list[_Build]]:
        """Builds grouped by their request to the scheduler. Builds that are no longer wanted end here."""
        with self.db.read() as conn:
            found = instances.get_many(conn, [a.instance_uuid for a in taken], tags=False)
            groups = server_groups.of_instances(conn, list(found)) if found else {}
            known = {uuid: server_groups.get(conn, uuid) for uuid in set(groups.values())}
        batches: dict[str, list[_Build]] = defaultdict(list)
        for action in taken:
            instance = found.get(action.instance_uuid)
            if instance is None or instance.task_state != states.SCHEDULING:
                self.db.write(completion.cancel, action)
                continue
            group = known.get(groups.get(instance.uuid, ""))
            spec = request_spec(instance, action, group_facts(group))
            batches[json.dumps(spec.to_primitive(), sort_keys=True)].append(_Build(action, spec))
        return list(batches.values())

    def _place(self, batch: list[_Build], started: datetime.datetime) -> None:
        context, waiting = RequestContext.from_rpc(batch[0].action.context or {}), [b.action for b in batch]
        try:
            selections = self.scheduler.select_destinations(context, batch[0].spec, [a.instance_uuid for a in waiting])
        except exception.NoValidHost as error:
            requests = {a.request_id for a in waiting}
            if len(requests) > 1:
                # "all or none" applies to the servers of one request, not to a batch of several requests
                for request in sorted(requests):
                    self._place([b for b in batch if b.action.request_id == request], started)
                return
            if self.bus_health.hosts_may_report(started):
                LOG.info("hosts have not reported since an outage; %d builds wait for them", len(waiting))
                self.db.write(self._wait_for_hosts, waiting)
                return
            self.db.write(self._no_host, waiting, error.message, started)
            self._give_back_volumes(waiting)
            return
        except messaging.MessagingTimeout:
            self._ask_again(waiting, "the scheduler did not answer", started)
            return
        except Exception as error:
            LOG.exception("scheduling failed")
            self._ask_again(waiting, exception.words_of(error).splitlines()[0], started, exception.public_of(error))
            return
        sent, unplaced = self.db.write(self._assign, waiting, batch[0].spec, selections, started)
        if unplaced:
            self._try_again(unplaced, "the room that was found for them was given to others meanwhile", started)
        by_host: dict[str, list[int]] = defaultdict(list)
        for action, host in sent:
            by_host[host].append(action.id)
        for host, ids in by_host.items():
            self.compute.wake(context, host, ids)

    def _assign(self, conn: sa.Connection, batch: list[Action], spec: RequestSpec, selections: dict[str, list[Selection]],
                started: datetime.datetime) -> tuple[list[tuple[Action, str]], list[Action]]:
        """Write the hosts, and hand the actions over. Actions that were deleted or lost meanwhile are skipped. Also returns the
        actions of this conductor whose room is taken."""
        held = self._answered(conn, batch)
        self._give_back(conn, [a.instance_uuid for a in batch if a.id not in held])
        unplaced = self._without_room(conn, [a for a in batch if a.id in held], spec, selections)
        sent: list[tuple[Action, str]] = []
        same: dict[tuple, list[Action]] = defaultdict(list)
        for action in batch:
            if action.id in held and action not in unplaced:
                places = selections[action.instance_uuid]
                same[tuple((s.host, s.compute_node_id) for s in places)].append(action)
        for alike in same.values():
            places = selections[alike[0].instance_uuid]
            chosen = places[0]
            values = {"host": chosen.host, "node": chosen.node, "launched_on": chosen.host,
                      "availability_zone": chosen.availability_zone}
            ready = self._write_host(conn, alike, values)
            self._hand_over(conn, ready, chosen.host, [s.to_primitive() for s in places[1:]])
            sent += [(a, chosen.host) for a in ready]
        event = actions.event(EVENT, self.conf.host, started)
        actions.add_events(conn, [(a.id, event) for a, _ in sent])
        return sent, unplaced

    def _without_room(self, conn: sa.Connection, mine: list[Action], spec: RequestSpec,
                      selections: dict[str, list[Selection]]) -> list[Action]:
        """Claim room again for builds that the scheduler was asked for before: an earlier call may still run in a slow
        scheduler, which releases their room. Returns the builds that get no room. The servers are locked, so the room stays
        until their host is written."""
        again = [a for a in mine if a.attempts]
        if not again:
            return []
        claims.lock_places(conn, [a.instance_uuid for a in again])
        granted = claims.claim_many(conn, [
            claims.Claim.of(a.instance_uuid, selections[a.instance_uuid][0].compute_node_id, spec.flavor) for a in again],
            spec.group)
        return [a for a in again if a.instance_uuid not in granted]

    def _give_back(self, conn: sa.Connection, lost: Sequence[str]) -> None:
        """Release the room of servers that were deleted while the scheduler worked. Other servers are in the hands of another
        conductor."""
        alive = instances.get_many(conn, lost, tags=False)
        claims.release_many(conn, [uuid for uuid in lost if uuid not in alive])

    def _hand_over(self, conn: sa.Connection, ready: list[Action], host: str, alternates: list[dict[str, Any]]) -> None:
        # arguments may contain a secret of one request: one statement writes equal arguments only
        equal: dict[str, list[Action]] = defaultdict(list)
        for action in ready:
            equal[json.dumps(action.arguments, sort_keys=True)].append(action)
        for same in equal.values():
            arguments = {**same[0].arguments, "alternates": alternates}
            actions.hand_over(conn, [a.id for a in same], self.lease_seconds, objects.COMPUTE, host, arguments)

    def _write_host(self, conn: sa.Connection, alike: list[Action], values: dict[str, Any]) -> list[Action]:
        expected = [states.SCHEDULING]
        if instances.update_many(conn, [a.instance_uuid for a in alike], values, expected) == len(alike):
            return alike
        ready = []
        for action in alike:
            found = instances.get_many(conn, [action.instance_uuid], lock=True).get(action.instance_uuid)
            if found is not None and found.task_state == states.SCHEDULING:
                ready.append(action)
            else:
                completion.cancel(conn, action)
        return ready

    def _ask_again(self, waiting: list[Action], reason: str, started: datetime.datetime, public: str = "") -> None:
        """The scheduler gave no answer. Until it does, each action has an open event that says so. ``public`` is the text for
        users."""
        ids = [a.id for a in waiting if not self._is_last(a)]
        self.db.write(self._note_wait, ids, f"{reason}; it is asked again", started)
        self._try_again(waiting, public or reason, started)

    def _note_wait(self, conn: sa.Connection, action_ids: list[int], reason: str, started: datetime.datetime) -> None:
        mine = actions.held(conn, action_ids, self.leases.owner)
        actions.begin_wait(conn, list(mine), self.conf.host, started, reason)

    def _answered(self, conn: sa.Connection, batch: list[Action]) -> dict[int, Action]:
        """The scheduler has answered; those of the actions that are still ours."""
        mine = actions.held(conn, [a.id for a in batch], self.leases.owner)
        actions.end_wait(conn, mine.values())
        return mine

    def _is_last(self, action: Action) -> bool:
        return action.attempts + 1 >= self.conf.conductor.max_attempts

    def _try_again(self, waiting: list[Action], reason: str, started: datetime.datetime) -> None:
        """The next sweep tries these builds again. Builds that have had all their attempts end in ERROR."""
        last = [a for a in waiting if self._is_last(a)]
        again = [a.id for a in waiting if a not in last]
        LOG.warning("%d builds were not placed and will be tried again, %d not: %s", len(again), len(last), reason)
        self.db.write(self._release, again)
        if last:
            self.db.write(self._fail_unplaced, last, f"Scheduling failed {last[0].attempts + 1} times: {reason}", started)

    def _wait_for_hosts(self, conn: sa.Connection, waiting: list[Action]) -> None:
        actions.release(conn, list(self._answered(conn, waiting)), 0, died=False)

    def _release(self, conn: sa.Connection, action_ids: Sequence[int]) -> None:
        mine = actions.held(conn, action_ids, self.leases.owner)
        actions.release(conn, list(mine), 0, died=True)

    def _no_host(self, conn: sa.Connection, waiting: list[Action], message: str, started: datetime.datetime) -> None:
        self._answered(conn, waiting)
        self._fail_unplaced(conn, waiting, message, started)

    def _fail_unplaced(self, conn: sa.Connection, batch: list[Action], message: str, started: datetime.datetime) -> None:
        held = actions.held(conn, [a.id for a in batch], self.leases.owner)
        event = actions.event(EVENT, self.conf.host, started, error=message)
        for action in held.values():
            LOG.info("no host: %s", message, extra={"instance_uuid": action.instance_uuid})
            completion.fail(conn, action, message)
        actions.add_events(conn, [(action_id, event) for action_id in held])

    def _give_back_volumes(self, failed: list[Action]) -> None:
        with self.db.read() as conn:
            found = instances.get_many(conn, [a.instance_uuid for a in failed], tags=False)
        self.cleanup.give_back(i for i in found.values() if i.vm_state == states.ERROR and i.host is None)

    # the next host --------------------------------------------------------------------------------------------------
    def failed_on_host(self, conn: sa.Connection, action: Action, reason: str, details: str, reschedule: bool) -> str | None:
        """A build failed on ``action.host``. Returns the next host, which gets the action; None: the server is in ERROR."""
        claims.release(conn, action.instance_uuid)
        hosts.count_failed_build(conn, action.host or "")
        tried = [*action.arguments.get("tried", ()), action.host]
        found = instances.get_many(conn, [action.instance_uuid], lock=True).get(action.instance_uuid)
        if found is None or found.task_state == states.DELETING:
            completion.cancel(conn, action)
            return None
        rest = [Selection.from_primitive(s) for s in action.arguments.get("alternates", ())] if reschedule else []
        group = group_of(conn, found.uuid)
        while rest:
            place = rest.pop(0)
            if not claims.claim_many(conn, [claims.Claim.of(found.uuid, place.compute_node_id, found.placed_flavor)], group):
                continue
            instances.update(conn, found.uuid, {
                "host": place.host, "node": place.node, "launched_on": place.host, "task_state": states.SCHEDULING,
                "availability_zone": place.availability_zone, "network_info": []})
            instances.forget_connections(conn, found.uuid)
            arguments = {**action.arguments, "tried": tried, "alternates": [s.to_primitive() for s in rest],
                         objects.GUEST_AT: None}
            actions.hand_over(conn, [action.id], self.lease_seconds, objects.COMPUTE, place.host, arguments)
            return place.host
        where = f" Hosts tried: {', '.join(str(h) for h in tried)}." if len(tried) > 1 else ""
        completion.fail(conn, action, reason, details + where, {"host": None, "node": None, "network_info": []})
        return None
