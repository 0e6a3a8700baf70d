"""The conductor's part of unshelve: a server that still has a host is started there; any other server gets a host."""
from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, units
from nova_lite.conductor import completion
from nova_lite.conductor.tasks import moving
from nova_lite.conductor.tasks.base import Tools, group_of, request_spec
from nova_lite.db import actions, claims, instances
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.scheduling import Selection

LOG = log.getLogger(__name__)
EVENT = "schedule_instances"


def unshelve(tools: Tools, action: Action, instance: Instance) -> None:
    """Hand the server to a host. Raises NoValidHost; the server stays shelved."""
    if instance.host is not None:
        tools.db.write(tools.hand_over, action, instance.host)
        tools.wake(action, instance.host)
        return
    started = units.utcnow()
    group = tools.db.write(_room_of_an_earlier_run, tools, action, instance)
    wanted = action.arguments.get("destination")
    spec = dataclasses.replace(
        request_spec(instance, action, group),
        requested_destination={"host": wanted, "node": None, "force": False} if wanted else None)
    try:
        place = moving.choose(tools, action, instance, spec)[0]
    except exception.NoValidHost as error:
        tools.db.write(_note, action, actions.event(EVENT, tools.conf.host, started, error=error.message))
        raise
    try:
        tools.db.write(_assign, tools, action, instance, place, started)
    except exception.UnexpectedTaskState as error:
        LOG.info("'unshelve' ends: %s", error, extra={"instance_uuid": instance.uuid})
        tools.db.write(_drop, tools, action)
        return
    tools.wake(action, place.host)


def _room_of_an_earlier_run(conn: sa.Connection, tools: Tools, action: Action, instance: Instance) -> dict[str, Any] | None:
    """Release the room that a conductor which died may have claimed. Returns the server's group."""
    actions.check_held(conn, action.id, tools.leases.owner)
    claims.release(conn, instance.uuid)
    return group_of(conn, instance.uuid)


def _note(conn: sa.Connection, action: Action, event: dict[str, Any]) -> None:
    actions.add_events(conn, [(action.id, event)])


def _assign(conn: sa.Connection, tools: Tools, action: Action, instance: Instance, place: Selection,
            started: datetime.datetime) -> None:
    tools.hand_over(conn, action, place.host, {"offloaded": True})
    instances.update(conn, instance.uuid, {"host": place.host, "node": place.node, "launched_on": place.host,
                                           "availability_zone": place.availability_zone}, [states.UNSHELVING])
    actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started))])


def _drop(conn: sa.Connection, tools: Tools, action: Action) -> None:
    """A delete has begun, or the server was declared idle: release its room."""
    actions.check_held(conn, action.id, tools.leases.owner)
    claims.release(conn, action.instance_uuid)
    completion.cancel(conn, action)
