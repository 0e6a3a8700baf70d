"""The functions of a host for each verb, and the one place that reports how an action ended.

A family of verbs is a module of functions. Each takes a :class:`Work`, does it, and reports success. An exception ends the
action as a failure; ``Functions.settle`` gives the states of the server.
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


def by_its_guest(work: Work) -> dict[str, Any]:
    """The states of a server after an operation on its guest failed: those of the guest, or ERROR without a guest."""
    instance, state = work.instance, work.host.driver.power_state(work.instance)
    vm_state = {states.RUNNING: states.ACTIVE, states.POWER_PAUSED: states.PAUSED,
                states.SHUTDOWN: states.SUSPENDED if instance.vm_state == states.SUSPENDED else states.STOPPED}.get(
        state if state is not None else states.NOSTATE, states.ERROR)
    return {"vm_state": vm_state, "power_state": state or states.NOSTATE, "task_state": None}


def as_the_table_says(work: Work) -> dict[str, Any]:
    """No columns: the table of verbs alone decides about a failure."""
    return {}


@dataclass(frozen=True)
class Functions:
    """``settle`` returns the columns of a server on which the verb failed."""

    carry_out: Callable[[Work], None]
    settle: Callable[[Work], dict[str, Any]] = as_the_table_says


def _family(functions: Mapping[str, Callable[[Work], None]],
            settle: Callable[[Work], dict[str, Any]] = as_the_table_says) -> dict[str, Functions]:
    return {verb: Functions(function, settle) for verb, function in functions.items()}


def _settled(functions: Mapping[str, Callable[[Work], None]],
             settle: Mapping[str, Callable[[Work], dict[str, Any]]]) -> dict[str, Functions]:
    return {verb: Functions(function, settle.get(verb, as_the_table_says)) for verb, function in functions.items()}


FUNCTIONS: dict[str, Functions] = {
    "build": Functions(build.run), "delete": Functions(delete.run), "force_delete": Functions(delete.run),
    "rebuild": Functions(rebuild.run), "evacuate": Functions(evacuate.run),
    "live_migrate": Functions(live_migrate.run, live_migrate.settled),
    **_family(dict.fromkeys(power.VERBS, power.run), by_its_guest),
    **_family(volumes.VERBS), **_family(swap.VERBS), **_family(volume_snapshots.VERBS), **_family(interfaces.VERBS),
    **_family(shares.VERBS, shares.failed), **_family(snapshot.VERBS), **_family(rescue.VERBS),
    **_family(soft_delete.VERBS, soft_delete.settle),
    **_settled(moves.VERBS, moves.SETTLE), **_settled(shelve.VERBS, shelve.SETTLE),
}


def carry_out(host: Host, action: Action, instance: Instance, migration: Migration | None, asked: float) -> None:
    """Work on one action of this host; ``asked`` is when it was claimed (time.monotonic()). Raises Interrupted: the action
    stays open."""
    work = Work(host, RequestContext.from_rpc(action.context or {}), action, instance, migration, asked)
    try:
        _carry_out(work, FUNCTIONS[action.verb])
    except exception.GuestRemains as error:
        LOG.error("%s", error, extra={"instance_uuid": instance.uuid})
        work.wait(error)


def _carry_out(work: Work, functions: Functions) -> None:
    action, extra = work.action, {"instance_uuid": work.instance.uuid}
    try:
        functions.carry_out(work)
    except exception.GuestRemains:
        raise
    except exception.InstanceNotFound as error:
        LOG.info("'%s' ends, the server is gone: %s", action.verb, error, extra=extra)
        work.fail(error, functions.settle(work))
    except Exception as error:
        LOG.error("'%s' failed: %s", action.verb, error, extra=extra, exc_info=needs_stack(error))
        work.fail(error, functions.settle(work))
