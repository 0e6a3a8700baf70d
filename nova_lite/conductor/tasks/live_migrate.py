"""The conductor's part of a live migration: it finds a host that accepts the guest, and decides which host continues when one
dies.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.conductor.tasks import moving
from nova_lite.conductor.tasks.base import HostsMayReport, Tools, group_of, request_spec
from nova_lite.context import RequestContext
from nova_lite.db import actions, claims, clock, moves, services
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.guest_moves import Plan, SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.scheduling import Selection

LOG = log.getLogger(__name__)
EVENT = "conductor_live_migrate_instance"
MAX_HOSTS = 10      # that are asked, one after the other, when none was named


def run(tools: Tools, action: Action, instance: Instance) -> None:
    """Find a host that accepts the guest, and let it prepare. Raises NoValidHost, or the refusal of a host that the user
    named."""
    started = units.utcnow()
    try:
        _check_guest(instance)
        source = _check_up(tools, instance.host or "")
        move = moving.begin(tools, action, instance)
        context = RequestContext.from_rpc(action.context or {})
        facts = tools.compute.live_migration_facts(context, source, instance.uuid)
        try:
            place, plan = _place(tools, action, instance, facts)
        except exception.NovaLiteError:
            tools.compute.live_migration_refused(context, source, instance.uuid, facts)
            raise
    except exception.NovaLiteError as error:
        tools.db.write(_note, tools, action, started, error)
        raise
    tools.db.write(_hand_over, tools, action, move, place, plan, started)
    LOG.info("goes from %s to %s", source, place.host, extra={"instance_uuid": instance.uuid})
    tools.wake(action, place.host)


def _check_guest(instance: Instance) -> None:
    if instance.power_state not in (states.RUNNING, states.POWER_PAUSED):
        raise exception.InstanceInvalidState(action="live_migrate", instance_id=instance.uuid, attr="power_state",
                                             state=states.POWER_NAMES.get(instance.power_state, instance.power_state))


def _check_up(tools: Tools, host: str) -> str:
    with tools.db.read() as conn:
        found, now = services.get_by_host(conn, host, services.COMPUTE), clock.read(conn)
    if not services.is_up(found, tools.conf.compute.service_down_time, now):
        if tools.bus_health.grace() and not found["forced_down"]:
            raise HostsMayReport(f"{host} may be up")
        raise exception.ComputeServiceUnavailable(host=host)
    return host


@dataclasses.dataclass
class _Refusals:
    """The refusals of the hosts that were asked."""

    errors: dict[str, exception.NovaLiteError] = dataclasses.field(default_factory=dict)

    def all(self) -> exception.MigrationPreCheckError:
        """All refusals as one error. Only the text for operators names the hosts."""
        public = exception.MigrationPreCheckError(reason="; ".join(dict.fromkeys(e.public for e in self.errors.values())))
        return exception.MigrationPreCheckError(
            reason="; ".join(f"{host}: {error.message}" for host, error in self.errors.items()), public=public.message)


def _place(tools: Tools, action: Action, instance: Instance, facts: SourceFacts) -> tuple[Selection, Plan]:
    """The first host of the scheduler that does not refuse. A host that the user named is the only candidate."""
    named, ignored, refused = action.arguments.get("host"), [instance.host or ""], _Refusals()
    with tools.db.read() as conn:
        spec = request_spec(instance, action, group_of(conn, instance.uuid))
    if named:
        _check_up(tools, named)
        there = {"host": named, "node": None, "force": bool(action.arguments.get("force"))}
        place = moving.choose(tools, action, instance, dataclasses.replace(spec, requested_destination=there))[0]
        return place, _ask(tools, action, instance, place.host, facts)
    spec = dataclasses.replace(spec, requested_destination=None)
    while True:
        try:
            place = moving.choose(tools, action, instance, dataclasses.replace(spec, ignore_hosts=ignored))[0]
        except exception.NoValidHost as error:
            if not refused.errors:
                raise
            raise refused.all() from error
        try:
            return place, _ask(tools, action, instance, place.host, facts)
        except (exception.Invalid, exception.VirtDriverError) as error:     # the latter: its hypervisor does not answer
            LOG.info("%s refuses: %s", place.host, error, extra={"instance_uuid": instance.uuid})
            refused.errors[place.host] = error
            ignored.append(place.host)
            tools.db.write(_give_back, tools, action)
            if len(refused.errors) >= MAX_HOSTS:
                raise refused.all() from error


def _ask(tools: Tools, action: Action, instance: Instance, host: str, facts: SourceFacts) -> Plan:
    context = RequestContext.from_rpc(action.context or {})
    return tools.compute.check_live_migration(context, host, instance.uuid, facts, action.arguments.get("block_migration"),
                                              action.arguments.get("disk_over_commit") is not False)


def _give_back(conn: sa.Connection, tools: Tools, action: Action) -> None:
    actions.check_held(conn, action.id, tools.leases.owner)
    claims.release(conn, action.instance_uuid)


def _note(conn: sa.Connection, tools: Tools, action: Action, started: Any, error: exception.NovaLiteError) -> None:
    """For a request that waits for the checks, and for os-instance-actions."""
    held = actions.check_held(conn, action.id, tools.leases.owner)
    actions.set_arguments(conn, action.id, {**held.arguments, "error": error.message, "error_code": error.code})
    actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started, error=error.message))])


def _hand_over(conn: sa.Connection, tools: Tools, action: Action, move: Migration, place: Selection, plan: Plan,
               started: Any) -> None:
    held = actions.check_held(conn, action.id, tools.leases.owner)
    moves.update(conn, move.id, {"dest_compute": place.host, "dest_node": place.node, "dest_host": plan.address,
                                 "status": objects.QUEUED, "facts": {"plan": plan.to_primitive()}})
    actions.add_events(conn, [(action.id, actions.event(EVENT, tools.conf.host, started))])
    tools.hand_over(conn, dataclasses.replace(action, arguments=held.arguments), place.host,
                    {"zone": place.availability_zone}, "prepare")


# the death of a host ------------------------------------------------------------------------------------------------------
def partner(conn: sa.Connection, action: Action) -> str | None:
    """The other host of a move whose action is at a dead one."""
    move = moves.get(conn, action.arguments["migration_id"])
    return move.source_compute if action.host == move.dest_compute else move.dest_compute


def after_death(action: Action, alive: Collection[str], other: str | None,
                given_up: bool) -> tuple[str, str, dict[str, Any]] | None:
    """The host that continues when ``action.host`` is dead, at which step, and the arguments that it gets. None: only the dead
    host can continue. ``given_up``: the dead host was declared down, or has been silent for REST_SECONDS."""
    step = operations.named(operations.of(action).steps, action.step)
    if other is None or other not in alive or step is None or step.partner_goes_on_at is None \
            or (step.only_when_given_up and not given_up):
        return None
    noted: dict[str, Any] = {}
    if step.only_when_given_up:
        noted[objects.LOST] = ("the guest had gone on at its new host before all of it was there, and the old one, which has "
                               "the rest, does not come back")
    elif step.guest is operations.GuestAt.SOURCE:       # the move has failed
        noted["error"] = action.arguments.get("error") or exception.HostDown(
            host=action.host, operation=action.action).public
    return other, step.partner_goes_on_at, noted
