"""Live migration on both hosts. The action goes from one host to the other; ``Action.step`` names the next step: a row of
``operations/steps.py``. ``docs/operations.md`` describes each step.

Each step asks the hypervisor where the guest is before it does anything. So it can be run again after a kill at any point.
"""
from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import guest_removal, volumes
from nova_lite.compute.work import Work, ignore_conductor_outage, needs_stack, retry_until_available
from nova_lite.context import admin_context
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.guest_moves import DiskOffer, Plan, Progress
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.network import VIF
from nova_lite.rpc.conductor import HOST_RETURNS
from nova_lite.virt.driver import Fetcher
from nova_lite.virt.live import ABORT, BROKEN, WHOLE, Report

LOG = log.getLogger(__name__)
_HALF_IS_LOST = "the guest had gone on at its new host before all of it was there, and the old one has lost the rest"
_REST = "something of the guest stays here for now"
_WAIT_SECONDS = 1.0
_CLEAN_UP = "clean-up after a live migration did not end well"
_ROLLBACK_SECONDS = 60.0        # that libvirt may take to see that nothing comes any more


def run(work: Work) -> None:
    """Do the next step. An exception ends the move; :func:`settle` gives the state of the server."""
    step = work.action.step or ""
    LOG.info("live migration: %s", step, extra={"instance_uuid": work.instance.uuid})
    STEPS[step](work)


def settled(work: Work) -> dict[str, object]:
    """The columns of a server whose move has failed: its guest was touched only once it had left."""
    state, step = work.host.driver.power_state(work.instance), work.action.step
    if step in ("finish", "settle") and state is None or step == "finish" and state == states.SHUTDOWN:
        return {"vm_state": states.ERROR, "power_state": state or states.NOSTATE}
    return {}


# the destination ----------------------------------------------------------------------------------------------------------
def _prepare(work: Work) -> None:
    work.event = "compute_pre_live_migration"
    host, plan = work.host, _plan(work)
    if host.driver.live.has_come(work.instance):        # meanwhile
        work.hand_over("copy", {"has_come": True})
        return
    if host.driver.live.post_copy(work.instance) != WHOLE:
        _keep_post_copy_guest(work)
        return
    try:
        _prepare_unless_aborted(work)
        with host.events.listen(work.instance.uuid) as listener:
            server, plan = _made_ready(work, plan)
            listener.wait_at_destination(work.instance, plan.waits_for,
                                         ignore_conductor_outage(lambda: _prepare_unless_aborted(work)),
                                         lambda: _wire_again(work, server))
    except Exception as error:
        LOG.error("this host cannot take the guest: %s", error, extra={"instance_uuid": work.instance.uuid},
                  exc_info=needs_stack(error))
        _clean(work)
        _to_settle(work, error, objects.CANCELLED if isinstance(error, exception.LiveMigrationAborted) else objects.ERROR)
        return
    facts = {"plan": plan.to_primitive(), "network_info": [v.to_primitive() for v in server.network_info],
             "block_devices": [d.to_primitive() for d in server.block_devices],
             "left": {"network_info": [v.to_primitive() for v in work.instance.network_info],
                      "block_devices": [d.to_primitive() for d in work.instance.block_devices]}}
    work.update_migration({"facts": facts})
    work.hand_over("copy", {"has_come": False})


def _made_ready(work: Work, plan: Plan) -> tuple[Instance, Plan]:
    """Ports, volumes, files and nics of the server on this host; the server as it is here, and the plan with its devices."""
    host = work.host
    server = _as_here(work, host.network.expect(admin_context(), work.instance, host.name),
                      volumes.connect_elsewhere(host, work.instance, _written_devices(_move(work))))
    _announce(work)
    for vif in server.network_info:
        host.network.plug(server, vif)
    told = work.ask_other_host("offer_for_live_migration", HOST_RETURNS)
    offer = DiskOffer.from_primitive(told) if told is not None else None
    return server, host.driver.live.prepare(server, server.network_info, plan, offer, _fetcher(work),
                                            ignore_conductor_outage(lambda: _prepare_unless_aborted(work)))


def _announce(work: Work) -> None:
    work.host.network.announce(admin_context(), work.instance, work.host.name)


def _wire_again(work: Work, server: Instance) -> None:
    """Make the nics anew, because nobody has said that they are wired. On Open vSwitch, the agent of a host that a guest has
    just left removes the nic of that guest late; this may be the new nic, which has the same name. On OVN, an earlier run of
    this step may have used up the message."""
    work.host.driver.live.wire(server, server.network_info)
    _announce(work)


def _finish(work: Work) -> None:
    work.event = "compute_post_live_migration_at_destination"
    host, instance = work.host, work.instance
    instance.network_info = retry_until_available(work, lambda: host.network.move(admin_context(), instance, host.name))
    for vif in instance.network_info:
        host.network.plug(instance, vif)
    state = _arrive(work)
    retry_until_available(work, lambda: volumes.complete_all(work))
    retry_until_available(work, lambda: volumes.release_others(host, instance))
    work.succeed({"power_state": state, "network_info": [v.to_primitive() for v in instance.network_info],
                  **volumes.columns(instance)})
    LOG.info("has arrived", extra={"instance_uuid": instance.uuid})


def _arrive(work: Work) -> int:
    """The guest is this host's. What it is said to have lost may have come all the same."""
    try:
        return work.host.driver.live.arrive(work.instance, work.instance.network_info, _plan(work))
    except exception.VirtDriverError as error:
        if objects.LOST in work.action.arguments:
            raise exception.MigrationError(reason=work.action.arguments[objects.LOST]) from error
        raise


def _undo(work: Work) -> None:
    work.event = "compute_rollback_live_migration_at_destination"
    live, move = work.host.driver.live, _move(work)
    # whatever the source stumbled over: this cannot be undone, and the disks of what was half a guest are here
    if live.post_copy(work.instance) != WHOLE or (move.went_on and not live.has_come(work.instance)):
        work.hand_over("mend")
        return
    if _has_arrived(work, time.monotonic() + _ROLLBACK_SECONDS):
        _now_here(work, "left")
        return
    _clean(work)
    work.hand_over("settle")


def _has_arrived(work: Work, deadline: float) -> bool:
    """Whether the guest runs here after all, though its source says that it does not."""
    def wait() -> None:
        if time.monotonic() > deadline:
            raise TimeoutError
        _wait(work)

    try:
        return work.host.driver.live.wait(work.instance, wait)
    except TimeoutError:
        return False


def _lost(work: Work) -> None:
    """The source is dead. If the guest is not here, it may run there when the source comes back, and only the source can clean
    up after the copy. So the source gets the action, which waits for it. The same applies when one half of the guest is here
    and the other there."""
    work.event = "compute_post_live_migration_at_destination"
    came, source = _has_switched(work), _move(work).source_compute
    try:
        if not came:
            _check_not_broken(work)
            came = work.host.driver.live.wait(work.instance, lambda: _wait_unless_broken(work))
    except _Broken:
        LOG.warning("half of the guest is here, the other half at %s, which does not answer", source,
                    extra={"instance_uuid": work.instance.uuid})
        work.hand_over("mend")
        return
    if came or _move(work).went_on:     # else it is lost, but for the disks that are here
        _now_here(work, "finish")
        return
    _clean(work)
    _to_settle(work, exception.HostDown(host=_move(work).source_compute, operation="live migration"), objects.ERROR)


def _alone(work: Work) -> None:
    _now_here(work, "finish")


def _keep_post_copy_guest(work: Work) -> None:
    """The source asks for the guest again, but the guest runs here: the source lost power before the switch was recorded, and
    with it its half of the memory. The disks that the guest has written since are here."""
    move = _move(work)
    work.update_migration({"facts": {**(move.facts or {}), objects.WENT_ON: True}})
    try:
        _check_not_broken(work)
        work.host.driver.live.wait(work.instance, lambda: _wait_unless_broken(work))
    except _Broken:
        LOG.error("%s has lost its half of the guest", move.source_compute, extra={"instance_uuid": work.instance.uuid})
    _switch(work)
    work.hand_over("finish", {objects.LOST: _HALF_IS_LOST})


class _Broken(Exception):
    """Only the source can bring the rest of the guest."""


def _check_not_broken(work: Work) -> None:
    if work.host.driver.live.post_copy(work.instance) == BROKEN:
        raise _Broken


def _wait_unless_broken(work: Work) -> None:
    _check_not_broken(work)
    _wait(work)


def _clean(work: Work) -> None:
    """Nothing of the guest stays here. What cannot be removed now is found when the daemon starts."""
    host, server = work.host, _as_here(work, None, None)
    guest_removal.remove(host, server, lambda: host.driver.live.give_up(server, server.network_info, _plan(work)),
                         attempt=partial(_try, work, _CLEAN_UP))
    _try(work, _CLEAN_UP, lambda: host.network.forget(admin_context(), work.instance, host.name))
    _try(work, _CLEAN_UP, lambda: volumes.release_others(host, work.instance))


# the source ---------------------------------------------------------------------------------------------------------------
def _copy(work: Work) -> None:
    host = work.host
    if _has_switched(work):
        _leave(work)
        return
    # what the destination has already it does not prepare again: the two would send each other to and fro
    is_whole = host.driver.live.post_copy(work.instance) == WHOLE
    if is_whole and work.action.step == "mend" and host.driver.power_state(work.instance) == states.SHUTDOWN:
        # the destination has a half: this host lost its power, and its own half, before the switch was written down
        _switch(work)
        _leave(work, _HALF_IS_LOST)
        return
    if is_whole and host.driver.live.has_begun(work.instance) and not work.action.arguments.get("has_come"):
        work.hand_over("prepare")
        host.driver.live.begin_anew(work.instance)      # after it: who dies in between only has it prepared once more
        return
    lost = None
    try:
        with host.driver.live.slot(work.instance, lambda: _wait_for_slot(work)):
            _refuse_at_stop(work)
            wanted = work.update_migration({"status": objects.RUNNING})
            if host.driver.live.post_copy(work.instance) == WHOLE:
                _refuse_if_aborted(work, wanted)
            lost = host.driver.live.copy(work.instance, _plan(work), _reporter(work), lambda: _waits(work))
    except Exception as error:
        LOG.error("the guest stays: %s", error, extra={"instance_uuid": work.instance.uuid}, exc_info=needs_stack(error))
        aborted = isinstance(error, exception.LiveMigrationAborted)
        work.hand_over("undo", {
            "error": exception.public_of(error), "ends_as": objects.CANCELLED if aborted else objects.FAILED})
        return
    _switch(work)
    _leave(work, lost)


def _refuse_at_stop(work: Work) -> None:
    if work.host.stopping.is_set():
        raise exception.Stopping()


def _wait_for_slot(work: Work) -> None:
    _refuse_at_stop(work)
    ignore_conductor_outage(lambda: _refuse_if_aborted(work, work.update_migration({"status": objects.QUEUED})))()


def _has_switched(work: Work) -> bool:
    return work.instance.host == _move(work).dest_compute


def _switch(work: Work) -> None:
    """The guest has left: record that first, so that a later failure does not look for the guest here. os-resetState, or
    another operation on the server, does not change where the guest is; a delete searches both hosts. Raises LeaseLost,
    InstanceNotFound, or UnexpectedTaskState for a delete."""
    place = _place(work)
    try:
        work.update(place, [*work.verb.working, None])
    except exception.UnexpectedTaskState:
        now = Instance.from_primitive(work.host.conductor.get_instance(admin_context(), work.instance.uuid)).task_state
        if now == states.DELETING:
            raise
        work.update(place, [now])


def _leave(work: Work, lost: str | None = None) -> None:
    """Remove the guest from this host. What fails is found by the next comparison of guests and servers. ``lost``: why the
    other half will not get the rest."""
    host, here = work.host, _as_left(work)
    guest_removal.remove(host, here, partial(_end_here, work, here), attempt=partial(_try, work, _REST))
    work.hand_over("finish", {objects.LOST: lost} if lost else {})


def _end_here(work: Work, here: Instance) -> None:
    """Forget the guest, then move its ports. The taps go first: while this host has a tap, the controllers of OVN may hand the
    port over without a report, and Neutron shows the port as DOWN from then on."""
    host = work.host
    _try(work, _REST, lambda: host.driver.live.leave(here, here.network_info, _plan(work)))
    _try(work, "its ports do not follow yet",       # the destination does it again
         lambda: host.network.move(admin_context(), work.instance, _move(work).dest_compute or ""))


def _try(work: Work, what: str, function: Callable[[], object]) -> None:
    """Clean up behind a guest that has gone: an error is logged, and the rest is done."""
    try:
        function()
    except Exception as error:
        LOG.error("%s: %s", what, error, extra={"instance_uuid": work.instance.uuid}, exc_info=needs_stack(error))


def _place(work: Work) -> dict[str, Any]:
    """Host, node, zone, nics and volumes of the server at the destination."""
    move = _move(work)
    facts = move.facts or {}
    return {"host": move.dest_compute, "node": move.dest_node,
            "availability_zone": work.action.arguments.get("zone") or work.instance.availability_zone,
            **{name: facts[name] for name in ("network_info", "block_devices") if name in facts}}


def _now_here(work: Work, step: str) -> None:
    """Write the new host of the server in one write, and continue at ``step``."""
    _switch(work)
    work.hand_over(step)


def _settle(work: Work) -> None:
    work.event = "compute_rollback_live_migration"
    host = work.host
    if host.driver.live.post_copy(work.instance) != WHOLE:      # what is here must not run again
        _copy(work)
        return
    host.driver.live.stay(work.instance, _plan(work))
    # attachments that the destination has not released
    _try(work, _CLEAN_UP, lambda: volumes.release_others(host, work.instance))
    # a port that seems to leave is not wired any more: the guest would have no network after its next start
    _try(work, _CLEAN_UP, lambda: retry_until_available(
        work, lambda: host.network.move(admin_context(), work.instance, host.name)))
    raise exception.MigrationError(reason=work.action.arguments.get("error", "the destination went away"))


def _reporter(work: Work) -> Report:
    """Reports the progress of the copy. The ports are bound to the new host as soon as the guest runs there."""
    followed = False

    def report(progress: Progress) -> str | None:
        nonlocal followed
        values = {name: value for name, value in progress.to_primitive().items() if name != "post_copy"}
        if progress.post_copy and not _move(work).went_on:
            values["facts"] = {**(_move(work).facts or {}), objects.WENT_ON: True}
        wanted = _report(work, values)
        if progress.post_copy and not followed:
            followed = True
            _try(work, "its ports do not follow yet",
                 lambda: work.host.network.move(admin_context(), work.instance, _move(work).dest_compute or ""))
        return wanted
    return report


def _report(work: Work, progress: dict[str, Any]) -> str | None:
    try:
        return work.update_migration(progress)
    except exception.ConductorAway as error:
        LOG.warning("the progress of the copy could not be reported: %s", error, extra={"instance_uuid": work.instance.uuid})
        return None


def _waits(work: Work) -> bool:
    """Whether the destination waits for the rest of a guest. As long as it does not say so, nothing of it is given up."""
    there = _move(work).dest_compute or ""
    try:
        return bool(work.ask_other_host("waits_for_rest"))
    except (exception.HostSilent, exception.ConductorAway, exception.NovaLiteError) as error:
        LOG.warning("%s does not answer whether the other half of the guest is there: %s", there, error,
                    extra={"instance_uuid": work.instance.uuid})
        return True


# both ---------------------------------------------------------------------------------------------------------------------
def _to_settle(work: Work, error: Exception, ends_as: str) -> None:
    work.hand_over("settle", {"error": exception.public_of(error), "ends_as": ends_as})


def _prepare_unless_aborted(work: Work) -> None:
    _refuse_if_aborted(work, work.update_migration({"status": objects.PREPARING}))


def _refuse_if_aborted(work: Work, wanted: str | None) -> None:
    if wanted == ABORT:
        raise exception.LiveMigrationAborted(instance_id=work.instance.uuid)


def _wait(work: Work) -> None:
    work.update_migration({})       # raises LeaseLost
    work.host.clock.sleep(_WAIT_SECONDS)


def _move(work: Work) -> Migration:
    assert work.migration is not None
    return work.migration


def _written_devices(move: Migration) -> list[BlockDevice]:
    """The server's devices as an earlier run has connected them to the destination."""
    return [BlockDevice.from_primitive(d) for d in (move.facts or {}).get("block_devices", ())]


def _plan(work: Work) -> Plan:
    return Plan.from_primitive((_move(work).facts or {})["plan"])


def _as_here(work: Work, vifs: list[VIF] | None, devices: list[BlockDevice] | None) -> Instance:
    """The server as the destination has it; None: as it was written down, if it was."""
    facts = _move(work).facts or {}
    if vifs is None:
        vifs = [VIF.from_primitive(v) for v in facts["network_info"]] if "network_info" in facts else work.instance.network_info
    if devices is None:
        known = facts.get("block_devices")
        devices = [BlockDevice.from_primitive(d) for d in known] if known is not None else [
            dataclasses.replace(d) for d in work.instance.block_devices]
    return dataclasses.replace(work.instance, network_info=vifs, block_devices=devices)


def _as_left(work: Work) -> Instance:
    """The server as the source has it, once it is written down as the destination's."""
    left = (_move(work).facts or {}).get("left")
    vifs = [VIF.from_primitive(v) for v in left["network_info"]] if left else work.instance.network_info
    devices = [BlockDevice.from_primitive(d) for d in left["block_devices"]] if left else [
        dataclasses.replace(d) for d in work.instance.block_devices]
    return dataclasses.replace(work.instance, network_info=vifs, block_devices=devices)


def _fetcher(work: Work) -> Fetcher:
    """Base images come as for a build, checked against what the API saw of them."""
    image = work.instance.image

    def fetch(image_id: str, path: str) -> None:
        work.host.image.download(work.context, image_id, path, image if image and image.id == image_id else None)

    return fetch


STEPS: dict[str, Callable[[Work], None]] = {
    "prepare": _prepare, "copy": _copy, "finish": _finish, "undo": _undo, "lost": _lost, "left": _leave, "settle": _settle,
    "mend": _copy, "alone": _alone}
