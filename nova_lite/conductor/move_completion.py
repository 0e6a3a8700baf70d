"""How moves end: the status of the move, and which of the two places keeps its room. In the transaction of the caller."""
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
    """An action that belongs to a move did what it had to. What is no such action needs nothing, but that a soft delete is the
    user's word for a move that waited for it: nobody could say it any more."""
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
    """An action that belongs to a move failed, for good. Answers the columns that go back to what they were."""
    verb, server = operations.of(action), instances.get_many(conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
    if "migration_id" not in action.arguments or verb.move is None:     # a resize that was given up before there was a move
        return room_of(server) if server is not None and verb.changes_flavor else {}
    move = moves.get(conn, action.arguments["migration_id"], lock=True)
    if move.has_ended:
        return {}
    is_back = server is not None and server.host == move.source_compute
    if verb.settles_move and not (verb.move.to_source and is_back and _has_left(action)):
        moves.update(conn, move.id, {"status": objects.FINISHED})
        if server is not None and server.vm_state != states.RESIZED:    # by os-resetState: nobody can speak about it any more
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
    """A server is to be built anew elsewhere: what is left of its moves is over, and only its own place holds room. What their
    hosts still have of it they find unwanted."""
    for move in moves.open_of(conn, [server.uuid]):
        if server.host == move.source_compute:
            _back(conn, move)
        else:
            claims.release(conn, move.uuid)
        moves.update(conn, move.id, {"status": objects.ERROR})


def begun_elsewhere(conn: sa.Connection, action: Action) -> bool:
    """Whether an action is an evacuation that has named its new host: the old one's guest must not run when it is back."""
    return operations.of(action).guest is operations.Guest.RETURNS and "migration_id" in action.arguments and moves.get(
        conn, action.arguments["migration_id"]).dest_compute is not None


def deleted(conn: sa.Connection, instance_uuids: Collection[str]) -> set[str]:
    """Servers are deleted, on their way or before their move was confirmed. Answers the hosts that may have something of them;
    the room is given back by the delete itself."""
    found = moves.open_of(conn, instance_uuids, or_broken_off=True)
    for move in found:
        if not move.has_ended:
            was_settled = move.status in (objects.FINISHED, objects.CONFIRMING)
            moves.update(conn, move.id, {"status": objects.CONFIRMED if was_settled else objects.ERROR})
    return {host for move in found for host in (move.source_compute, move.dest_compute) if host}


def is_reverting(conn: sa.Connection, action: Action) -> bool:
    """Whether a revert of the action's move has begun once, so that the guest may be gone from where it went."""
    return moves.get(conn, action.arguments["migration_id"]).reverting


def default_failure(action: Action) -> dict[str, Any]:
    """The columns of a server on which nobody could go on, where that is not ERROR: it waits for its user's word again."""
    verb = operations.of(action)
    return {"vm_state": verb.fails_in} if verb.settles_move and not _has_left(action) else {}


def end_waiting(conn: sa.Connection, server: Instance, besides: Collection[int] = ()) -> None:
    """No user can speak about the move of a server any more: as if it had been confirmed, and what the old host keeps it finds
    unwanted at its next look. One that an open action (but for ``besides``) works on goes on; one whose revert has begun keeps
    all that may be left of the guest."""
    for move in _idle(conn, server, besides):
        if move.status == objects.FINISHED:
            claims.release(conn, move.uuid)
            moves.update(conn, move.id, {"status": objects.CONFIRMED})
            instances.update(conn, server.uuid, room_of(server))


def end_older(conn: sa.Connection, server: Instance, besides: Collection[int]) -> None:
    """The server is about to move again: nothing goes on with its older moves, and they hold no room."""
    for move in _idle(conn, server, besides):
        if move.status != objects.FINISHED and server.host == move.source_compute:
            _back(conn, move)
        else:
            claims.release(conn, move.uuid)
        moves.update(conn, move.id, {"status": objects.CONFIRMED if move.status == objects.FINISHED else objects.ERROR})


def _idle(conn: sa.Connection, server: Instance, besides: Collection[int]) -> list[Migration]:
    """The open moves of a server on which no action works but these."""
    open_actions = actions.open_of_instances(conn, [server.uuid]).get(server.uuid, [])
    busy = {a.arguments.get("migration_id") for a in open_actions if a.id not in besides}
    return [move for move in moves.open_of(conn, [server.uuid]) if move.id not in busy and not move.reverting]


def step_of(action: Action, server: Instance, move: Migration) -> operations.Step | None:
    """How far a move has come."""
    return operations.position(operations.of(action).steps, action.step, server.task_state, move.status)


def _may_run_there(action: Action, server: Instance, move: Migration) -> bool:
    """Whether the new host of a resize or migration that failed may run the guest: then nobody else may, as after a success."""
    step = step_of(action, server, move)
    return operations.of(action).is_cold_move and step is not None and step.guest is operations.GuestAt.DESTINATION


def _as_moved(server: Instance, move: Migration) -> dict[str, Any]:
    """The columns of a server that is where it went. Its move stays open, with the old room: what the old host keeps is needed,
    should there be no guest."""
    flavor = move.new_flavor or server.flavor
    return {"host": move.dest_compute, "node": move.dest_node, "launched_on": move.dest_compute,
            "availability_zone": (move.facts or {}).get("zone") or server.availability_zone,
            "flavor": flavor.to_primitive(), "flavor_ref": flavor.flavorid, "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb}


def give_back(conn: sa.Connection, action: Action, reason: str, lease_seconds: float) -> str | None:
    """The new host of a resize or migration cannot go on: the old one, which has the action now and brings its guest back.
    None: it is no such action, the old host has it already, or only the new one may run the guest by now."""
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
    """The columns that quotas count, as the server's flavor says: while it grows they count what it will be."""
    return {"vcpus": server.flavor.vcpus, "memory_mb": server.flavor.memory_mb}


def _back(conn: sa.Connection, move: Migration) -> None:
    claims.release(conn, move.instance_uuid)
    claims.rename(conn, move.uuid, move.instance_uuid)


def _has_left(action: Action) -> bool:
    return action.step == steps.RETURN
