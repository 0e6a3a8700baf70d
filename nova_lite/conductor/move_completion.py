"""How moves end: the status of the move, and which of the two hosts keeps the room. Each function runs in a transaction of its
caller.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from nova_lite import operations
from nova_lite.db import actions, claims, instances, moves
from nova_lite.objects import action as action_objects
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.operations import steps


def succeeded(conn: sa.Connection, action: Action) -> None:
    """Record the success of an action that belongs to a move. A soft delete also confirms a cold move that waits for its user,
    since the user cannot do so any more."""
    if operations.of(action).ends_waiting_move:
        for server in instances.get_many(conn, [action.instance_uuid], tags=False).values():
            end_waiting(conn, server)
    row = operations.of(action).move
    if row is None or "migration_id" not in action.arguments:
        return
    move = moves.get(conn, action.arguments["migration_id"], lock=True)
    if move.has_ended:
        return
    if row.to_source:
        _back(conn, move)
    elif row.succeeds_as in objects.ENDED:
        claims.release(conn, move.uuid)
    moves.update(conn, move.id, {"status": row.succeeds_as})


def failed(conn: sa.Connection, action: Action) -> dict[str, Any]:
    """Record the failure of an action that belongs to a move. Returns the columns of the server that get their old values
    again."""
    verb, server = operations.of(action), instances.get_many(conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
    if "migration_id" not in action.arguments or verb.move is None:     # a resize that failed before its move was written
        return room_of(server) if server is not None and verb.changes_flavor else {}
    move = moves.get(conn, action.arguments["migration_id"], lock=True)
    if move.has_ended:
        return {}
    is_back = server is not None and server.host == move.source_compute
    if verb.settles_move and not (verb.move.to_source and is_back and _has_left(action)):
        moves.update(conn, move.id, {"status": objects.FINISHED})
        if server is not None and server.vm_state != states.RESIZED:    # by os-resetState: the user cannot confirm or revert
            end_waiting(conn, server, [action.id])
        return room_of(server) if server is not None else {}
    if server is not None and _may_run_there(action, server, move):
        return _as_moved(server, move)
    if is_back:
        _back(conn, move)
    else:
        claims.release(conn, move.uuid)
    fails_as = verb.move.fails_as if action.stage == action_objects.COMPUTE else objects.ERROR
    moves.update(conn, move.id, {"status": action.arguments.get("ends_as", fails_as)})
    return room_of(server) if server is not None else {}


def superseded(conn: sa.Connection, server: Instance) -> None:
    """The server is to be built on another host: end its open moves, and keep only the server's own room. The hosts of the
    moves remove what they have of the server by themselves."""
    for move in moves.open_of(conn, [server.uuid]):
        if server.host == move.source_compute:
            _back(conn, move)
        else:
            claims.release(conn, move.uuid)
        moves.update(conn, move.id, {"status": objects.ERROR})


def begun_elsewhere(conn: sa.Connection, action: Action) -> bool:
    """Whether an action is an evacuation that has chosen its new host: then the guest of the old host must not run when that
    host is back."""
    return operations.of(action).guest is operations.Guest.RETURNS and "migration_id" in action.arguments and moves.get(
        conn, action.arguments["migration_id"]).dest_compute is not None


def deleted(conn: sa.Connection, instance_uuids: Collection[str]) -> set[str]:
    """End the moves of deleted servers. Returns the hosts that may have files of them; the delete itself releases the room."""
    found = moves.open_of(conn, instance_uuids, or_broken_off=True)
    for move in found:
        if not move.has_ended:
            was_settled = move.status in (objects.FINISHED, objects.CONFIRMING)
            moves.update(conn, move.id, {"status": objects.CONFIRMED if was_settled else objects.ERROR})
    return {host for move in found for host in (move.source_compute, move.dest_compute) if host}


def is_reverting(conn: sa.Connection, action: Action) -> bool:
    """Whether a revert of the action's move has begun at any time, so that the guest may have left the new host."""
    return moves.get(conn, action.arguments["migration_id"]).reverting


def default_failure(action: Action) -> dict[str, Any]:
    """The vm_state of a server whose confirm or revert failed without a report: it waits for its user's decision again. Empty
    for others, which end in ERROR."""
    verb = operations.of(action)
    return {"vm_state": verb.fails_in} if verb.settles_move and not _has_left(action) else {}


def end_waiting(conn: sa.Connection, server: Instance, besides: Collection[int] = ()) -> None:
    """The user can no longer confirm or revert the server's moves: treat them as confirmed. The old host removes what it has
    set aside at its next comparison. A move stays when an open action (except ``besides``) works on it, or when its revert has
    begun."""
    for move in _idle(conn, server, besides):
        if move.status == objects.FINISHED:
            claims.release(conn, move.uuid)
            moves.update(conn, move.id, {"status": objects.CONFIRMED})
            instances.update(conn, server.uuid, room_of(server))


def end_older(conn: sa.Connection, server: Instance, besides: Collection[int]) -> None:
    """The server is about to move again: end its older moves and release their room."""
    for move in _idle(conn, server, besides):
        if move.status != objects.FINISHED and server.host == move.source_compute:
            _back(conn, move)
        else:
            claims.release(conn, move.uuid)
        moves.update(conn, move.id, {"status": objects.CONFIRMED if move.status == objects.FINISHED else objects.ERROR})


def _idle(conn: sa.Connection, server: Instance, besides: Collection[int]) -> list[Migration]:
    """The open moves of a server that have no open action except those of ``besides``."""
    open_actions = actions.open_of_instances(conn, [server.uuid]).get(server.uuid, [])
    busy = {a.arguments.get("migration_id") for a in open_actions if a.id not in besides}
    return [move for move in moves.open_of(conn, [server.uuid]) if move.id not in busy and not move.reverting]


def step_of(action: Action, server: Instance, move: Migration) -> operations.Step | None:
    """The step of a move."""
    return operations.position(operations.of(action).steps, action.step, server.task_state, move.status)


def _may_run_there(action: Action, server: Instance, move: Migration) -> bool:
    """Whether the new host of a failed resize or cold migration may run the guest. Then the server stays there, as after a
    success."""
    step = step_of(action, server, move)
    return operations.of(action).is_cold_move and step is not None and step.guest is operations.GuestAt.DESTINATION


def _as_moved(server: Instance, move: Migration) -> dict[str, Any]:
    """The columns of a server that is at the new host of its move. The move stays open and keeps the old room: the old disks
    are needed if there is no guest at the new host."""
    flavor = move.new_flavor or server.flavor
    return {"host": move.dest_compute, "node": move.dest_node, "launched_on": move.dest_compute,
            "availability_zone": (move.facts or {}).get("zone") or server.availability_zone,
            "flavor": flavor.to_primitive(), "flavor_ref": flavor.flavorid, "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb}


def give_back(conn: sa.Connection, action: Action, reason: str, lease_seconds: float) -> str | None:
    """Hand the action of a resize or cold migration over to the old host, which brings its guest back. Returns that host. None:
    the verb is another one, the old host already has the action, or only the new host may run the guest."""
    if not operations.of(action).is_cold_move or action.stage != action_objects.COMPUTE:
        return None
    server = instances.get(conn, action.instance_uuid)
    move = moves.get(conn, action.arguments["migration_id"], lock=True)
    step = step_of(action, server, move)
    if move.source_compute == action.host or step is None or step.partner_goes_on_at is None:
        return None
    actions.hand_over(conn, [action.id], lease_seconds, action_objects.COMPUTE, move.source_compute,
                      {**action.arguments, steps.UNDO_REASON: reason}, step.partner_goes_on_at)
    action.host = move.source_compute
    return move.source_compute


def confirmed(server: Instance) -> dict[str, Any]:
    """The columns of a server whose move was confirmed."""
    off = server.power_state == states.SHUTDOWN
    return {"vm_state": states.STOPPED if off else states.ACTIVE, "power_state": server.power_state, **room_of(server)}


def room_of(server: Instance) -> dict[str, Any]:
    """The columns that quotas count, by the server's flavor. During a resize to a larger flavor they have the larger values."""
    return {"vcpus": server.flavor.vcpus, "memory_mb": server.flavor.memory_mb}


def _back(conn: sa.Connection, move: Migration) -> None:
    claims.release(conn, move.instance_uuid)
    claims.rename(conn, move.uuid, move.instance_uuid)


def _has_left(action: Action) -> bool:
    return action.step == steps.RETURN
