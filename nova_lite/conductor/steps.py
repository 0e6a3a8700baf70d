"""The reports of compute hosts about their actions: claims, progress, results. One message, and one transaction, carries many
of them.

A busy host collects the reports of its threads (``rpc/batching.py``). The conductor writes the steps of one message with a few
statements, however many there are. Each step is fenced: it is refused with LeaseLost when the caller no longer owns the action.
A refused step does not affect the others.
"""
from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.conductor import completion, host_writes, move_completion
from nova_lite.conductor.rpc_permissions import host_of
from nova_lite.conductor.tasks.build import BuildTask
from nova_lite.context import RequestContext
from nova_lite.db import actions, console_auth_tokens, hosts, instances, moves, networks, services
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.virt.live import ABORT, GIVE_UP

LOG = log.getLogger(__name__)
Call = tuple[int, dict[str, Any]]     # position in the message, arguments
_LeftBehind = tuple[set[str], list[str]]


class Steps:
    """An endpoint of the conductor. ``calls`` are [name, arguments]; the answers, in order, are {"result"} or {"error"}."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, builds: BuildTask, compute: ComputeAPI,
                 conductor: ConductorAPI) -> None:
        self.lease_seconds, self.default_zone = conf.conductor.lease_seconds, conf.compute.default_availability_zone
        self.db, self.builds, self.compute, self.conductor = db, builds, compute, conductor

    def steps(self, context: RequestContext, calls: list[list[Any]]) -> list[dict[str, Any]]:
        """Write the steps of one message."""
        answers, woken, (hosts_left, gone) = self.db.write(self._write, calls, context.caller)
        for name, message in (answer["error"] for answer in answers if "error" in answer):
            if name == exception.HostNotAllowed.__name__:
                LOG.warning("refused a step: %s", message)
        for left in hosts_left:
            self.compute.look_for_left_behind(context, left, gone)
        for host, action in woken:
            if host is None:
                self.conductor.run_action(context, [action.id])
                continue
            self.compute.wake(RequestContext.from_rpc(action.context or {}), host, [action.id])
        return answers

    def _write(self, conn: sa.Connection,
               calls: Sequence[Sequence[Any]],
               caller: str | None) -> tuple[list[dict[str, Any]], list[tuple[str | None, Action]], _LeftBehind]:
        run = _Run(conn, self, [c[1]["action_id"] for c in calls], caller)
        by_name: dict[str, list[Call]] = defaultdict(list)
        for position, (name, arguments) in enumerate(calls):
            by_name[name].append((position, arguments))
        handlers: dict[str, Callable[[list[Call]], None]] = {
            "claim_action": run.claim, "instance_update": run.update,
            "block_device_update": run.update_device, "nic_update": run.update_nic,
            "migration_update": run.update_migration, "hand_over": run.hand_over, "release_action": run.release,
            "finish_action": run.finish, "build_failed": run.build_failed}
        for name, some in by_name.items():
            handlers[name](some)
        actions.add_events(conn, run.events)
        return [run.answers[position] for position in range(len(calls))], run.woken, run.left_behind


class _Run:
    """The steps of one transaction. All their actions are locked first, in one order. ``caller``: the host that sent the
    message."""

    def __init__(self, conn: sa.Connection, steps: Steps, action_ids: Iterable[int], caller: str | None) -> None:
        self.caller = caller
        self.conn, self.builds, self.lease_seconds, self.zone = conn, steps.builds, steps.lease_seconds, steps.default_zone
        self.locked = actions.lock(conn, set(action_ids))
        self.answers: dict[int, dict[str, Any]] = {}
        self.events: list[tuple[int, Mapping[str, Any]]] = []
        self.woken: list[tuple[str | None, Action]] = []
        self.left_behind: _LeftBehind = (set(), [])     # hosts that may have files of deleted servers, and those servers

    # claims ---------------------------------------------------------------------------------------------------------
    def claim(self, calls: list[Call]) -> None:
        """{"action", "instance"} for each action that the caller owns now; None for an action that another worker owns, or that
        has ended."""
        mine: list[tuple[int, dict[str, Any], Action]] = []
        for position, asked in calls:
            action = self.locked.get(asked["action_id"])
            self.answers[position] = {"result": None}
            if self.caller is not None and {asked["host"], host_of(asked["owner"])} != {self.caller}:
                self.answers[position] = _error(exception.HostNotAllowed(
                    host=self.caller, reason=f"it claims as {asked['owner']} on {asked['host']}"))
            elif action is not None and action.stage == objects.COMPUTE and action.host == asked["host"] \
                    and actions.is_free_for(self.conn, action, asked["owner"]):
                if action.state == objects.PENDING:
                    actions.note_start(self.conn, [action])
                # at once: the next step of this message may want the same action
                action.state, action.owner = objects.RUNNING, asked["owner"]
                action.lease_until = actions.lease(self.lease_seconds)
                mine.append((position, asked, action))
        for owner, same in _grouped(mine, lambda m: m[1]["owner"]).items():
            actions.take(self.conn, [m[2] for m in same], str(owner), self.lease_seconds)
        found = instances.get_many(self.conn, {m[2].instance_uuid for m in mine}, lock=True, tags=False)
        for task_state, same in _grouped(mine, lambda m: m[1].get("task_state")).items():
            self._start(same, found, task_state)

    def _start(self, same: list[tuple[int, dict[str, Any], Action]], found: dict[str, Any], task_state: Any) -> None:
        """Give builds their first task_state. One faulty action must not keep the host from the others."""
        moved = []
        for position, asked, action in same:
            server = found.get(action.instance_uuid)
            try:
                if self._is_wanted(server, asked, action):
                    if operations.of(action).new_server and task_state:
                        server.task_state = task_state
                        moved.append(server.uuid)
                    self.answers[position] = {"result": {"action": actions.for_worker(self.conn, action),
                                                         "instance": server.to_primitive(),
                                                         "migration": self._move_of(action)}}
            except sa.exc.DBAPIError:
                raise       # the whole message is tried again
            except Exception:
                LOG.exception("action %s (%s) was not handled; it is tried again later", action.id, action.action,
                              extra={"instance_uuid": action.instance_uuid})
                actions.release(self.conn, [action.id], self.lease_seconds, died=False)
        instances.update_many(self.conn, moved, {"task_state": task_state})

    def _is_wanted(self, server: Instance | None, asked: Mapping[str, Any], action: Action) -> TypeGuard[Instance]:
        """Whether the server of a claimed action is in a state in which the action can go on. If not, the action ends."""
        verb = operations.of(action)       # KeyError for a verb that only another version has
        if server is None:
            actions.finish(self.conn, [action.id], None if completion.is_delete(action) else actions.TAKEN_OVER)
            return False
        fits = completion.is_delete(action) or server.task_state in verb.working or (
            (verb.keeps_state or _is_half_done(action)) and server.task_state != states.DELETING)
        if fits and verb.follows_guest and server.task_state in operations.BETWEEN_HOSTS:
            actions.release(self.conn, [action.id], self.lease_seconds, died=False)     # the host's next report brings it again
            return False
        if fits and verb.is_done_at_guest and server.host not in (None, asked["host"]):
            # the guest is at another host by now: os-resetState declared the server idle during a move, or the verb keeps the
            # state and was begun before the move
            actions.hand_over(self.conn, [action.id], self.lease_seconds, objects.COMPUTE, server.host)
            self.woken.append((server.host, action))
            return False
        if fits and (not verb.new_server or server.host == asked["host"]):
            return True
        if self._is_between_hosts(server, action):
            return True
        LOG.info("'%s' is dropped: task_state is %s", verb.name, server.task_state, extra={"instance_uuid": server.uuid})
        completion.cancel(self.conn, action)
        return False

    def _is_between_hosts(self, server: Instance, action: Action) -> bool:
        """Whether os-resetState declared the server of a move idle while no worker had the move, and the move has to continue.
        If so, the server gets the task_state of the step again."""
        step = self._step_to_go_on(server, action) if server.task_state is None and "migration_id" in action.arguments else None
        if step is not None:
            instances.update(self.conn, server.uuid, {"task_state": step}, [None])
            server.task_state = step
        return step is not None

    def _step_to_go_on(self, server: Instance, action: Action) -> str | None:
        """The task_state with which a move continues after os-resetState: a resize or migration that has begun to take its
        guest away, or an evacuation whose guest may run at its host. None: the move ends."""
        verb = operations.of(action)
        if verb.if_host_dies is operations.IfHostDies.ANOTHER:
            return verb.working[-1] if action.arguments.get(objects.GUEST_AT) == action.host else None
        if not verb.is_cold_move:
            return None
        step = move_completion.step_of(action, server, moves.get(self.conn, action.arguments["migration_id"]))
        return step.task_state if step is not None and step.survives_reset else None

    def _move_of(self, action: Action) -> dict[str, Any] | None:
        if "migration_id" not in action.arguments:
            return None
        return moves.get(self.conn, action.arguments["migration_id"]).to_primitive()

    # on the way -----------------------------------------------------------------------------------------------------
    def update(self, calls: list[Call]) -> None:
        """Change servers, each only while it has one of its expected task_states."""
        held = [(position, {**asked, "updates": updates}) for position, asked in calls
                if (updates := self._updates(position, asked)) is not None]
        for same in _grouped(held, lambda h: _key(h[1]["updates"], h[1]["expected_task_states"])).values():
            updates, expected = same[0][1]["updates"], same[0][1]["expected_task_states"]
            uuids = [asked["instance_uuid"] for _, asked in same]
            for position, _ in same:
                self.answers[position] = {"result": None}
            if "host" in updates:
                completion.close_consoles(self.conn, uuids, updates)
            if instances.update_many(self.conn, uuids, updates, expected) == len(uuids):
                continue
            for position, asked in same:        # which of them was it?
                there = [updates["task_state"]] if "task_state" in updates else []
                try:
                    instances.update(self.conn, asked["instance_uuid"], updates, [*expected, *there])
                except exception.NovaLiteError as error:
                    self.answers[position] = _error(error)
        for position, asked in held:
            action = self.locked[asked["action_id"]]
            noted = {**asked.get("arguments", {}), **({objects.GUEST_AT: action.host} if asked.get("guest_begins") else {})}
            if noted and "error" not in self.answers[position]:
                action.arguments = {**action.arguments, **noted}
                actions.set_arguments(self.conn, action.id, action.arguments)

    def _updates(self, position: int, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The columns to write; None: the step is refused. A step without changes asks whether the lease holds. The other host
        of a move may ask that too."""
        changes = asked["updates"] or asked.get("arguments") or asked.get("guest_begins")
        action = self._holds(position, asked, or_its_partner=not changes)
        if action is None:
            return None
        try:
            host_writes.notes(action, asked.get("arguments", {}))
            updates = host_writes.server(self.conn, action, asked["updates"], self.zone)
        except exception.NovaLiteError as error:
            self.answers[position] = _error(error)
            return None
        return instances.as_host_says(self.conn, action.instance_uuid, updates)

    def update_device(self, calls: list[Call]) -> None:
        """Change single block devices. Such steps are rare, so each changes its own row."""
        for position, asked in calls:
            if action := self._holds(position, asked):
                self.answers[position] = {"result": None}
                try:
                    host_writes.device(action, asked["values"])
                    instances.change_block_device(self.conn, asked["instance_uuid"], asked["device_id"], asked["values"])
                except exception.NovaLiteError as error:
                    self.answers[position] = _error(error)

    def update_nic(self, calls: list[Call]) -> None:
        """Change single nics, as ``update_device`` does block devices."""
        for position, asked in calls:
            if action := self._holds(position, asked):
                self.answers[position] = {"result": None}
                try:
                    host_writes.nic(action, asked["nic"])
                    instances.change_nic(self.conn, asked["instance_uuid"], asked["port_id"], asked["nic"])
                except exception.NovaLiteError as error:
                    self.answers[position] = _error(error)

    def update_migration(self, calls: list[Call]) -> None:
        """Change moves; each answer says what the user wants of the move: see ``_wanted``."""
        for position, asked in calls:
            action = self._holds(position, asked)
            if action is not None:
                try:
                    host_writes.move(action, asked["migration_id"], asked["values"])
                except exception.HostNotAllowed as error:
                    self.answers[position] = _error(error)
                    continue
                moves.update(self.conn, asked["migration_id"], asked["values"])
                self.answers[position] = {"result": self._wanted(action, asked["migration_id"])}

    def _wanted(self, action: Action, migration_id: int) -> str | None:
        """What the host has to do with the move besides: abort it, force its completion, or give it up. A server that is being
        deleted aborts its move. A guest that continues after post-copy is given up when its server is deleted, or when the new
        host was declared down: else the old host would wait for as long as that host is away."""
        server = instances.get_many(self.conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
        unwanted = server is None or server.task_state == states.DELETING
        with contextlib.suppress(exception.MigrationNotFound):      # purged with its server
            move = moves.get(self.conn, migration_id)
            if move.went_on and (unwanted or services.is_forced_down(self.conn, move.dest_compute)):
                return GIVE_UP
        return action.arguments.get("wanted") or (ABORT if unwanted else None)

    def hand_over(self, calls: list[Call]) -> None:
        """Give actions to another host, or to a conductor. A step that is repeated finds that the action was handed over."""
        for position, asked in calls:
            self.answers[position] = {"result": None}
            action = self.locked.get(asked["action_id"])
            if action is not None and action.state == objects.PENDING and action.host == asked["host"]:
                continue
            action = self._holds(position, asked)
            if action is None:
                continue
            step, arguments = _step_told(asked)
            try:
                host_writes.handed_over(self.conn, action, asked["host"], arguments, step)
                if asked["updates"]:
                    self._move_server(action, asked["updates"])
            except exception.NovaLiteError as error:
                self.answers[position] = _error(error)
                continue
            self.events += host_writes.events(action, asked["events"])
            stage = objects.COMPUTE if asked["host"] else objects.CONDUCTOR
            actions.hand_over(self.conn, [action.id], self.lease_seconds, stage, asked["host"],
                              {**action.arguments, **arguments}, step)
            self.woken.append((asked["host"], action))

    def _move_server(self, action: Action, asked: Mapping[str, Any]) -> None:
        # None: os-resetState declared the server idle, but the guest has moved
        expected = [*operations.of(action).working, None]
        written = host_writes.server(self.conn, action, asked, self.zone)
        instances.update(self.conn, action.instance_uuid, instances.as_host_says(self.conn, action.instance_uuid, written),
                         expected)
        if "host" in written:
            completion.close_consoles(self.conn, [action.instance_uuid], written)

    def release(self, calls: list[Call]) -> None:
        """Release actions that were not begun, or that wait (with ``events``): the same host claims them again."""
        mine = []
        for position, asked in calls:
            self.answers[position] = {"result": None}
            action = self.locked.get(asked["action_id"])
            if action is None or (action.state, action.owner) != (objects.RUNNING, asked["owner"]):
                continue
            if self._is_its(action):
                mine.append(action.id)
                events = asked.get("events", ())
                told = {event["details"] for event in actions.events_of(self.conn, action.id)} if events else set()
                self.events += host_writes.events(action, [event for event in events if event["details"] not in told])
        actions.release(self.conn, mine, self.lease_seconds, died=False)

    def _holds(self, position: int, asked: Mapping[str, Any], or_its_partner: bool = False) -> Action | None:
        """The action, when the step comes from its owner; with ``or_its_partner`` also when it comes from the other host of its
        move."""
        action = self.locked.get(asked["action_id"])
        if action is None or action.state != objects.RUNNING or action.owner != asked["owner"]:
            self.answers[position] = _error(exception.LeaseLost(action_id=asked["action_id"], owner=asked["owner"]))
            return None
        is_known = self._is_its(action) or (or_its_partner and self.caller in host_writes.hosts_of(self.conn, action))
        if not is_known or asked.get("instance_uuid", action.instance_uuid) != action.instance_uuid:
            self.answers[position] = _error(exception.HostNotAllowed(
                host=self.caller, reason=f"action {action.id} is not its own, or not of that server"))
            return None
        return action

    def _is_its(self, action: Action) -> bool:
        return self.caller is None or (action.stage, action.host) == (objects.COMPUTE, self.caller)

    # the end --------------------------------------------------------------------------------------------------------
    def finish(self, calls: list[Call]) -> None:
        """End actions. A repeated report is not written twice."""
        well: list[tuple[Action, dict[str, Any]]] = []
        for position, asked in calls:
            action = self.locked.get(asked["action_id"])
            end = objects.DONE if asked["error"] is None else objects.ERROR
            if action is not None and action.owner == asked["owner"] and action.state == end:
                self.answers[position] = {"result": None}
                continue
            action = self._holds(position, asked)
            if action is None:
                continue
            try:
                written = host_writes.server(self.conn, action, asked["updates"], self.zone, asked["error"] is not None)
            except exception.NovaLiteError as error:
                self.answers[position] = _error(error)
                continue
            self.answers[position] = {"result": None}
            self.events += host_writes.events(action, asked["events"])
            updates = instances.as_host_says(self.conn, action.instance_uuid, written)
            if asked["error"] is None:
                well.append((action, updates))
            else:
                completion.fail(self.conn, action, asked["error"], details=_traceback(asked["events"]), updates=updates)
        self._deleted([action for action, _ in well if completion.is_delete(action)])
        rest = [w for w in well if not completion.is_delete(w[0])]
        for same in _grouped(rest, lambda w: _key(operations.of(w[0]).name, w[1])).values():
            self._succeeded([action for action, _ in same], same[0][1])
        actions.finish(self.conn, [action.id for action, _ in well])

    def _deleted(self, done: list[Action]) -> None:
        if not done:
            return
        uuids = sorted({a.instance_uuid for a in done})
        self.left_behind = (move_completion.deleted(self.conn, uuids), uuids)
        instances.mark_many_deleted(self.conn, uuids)
        console_auth_tokens.forget(self.conn, uuids)
        for uuid in networks.with_ports(self.conn, uuids):
            networks.release_ports(self.conn, uuid)
        ids = {a.id for a in done}
        for some in actions.open_of_instances(self.conn, uuids).values():
            for other in some:
                if other.id not in ids:
                    actions.finish(self.conn, [other.id], actions.TAKEN_OVER)

    def _succeeded(self, done: list[Action], updates: Mapping[str, Any]) -> None:
        """Servers end in the states of the table. A server that another operation has taken over stays as it is.

        An idle server was declared idle by os-resetState: no other operation works on it, so the result is written.
        """
        verb = operations.of(done[0])
        if verb.keeps_state:
            for action in done:
                completion.change_device(self.conn, action, updates)
            return
        values = completion.success(verb, updates)
        if verb.new_server:
            values |= {"launched_at": units.utcnow(), "personality": None}
            for host in {a.host for a in done if a.host}:
                hosts.reset_failed_builds(self.conn, host)
        uuids, expected = [a.instance_uuid for a in done], [*verb.working, None]
        completion.close_consoles(self.conn, uuids, values)
        moved = [a for a in done if "migration_id" in a.arguments or verb.ends_waiting_move]
        instances.update_many(self.conn, [a.instance_uuid for a in done if a not in moved], values, expected)
        for action in moved:        # an operation that has taken the server over ends its move, unless the move is final
            is_final = verb.move is not None and verb.move.is_final
            if instances.update_many(self.conn, [action.instance_uuid], values, expected) or is_final:
                move_completion.succeeded(self.conn, action)
            if verb.guest is operations.Guest.RETURNS:     # its old host has only turned its guest off
                old, (told, gone) = moves.get(self.conn, action.arguments["migration_id"]).source_compute, self.left_behind
                self.left_behind = (told | {old} if old else told, [*gone, action.instance_uuid])
        completion.left_its_host(self.conn, uuids, values)

    def build_failed(self, calls: list[Call]) -> None:
        """Builds that failed on their host: try the next host, or end in ERROR."""
        for position, asked in calls:
            self.answers[position] = {"result": None}
            action = self.locked.get(asked["action_id"])
            if action is None or action.owner != asked["owner"] or action.state != objects.RUNNING:
                continue        # the step is repeated, or another worker owns the action
            if not self._is_its(action) or not operations.of(action).new_server:
                self.answers[position] = _error(exception.HostNotAllowed(
                    host=self.caller, reason=f"action {action.id} is no build of its own"))
                continue
            self.events += host_writes.events(action, asked["events"])
            host = self.builds.failed_on_host(self.conn, action, asked["reason"], asked["details"], asked["reschedule"])
            if host is not None:
                self.woken.append((host, action))


def _is_half_done(action: Action) -> bool:
    """Whether the guest of a move may be between two hosts. Then the hosts finish the move, even after os-resetState."""
    verb = operations.of(action)
    step = operations.named(verb.steps, action.step)
    return verb.survives_reset or (step is not None and step.survives_reset)


def _step_told(asked: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The step that another host shall continue with, and its arguments. A host of an older release names the step in these."""
    step: str | None = asked.get("step") or objects.step_of_older(asked["arguments"])
    older = objects.for_older(step) if step is not None else {}
    return step, {name: value for name, value in asked["arguments"].items() if name not in older}


def _grouped(items: Iterable[Any], key: Callable[[Any], Hashable]) -> dict[Hashable, list[Any]]:
    found: dict[Hashable, list[Any]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _key(*values: Any) -> str:
    return json.dumps(values, sort_keys=True)


def _error(error: exception.NovaLiteError | exception.LeaseLost) -> dict[str, Any]:
    return {"error": [type(error).__name__, error.message], "fields": error.kwargs}


def _traceback(events: Sequence[Mapping[str, Any]]) -> str:
    return next((str(e["traceback"]) for e in events if e.get("traceback")), "")
