"""How a move begins: its row, and the room of its two hosts.

While a server moves, the room of the new host belongs to the uuid of the server, and the room of the old host to the uuid of
the move (as in Nova). The end of the move releases one of them; ``completion.fail`` does so for a failed move.
"""
from __future__ import annotations

import datetime
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa

from nova_lite import exception, operations, units
from nova_lite.conductor import move_completion
from nova_lite.conductor.tasks.base import HostsMayReport, Tools
from nova_lite.context import RequestContext
from nova_lite.db import actions, claims, moves
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.scheduling import RequestSpec, Selection


def begin(tools: Tools, action: Action, instance: Instance, **values: Any) -> Migration:
    """Write the row of a move, as the table of verbs says. A second run finds the row of the first one, and releases what that
    has claimed at the new host. Raises LeaseLost."""
    row = operations.of(action).move
    assert row is not None
    assert row.type is not None
    return tools.db.write(_begin, tools, action, instance, row.type, row.statuses[0], values)


def _begin(conn: sa.Connection, tools: Tools, action: Action, instance: Instance, migration_type: str, status: str,
           values: dict[str, Any]) -> Migration:
    held = actions.check_held(conn, action.id, tools.leases.owner)
    if "migration_id" in held.arguments:
        action.arguments = held.arguments
        claims.release(conn, instance.uuid)
        return moves.get(conn, held.arguments["migration_id"], lock=True)
    move_completion.end_older(conn, instance, [action.id])
    move = moves.create(conn, instance, migration_type, status, **values)
    claims.rename(conn, instance.uuid, move.uuid)
    action.arguments = {**held.arguments, "migration_id": move.id}
    actions.set_arguments(conn, action.id, action.arguments)
    return move


def choose(tools: Tools, action: Action, instance: Instance, spec: RequestSpec) -> list[Selection]:
    """The host for a server that moves, with its room claimed, and alternates. Raises NoValidHost, HostsMayReport or
    MessagingException. Until the scheduler answers, an open event of the action says that it does not."""
    context, started = RequestContext.from_rpc(action.context or {}), units.utcnow()
    try:
        places = tools.scheduler.select_destinations(context, spec, [instance.uuid])
    except exception.NoValidHost as error:
        _end_wait(tools, action)
        if tools.bus_health.hosts_may_report(started):
            raise HostsMayReport(error.message) from error
        raise
    except messaging.MessagingException:
        tools.db.write(_note_wait, tools, action, started)
        raise
    _end_wait(tools, action)
    if not places.get(instance.uuid):
        raise exception.NoValidHost(reason="the scheduler chose none")
    return places[instance.uuid]


def _end_wait(tools: Tools, action: Action) -> None:
    if action.attempts:
        tools.db.write(actions.end_wait, [action])


def _note_wait(conn: sa.Connection, tools: Tools, action: Action, started: datetime.datetime) -> None:
    if actions.held(conn, [action.id], tools.leases.owner):
        actions.begin_wait(conn, [action.id], tools.conf.host, started, "the scheduler did not answer; it is asked again")
