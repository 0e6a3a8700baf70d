"""The conductor's part of an evacuation: it finds another host for a server whose host is down."""
from __future__ import annotations

import dataclasses
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, units
from nova_lite.conductor import move_completion
from nova_lite.conductor.tasks import moving
from nova_lite.conductor.tasks.base import HostsMayReport, Tools, group_of, request_spec
from nova_lite.db import actions, clock, moves, services
from nova_lite.objects import migration as objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.scheduling import Selection

LOG = log.getLogger(__name__)
EVENT = "conductor_rebuild_instance"


def run(tools: Tools, action: Action, instance: Instance) -> None:
    """Find a host and let it build the server. Raises NoValidHost, ComputeServiceInUse when the old host is up again before a
    new one is chosen, or HostsMayReport. Once a new host is chosen, an old host that starts again turns its guest off or
    removes it, so the evacuation has to go on."""
    started = units.utcnow()
    with tools.db.read() as conn:
        _refuse_if_up(conn, tools, action, instance.host or "")
        spec = request_spec(instance, action, group_of(conn, instance.uuid))
    move = moving.begin(tools, action, instance)
    named = action.arguments.get("host")
    there = {"host": named, "node": None, "force": bool(action.arguments.get("force"))} if named else None
    ignored = sorted({instance.host or "", *action.arguments.get("ignore_hosts", ())})
    place = moving.choose(tools, action, instance, dataclasses.replace(
        spec, requested_destination=there, ignore_hosts=ignored))[0]
    tools.db.write(_hand_over, tools, action, move, instance.host or "", place, started)
    LOG.info("is evacuated to %s", place.host, extra={"instance_uuid": instance.uuid})
    tools.wake(action, place.host)


def _refuse_if_up(conn: sa.Connection, tools: Tools, action: Action, host: str) -> None:
    """A host that is up again keeps its guest, unless the evacuation has already named another host."""
    if move_completion.begun_elsewhere(conn, action):
        return
    service = services.get_by_host(conn, host, services.COMPUTE)
    if services.is_up(service, tools.conf.compute.service_down_time, clock.read(conn)):
        raise exception.ComputeServiceInUse(host=host)
    if tools.bus_health.grace() and not service["forced_down"]:
        raise HostsMayReport(f"{host} may be up")


def _hand_over(conn: sa.Connection, tools: Tools, action: Action, move: Migration, old: str, place: Selection,
               started: Any) -> None:
    held = actions.check_held(conn, action.id, tools.leases.owner)
    _refuse_if_up(conn, tools, held, old)       # the old host may be up again by now
    # the one before it may have begun: this one has not, and it may have other disks in common with the old host
    moves.update(conn, move.id, {"dest_compute": place.host, "dest_node": place.node, "status": objects.ACCEPTED})
    actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started))])
    tools.hand_over(conn, dataclasses.replace(action, arguments=held.arguments), place.host, {"zone": place.availability_zone})
