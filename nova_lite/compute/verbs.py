"""What a host does for each operation: one table, and the one place that tells how an action of it ended.

A family of operations is a module of functions that take a :class:`Work`, do it, and say that it succeeded. What they raise
ends the action: as a failure, with the server where ``Verb.settle`` finds it.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import (
    build,
    delete,
    evacuate,
    interfaces,
    live_migrate,
    moves,
    power,
    rebuild,
    rescue,
    shares,
    shelve,
    snapshot,
    soft_delete,
    swap,
    volume_snapshots,
    volumes,
)
from nova_lite.compute.work import Host, Work, needs_stack
from nova_lite.context import RequestContext
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration

LOG = log.getLogger(__name__)
# the conductor did not answer, or failed itself: nothing is known of the step, so the action stays open and is run again


def by_its_guest(work: Work) -> dict[str, Any]:
    """Where a server is after an operation on its guest failed: what the guest says, ERROR when it has none."""
    instance, state = work.instance, work.host.driver.power_state(work.instance)
    vm_state = {states.RUNNING: states.ACTIVE, states.POWER_PAUSED: states.PAUSED,
                states.SHUTDOWN: states.SUSPENDED if instance.vm_state == states.SUSPENDED else states.STOPPED}.get(
        state if state is not None else states.NOSTATE, states.ERROR)
    return {"vm_state": vm_state, "power_state": state or states.NOSTATE, "task_state": None}


def as_the_table_says(work: Work) -> dict[str, Any]:
    """Nothing but what ``states.OPERATIONS`` makes of a failure."""
    return {}


@dataclass(frozen=True)
class Verb:
    """``event`` is its step in os-instance-actions; ``settle`` answers the columns of a server on which it failed."""

    event: str
    carry_out: Callable[[Work], None]
    settle: Callable[[Work], dict[str, Any]] = as_the_table_says


def _family(events: Mapping[str, str], functions: Mapping[str, Callable[[Work], None]],
            settle: Callable[[Work], dict[str, Any]] = as_the_table_says) -> dict[str, Verb]:
    return {verb: Verb(events[verb], function, settle) for verb, function in functions.items()}


VERBS: dict[str, Verb] = {
    "build": Verb(build.EVENT, build.run),
    "delete": Verb(delete.EVENT, delete.run),
    "force_delete": Verb(delete.EVENT, delete.run),
    **_family(power.EVENTS, dict.fromkeys(power.VERBS, power.run), by_its_guest),
    **_family(volumes.EVENTS, volumes.VERBS),
    **_family(swap.EVENTS, swap.VERBS),
    **_family(volume_snapshots.EVENTS, volume_snapshots.VERBS),
    **_family(shares.EVENTS, shares.VERBS, shares.failed),
    **_family(interfaces.EVENTS, interfaces.VERBS),
    **{verb: Verb(moves.EVENTS[verb], function, moves.SETTLE.get(verb, as_the_table_says))
       for verb, function in moves.VERBS.items()},
    "evacuate": Verb(evacuate.EVENT, evacuate.run),
    "live_migrate": Verb(live_migrate.EVENT, live_migrate.run, live_migrate.settled),
    **_family(snapshot.EVENTS, dict.fromkeys(snapshot.EVENTS, snapshot.run)),
    "snapshot_volumes": Verb(snapshot.EVENTS["createImage"], snapshot.end_of_volumes),
    **_family(rescue.EVENTS, rescue.VERBS),
    **_family(shelve.EVENTS, shelve.VERBS, shelve.settle),
    **_family(soft_delete.EVENTS, soft_delete.VERBS, soft_delete.settle),
    "rebuild": Verb(rebuild.EVENT, rebuild.run),
}

# what copies disks or memory, or has another service or another host do it: it may last for hours
LASTING = frozenset({"resize", "migrate", "live_migrate", "evacuate", "rebuild", "rescue", "shelve", "unshelve", "swap_volume",
                     "snapshot_volumes", *snapshot.EVENTS})


def carry_out(host: Host, action: Action, instance: Instance, migration: Migration | None, asked: float) -> None:
    """Work on one action that this host holds, and ``asked`` for then (time.monotonic()). Raises Interrupted: the action stays
    open."""
    verb = VERBS[action.verb]
    work = Work(host, RequestContext.from_rpc(action.context or {}), action, instance, verb.event, migration, asked)
    try:
        _carry_out(work, verb)
    except exception.GuestRemains as error:
        LOG.error("%s", error, extra={"instance_uuid": instance.uuid})
        work.wait(error)


def _carry_out(work: Work, verb: Verb) -> None:
    action, extra = work.action, {"instance_uuid": work.instance.uuid}
    try:
        verb.carry_out(work)
    except exception.GuestRemains:
        raise
    except exception.InstanceNotFound as error:
        LOG.info("'%s' ends, the server is gone: %s", action.verb, error, extra=extra)
        _fail(work, verb, error)
    except Exception as error:
        LOG.error("'%s' failed: %s", action.verb, error, extra=extra, exc_info=needs_stack(error))
        _fail(work, verb, error)


def _fail(work: Work, verb: Verb, error: Exception) -> None:
    work.fail(error, verb.settle(work))
