"""How actions end: what is written to the server and to the action, each in one transaction of the caller."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import units
from nova_lite.compute import states
from nova_lite.db import actions, claims, hosts, instances, networks
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action

MESSAGE_LENGTH = 255


def fault(message: str, details: str = "", code: int = 500) -> dict[str, Any]:
    """A fault as ``instances.fault`` holds it."""
    return {"code": code, "message": message[:MESSAGE_LENGTH], "details": details, "created": units.isotime(units.utcnow())}


def operation(action: Action) -> states.Operation:
    """The row of ``states.OPERATIONS`` that an action carries out."""
    return states.OPERATIONS[action.arguments["verb"]]


def is_delete(action: Action) -> bool:
    """True for delete and force delete."""
    return operation(action).ends_in == states.DELETED


def succeed(conn: sa.Connection, action: Action, updates: Mapping[str, Any]) -> None:
    """The work is done: the server ends where the table says. A delete that came in between keeps the server."""
    done = operation(action)
    if is_delete(action):
        instances.mark_deleted(conn, action.instance_uuid)
        networks.release_ports(conn, action.instance_uuid)
        _close_others(conn, action)
    else:
        values: dict[str, Any] = {"vm_state": done.ends_in, "power_state": done.power_state, "task_state": None, "progress": 0,
                                  "fault": None, **updates}
        if done.verb == "build":
            values |= {"launched_at": units.utcnow(), "personality": None}
            if action.host:
                hosts.reset_failed_builds(conn, action.host)
        _update_unless_deleting(conn, action.instance_uuid, values)
    actions.finish(conn, [action.id], arguments=actions.without_secrets(action.arguments))


def fail(conn: sa.Connection, action: Action, message: str, details: str = "",
         updates: Mapping[str, Any] | None = None) -> None:
    """The work cannot be done: the server ends in ERROR, or where ``updates`` say, with a fault; a build holds no room."""
    values = {"vm_state": states.ERROR, "task_state": None, "fault": fault(message, details), **(updates or {})}
    if is_delete(action):
        instances.update(conn, action.instance_uuid, values)
    else:
        _update_unless_deleting(conn, action.instance_uuid, values)
    if operation(action).verb == "build":
        claims.release(conn, action.instance_uuid)
    actions.finish(conn, [action.id], failed=True, arguments=actions.without_secrets(action.arguments))


def cancel(conn: sa.Connection, action: Action) -> None:
    """A delete made the work pointless: the action ends, the server is the delete's."""
    if operation(action).verb == "build":
        claims.release(conn, action.instance_uuid)
    actions.finish(conn, [action.id], failed=True, arguments=actions.without_secrets(action.arguments))


def _update_unless_deleting(conn: sa.Connection, uuid: str, values: Mapping[str, Any]) -> None:
    instances.update_unless(conn, uuid, values, states.DELETING)


def _close_others(conn: sa.Connection, action: Action) -> None:
    """What else was to be done with a server that is gone."""
    others: Sequence[Action] = actions.open_of_instances(conn, [action.instance_uuid]).get(action.instance_uuid, [])
    actions.finish(conn, [a.id for a in others if a.id != action.id], failed=True)


def back_to_scheduling(conn: sa.Connection, action: Action, ignore: Sequence[str], lease_seconds: float) -> None:
    """A build whose host died starts again, without that host."""
    claims.release(conn, action.instance_uuid)
    instances.update(conn, action.instance_uuid, {"host": None, "node": None, "task_state": states.SCHEDULING},
                     expected_vm_states=[states.BUILDING])
    arguments = {**action.arguments, "ignore_hosts": sorted({*action.arguments.get("ignore_hosts", ()), *ignore}),
                 "alternates": []}
    actions.release(conn, [action.id], lease_seconds, died=True)
    actions.hand_over(conn, [action.id], lease_seconds, objects.CONDUCTOR, arguments=arguments)
