"""The conductor's part of resize and cold migration: it finds a host, and hands the action over. The new host does the work
(``compute/moves.py``): it asks the old host for the disks. The old host keeps all that is needed to undo the move, whatever
happens to either.
"""
from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.conductor.tasks import moving
from nova_lite.conductor.tasks.base import Tools, group_of, request_spec
from nova_lite.db import actions, hosts, instances, moves
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.scheduling import RequestSpec, Selection

LOG = log.getLogger(__name__)
EVENT = "cold_migrate"


def begin(tools: Tools, action: Action, instance: Instance) -> None:
    """Find a host and hand the action over. Raises NoValidHost; the server stays as it is."""
    started = units.utcnow()
    asked = action.arguments.get("flavor")
    flavor = Flavor.from_primitive(asked) if asked else instance.flavor
    facts = {"vm_state": instance.vm_state, "old_zone": instance.availability_zone}
    move = moving.begin(tools, action, instance, new_flavor=flavor, facts=facts)
    spec = _spec(tools, action, instance, flavor)
    try:
        [chosen, *_] = moving.choose(tools, action, instance, spec)
    except exception.NoValidHost as error:
        tools.db.write(_note, tools, action, started, error.message)
        raise
    tools.db.write(_assign, tools, action, instance, move, chosen, started)
    LOG.info("%s: to %s", action.verb, chosen.host, extra={"instance_uuid": instance.uuid})
    tools.wake(action, chosen.host)


def _spec(tools: Tools, action: Action, instance: Instance, flavor: Flavor) -> RequestSpec:
    """A host that the user named at the creation of the server does not limit its moves."""
    with tools.db.read() as conn:
        group = group_of(conn, instance.uuid)
    host = action.arguments.get("host")
    may_stay = operations.of(action).changes_flavor and tools.conf.compute.allow_resize_to_same_host
    wanted = dataclasses.replace(instance, flavor=flavor,
                                 requested_destination={"host": host, "node": None, "force": False} if host else None)
    spec = request_spec(wanted, action, group)
    spec.ignore_hosts = [] if may_stay or not instance.host else [instance.host]
    return spec


def _assign(conn: sa.Connection, tools: Tools, action: Action, instance: Instance, move: Migration, chosen: Selection,
            started: datetime.datetime) -> None:
    tools.hand_over(conn, action, chosen.host)
    # raises UnexpectedTaskState or InstanceNotFound when a delete was faster
    instances.update(conn, instance.uuid, {}, [states.RESIZE_PREP])
    moves.update(conn, move.id, {
        "dest_compute": chosen.host, "dest_node": chosen.node, "dest_host": hosts.address_of(conn, chosen.compute_node_id),
        "facts": {**(move.facts or {}), "zone": chosen.availability_zone}})
    actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started))])


def _note(conn: sa.Connection, tools: Tools, action: Action, started: datetime.datetime, message: str) -> None:
    if actions.held(conn, [action.id], tools.leases.owner):
        actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started, error=message))])
