"""How actions end: what is written to the server and to the action. Each function runs in a transaction of its caller."""
from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations, units
from nova_lite.conductor import move_completion
from nova_lite.db import actions, claims, console_auth_tokens, hosts, instances, networks, services
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import UNSHELVED_HOST, has_unshelved, without_shelving_keys
from nova_lite.operations import IfHostDies

MESSAGE_LENGTH = 255
RECLAIM = "reclaim"      # in the arguments of a delete that the conductor begins: the time of a soft-deleted server is over
_CHANGES = (("block_device", instances.change_block_device), ("nic", instances.change_nic), ("share", instances.change_share))


def fault(message: str, details: str = "", code: int = 500) -> dict[str, Any]:
    """A fault, in the form of ``instances.fault``."""
    return {"code": code, "message": message[:MESSAGE_LENGTH], "details": details, "created": units.isotime(units.utcnow())}


def is_delete(action: Action) -> bool:
    """True for delete and force delete."""
    return operations.of(action).is_delete


def success(done: operations.Verb, updates: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a server after a success: the states that the table of verbs names, or only an idle task_state."""
    if done.ends_in is None:
        return {"task_state": None, **updates}
    return {"vm_state": done.ends_in, "power_state": done.power_state, "task_state": None, "progress": 0, "fault": None,
            **updates}


def succeed(conn: sa.Connection, action: Action, updates: Mapping[str, Any]) -> None:
    """End an action with success: the server gets the states that the table of verbs names. If a delete has begun meanwhile,
    the server stays as it is."""
    done = operations.of(action)
    if is_delete(action):
        move_completion.deleted(conn, [action.instance_uuid])
        instances.mark_deleted(conn, action.instance_uuid)
        networks.release_ports(conn, action.instance_uuid)
        console_auth_tokens.forget(conn, [action.instance_uuid])
        _close_others(conn, action)
    elif not done.keeps_state:
        values = success(done, updates)
        if done.new_server:
            values |= {"launched_at": units.utcnow(), "personality": None}
            if action.host:
                hosts.reset_failed_builds(conn, action.host)
        close_consoles(conn, [action.instance_uuid], values)
        if _update_unless_taken_over(conn, action, values):     # else the other operation ends the move
            move_completion.succeeded(conn, action)
    actions.finish(conn, [action.id])


def close_consoles(conn: sa.Connection, uuids: Sequence[str], values: Mapping[str, Any]) -> None:
    """Delete the console tokens of servers whose guest stops or moves."""
    if "host" in values or values.get("power_state", states.RUNNING) not in (states.RUNNING, states.POWER_PAUSED):
        console_auth_tokens.forget(conn, uuids)


def fail(conn: sa.Connection, action: Action, message: str, details: str = "",
         updates: Mapping[str, Any] | None = None) -> None:
    """End an action with an error. The server ends in ERROR, or as ``updates`` say, with a fault. A failed build has no room
    and no host: what a dead worker has left of its guest is unexpected there.

    A verb that keeps the server's state changes nothing of the server. A verb that sets the task_state only leaves the server
    idle, or in ERROR when ``updates`` say so. A soft-deleted server whose time is over is deleted again later, when its delete
    reported an error.
    """
    verb = operations.of(action)
    if verb.keeps_state:
        change_device(conn, action, updates or {})
        error = (updates or {}).get("error")
        actions.finish(conn, [action.id], message, {**action.arguments, "error": error} if error else None)
        return
    failure: dict[str, Any] = {} if verb.ends_in is None else {"vm_state": states.ERROR, "fault": fault(message, details)}
    if verb.begins is operations.Begins.CONDUCTOR and not verb.new_server and action.stage == objects.CONDUCTOR \
            and not move_completion.begun_elsewhere(conn, action):
        failure.pop("vm_state", None)       # no host has touched the guest yet
    if updates is None:
        failure |= _as_offloaded(conn, action)
        if has_not_begun(action) or (verb.ends_in is not None and verb.fails_in is None):
            failure.pop("vm_state", None)
            if states.SOFT_DELETED in verb.vm_states:       # a failed restore starts the time until the delete again
                failure["deleted_at"] = units.utcnow()
            actions.add_events(conn, [(action.id, actions.event(f"compute_{verb.event}", action.host, units.utcnow(),
                                                                error=details or message))])
        failure |= move_completion.default_failure(action)
    elif action.arguments.get(RECLAIM) and _is_soft_deleted(conn, action):
        failure.pop("vm_state", None)       # another service was away: a server in ERROR would not be deleted later
    values: dict[str, Any] = {**failure, "task_state": None, **(updates or {})}
    if values.get("vm_state") == states.ERROR:
        values.setdefault("fault", fault(message, details))
    values |= move_completion.failed(conn, action)
    if verb.new_server:
        values = {"host": None, "node": None, **values}
        claims.release(conn, action.instance_uuid)
    if verb.forgets_files:
        values["personality"] = None        # secrets may be among them
    if verb.is_delete:
        instances.update(conn, action.instance_uuid, values)
    else:
        _update_unless_taken_over(conn, action, values)
        left_its_host(conn, [action.instance_uuid], values)
    actions.end_wait(conn, [action], failed=True)
    actions.finish(conn, [action.id], message)


def _is_soft_deleted(conn: sa.Connection, action: Action) -> bool:
    return any(server.vm_state == states.SOFT_DELETED
               for server in instances.get_many(conn, [action.instance_uuid], tags=False).values())


def has_not_begun(action: Action) -> bool:
    """True for an action that no worker of its host has claimed: its server can be left as it was."""
    return operations.of(action).if_host_dies is IfHostDies.FAIL_IF_BEGUN and action.stage == objects.COMPUTE and (
        action.state, action.attempts) == (objects.PENDING, 0)


def guest_may_run(conn: sa.Connection, action: Action) -> bool:
    """Whether the guest of a build or an evacuation may run on the action's host, with disks that other hosts can reach. Then
    no other host may run the guest, whether that host is dead or alive, until the host is declared down or its service is
    deleted."""
    return operations.of(action).if_host_dies is IfHostDies.ANOTHER and action.stage == objects.COMPUTE and (
        action.arguments.get(objects.GUEST_AT) == action.host) and not all(
        service["forced_down"] for service in services.of_hosts(conn, [action.host]))


def left_its_host(conn: sa.Connection, instance_uuids: Sequence[str], values: Mapping[str, Any]) -> None:
    """Release the room and unbind the ports of servers that end without a host: else a host that starts would make packet
    filters for them again. Servers that another operation has given a host meanwhile are left alone."""
    if "host" in values and values["host"] is None:
        found = instances.get_many(conn, instance_uuids, tags=False)
        away = [uuid for uuid, server in found.items() if server.host is None]
        claims.release_many(conn, away)
        networks.unbind_ports(conn, away)


def _as_offloaded(conn: sa.Connection, action: Action) -> dict[str, Any]:
    """The states of a server whose shelve, offload or unshelve had a dead host, which reported nothing. A server that was
    shelved stays shelved, for its image may be the only copy: it can be offloaded or unshelved again. Once the guest of an
    unshelve may have run, the server stays at that host: its volumes are in use there, and its image may be deleted."""
    verb = operations.of(action)
    if verb.if_host_dies is not IfHostDies.STAY_SHELVED or action.stage != objects.COMPUTE:
        return {}
    server = instances.get_many(conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
    if server is None:
        return {}
    may_run = "offloaded" in action.arguments and server.system_metadata.get(UNSHELVED_HOST) == action.host
    if verb.ends_in == states.ACTIVE and (has_unshelved(server) or may_run):
        return {"vm_state": states.ACTIVE, "power_state": states.RUNNING, "system_metadata": without_shelving_keys(server)}
    if "offloaded" in action.arguments:
        instances.forget_connections(conn, action.instance_uuid)
        return {"vm_state": states.SHELVED_OFFLOADED, "host": None, "node": None, "availability_zone": None}
    return {"vm_state": states.SHELVED, "power_state": states.SHUTDOWN} if server.vm_state == states.SHELVED else {}


def change_device(conn: sa.Connection, action: Action, updates: Mapping[str, Any]) -> None:
    """Apply ``updates["block_device"]``, ``["nic"]`` and ``["share"]``: {"id", "values"}; values None removes the device. Also
    write ``system_metadata``. Nothing is done for a server that is deleted."""
    for name, apply in _CHANGES:
        change = updates.get(name)
        if change is not None:
            with contextlib.suppress(exception.InstanceNotFound):
                apply(conn, action.instance_uuid, change["id"], change["values"])
    if "system_metadata" in updates:        # where the guest finds the device: see instances.as_host_says
        instances.update_many(conn, [action.instance_uuid], {"system_metadata": updates["system_metadata"]})


def cancel(conn: sa.Connection, action: Action) -> None:
    """End an action whose server is deleted or was declared idle. The server stays as it is, and keeps its own room."""
    if operations.of(action).new_server:
        found = instances.get_many(conn, [action.instance_uuid], lock=True).get(action.instance_uuid)
        if found is None or found.host is None:     # a server with a host keeps its room there until it is deleted
            claims.release(conn, action.instance_uuid)
    values = move_completion.failed(conn, action)
    if values:
        instances.update_many(conn, [action.instance_uuid], values)
    actions.end_wait(conn, [action], failed=True)
    actions.finish(conn, [action.id], actions.TAKEN_OVER)


def _update_unless_taken_over(conn: sa.Connection, action: Action, values: Mapping[str, Any]) -> bool:
    """False: a delete, or a hard reboot during a soft one, has taken the server over. Its task_state must stay, else that
    action would be dropped.

    An idle server was declared idle by os-resetState: no other operation works on it, so the result is written.
    """
    return bool(instances.update_many(conn, [action.instance_uuid], values, [*operations.of(action).working, None]))


def _close_others(conn: sa.Connection, action: Action) -> None:
    """End the other open actions of a deleted server."""
    others: Sequence[Action] = actions.open_of_instances(conn, [action.instance_uuid]).get(action.instance_uuid, [])
    for other in others:
        if other.id != action.id:
            actions.end_wait(conn, [other], failed=True)
            actions.finish(conn, [other.id], actions.TAKEN_OVER)


def back_to_scheduling(conn: sa.Connection, action: Action, ignore: Sequence[str], lease_seconds: float) -> None:
    """Begin a build again, without its dead host. Raises UnexpectedTaskState when a delete has begun."""
    instances.update(conn, action.instance_uuid, {"host": None, "node": None, "task_state": states.SCHEDULING},
                     expected_task_states=operations.of(action).working, expected_vm_states=[states.BUILDING])
    claims.release(conn, action.instance_uuid)
    instances.forget_connections(conn, action.instance_uuid)
    arguments = {**action.arguments, "ignore_hosts": sorted({*action.arguments.get("ignore_hosts", ()), *ignore}),
                 "alternates": []}
    actions.release(conn, [action.id], lease_seconds, died=True)
    actions.hand_over(conn, [action.id], lease_seconds, objects.CONDUCTOR, arguments=arguments)
