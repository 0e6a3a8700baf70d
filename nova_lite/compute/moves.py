"""Resize and cold migration on hosts: the new host leads, the old one keeps all that is needed to go back.

Each step can be run twice. Up to ``resize_finish`` nobody but the old host may run the guest, from there on nobody but the new
one: so a host that dies, or only seems to, never leads to two guests. What fails before its end is undone here, and then the
old host gets the action to bring its guest back (step ``undo``).
"""
from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite import exception, units
from nova_lite.compute import guest_removal, migration_source, volumes
from nova_lite.compute.external_events import Listener
from nova_lite.compute.work import Work, ignore_conductor_outage, needs_stack, retry_until_available
from nova_lite.context import admin_context
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.network import VIF
from nova_lite.operations import steps
from nova_lite.rpc.conductor import HOST_RETURNS
from nova_lite.virt.driver import Checker, Fetcher, Waiter

LOG = log.getLogger(__name__)
PAUSE = 0.2             # seconds between two questions to the old host, which answers after a while
_DELETED = (states.DELETING, states.SOFT_DELETING)


def run(work: Work) -> None:
    """A resize or a migration; on the new host, and after a failure on the old one."""
    if work.action.step == steps.UNDO:
        _undone(work)
        return
    begun = (_move(work).facts or {}).get(objects.UNDO_BEGUN)
    if begun is not None:
        _give_back(work, begun)
        return
    try:
        with work.host.events.listen(work.instance.uuid) as listener:
            _arrive(work, listener)
    except Exception as error:
        LOG.error("'%s' failed: %s", work.verb.name, error, extra={"instance_uuid": work.instance.uuid},
                  exc_info=needs_stack(error))
        _undo(work, error)
    else:
        LOG.info("moved here, to be confirmed", extra={"instance_uuid": work.instance.uuid})


# the new host ---------------------------------------------------------------------------------------------------------------
def _arrive(work: Work, listener: Listener) -> None:
    instance, move = work.instance, _move(work)
    if instance.task_state == states.RESIZE_PREP:
        with work.step("compute_prep_resize"):
            work.host.driver.check_resize(instance, move.new_flavor or instance.flavor)
            _advance(work, states.RESIZE_MIGRATING, objects.MIGRATING)
    if instance.task_state == states.RESIZE_MIGRATING:
        with work.step("compute_resize_instance"):
            work.host.driver.receive_guest(instance, _stop_at_source(work), _fetcher(work), move.uuid, _still_wanted(work))
            volumes.take_along(work)
            work.update({}, [instance.task_state])      # the copy was long: who lost the action binds no port
            instance.network_info = work.host.network.move(admin_context(), instance, work.host.name)
            _advance(work, states.RESIZE_MIGRATED, objects.POST_MIGRATING,
                     network_info=[v.to_primitive() for v in instance.network_info])
            _tell_arrival(work)
    with work.step("compute_finish_resize"):
        power_on = (move.facts or {}).get("vm_state") != states.STOPPED
        volumes.connect_taken(work)
        if instance.task_state != states.RESIZE_FINISH:
            _advance(work, states.RESIZE_FINISH, objects.POST_MIGRATING)
        _plug(work)
        resized = _as_new(work)
        wait = _before_it_runs(work, listener) if power_on else None
        work.host.driver.finish_move(resized, instance.network_info, _fetcher(work), power_on, wait)
        volumes.complete_all(work)
    facts = move.facts or {}
    work.succeed({**_size(resized), "host": work.host.name, "node": move.dest_node, "launched_on": work.host.name,
                  "availability_zone": facts.get("zone") or instance.availability_zone,
                  "launched_at": units.utcnow().isoformat(), **_powered(power_on), "vm_state": states.RESIZED,
                  **_devices(instance)})


def _advance(work: Work, task_state: str, status: str, **updates: Any) -> None:
    """To the next step, unless a delete or the lease's end was faster: UnexpectedTaskState or LeaseLost."""
    work.update({"task_state": task_state, **updates}, [work.instance.task_state])
    work.update_migration({"status": status})
    work.instance.task_state = task_state


def _before_it_runs(work: Work, listener: Listener) -> Waiter:
    """The network of the guest is ready, and no delete has begun: no guest runs with ports and volumes that are released."""
    wait = listener.waiter(admin_context(), work.instance, work.instance.network_info)

    def ready() -> None:
        if wait is not None:
            wait()
        work.update({}, [*work.verb.working, None])

    return ready


def _stop_at_source(work: Work) -> DiskOffer | None:
    """Wait until the old host has shut the guest down; what it offers (None: it is this very host). Raises ResizeError when it
    does not answer, VirtDriverError when it cannot."""
    source, instance = _move(work).source_compute or "", work.instance
    if source == work.host.name:
        migration_source.release_guest(work.host, instance, _move(work).uuid)
        return None
    silent_since = time.monotonic()
    while True:
        try:
            offer = work.ask_other_host("leave")
            if offer is not None:
                return DiskOffer.from_primitive(offer)
            silent_since = time.monotonic()
        except exception.HostSilent as error:
            if time.monotonic() - silent_since > 2 * work.host.conf.compute.service_down_time:
                raise exception.ResizeError(reason=f"host {source}, where the server is, does not answer",
                                            public="Resize error: the host where the server is does not answer") from error
        work.update({}, [states.RESIZE_MIGRATING])      # a delete ends the waiting
        work.host.clock.sleep(PAUSE)


def _still_wanted(work: Work) -> Checker:
    """A delete, or a lease that is lost, ends the copying."""
    return ignore_conductor_outage(lambda: work.update({}, [states.RESIZE_MIGRATING]))


def _tell_arrival(work: Work) -> None:
    """A host that misses this call stops serving the disks at its next comparison (``recovery.drop_left_behind``)."""
    if _move(work).source_compute != work.host.name:
        work.ask_other_host("arrived")


def _undo(work: Work, error: Exception) -> None:
    """Remove the server from this host, and let the old host bring its guest back. Raises LeaseLost, or the error that keeps
    the guest here: then the other guest must not be started."""
    if isinstance(error, exception.InstanceNotFound):
        _drop_received(work)
        work.fail(error, {})
        return
    if isinstance(error, exception.UnexpectedTaskState) and error.kwargs.get("actual") in _DELETED:
        _drop_received(work)
        work.fail(error, {})
        return
    if isinstance(error, exception.UnexpectedTaskState):    # declared idle by os-resetState: the guest has to be brought back
        work.update({"task_state": states.RESIZE_MIGRATING}, [None])
    # a later run finds half a guest here, or none, and must not continue with it
    work.update_migration({"facts": {**(_move(work).facts or {}), objects.UNDO_BEGUN: exception.public_of(error)}})
    _give_back(work, exception.public_of(error))


def _give_back(work: Work, reason: str) -> None:
    _drop_received(work)
    work.hand_over(steps.UNDO, {steps.UNDO_REASON: reason})


def _drop_received(work: Work) -> None:
    host, instance, move = work.host, work.instance, _move(work)
    if instance.task_state == states.RESIZE_PREP:       # there is nothing here but, on shared storage, the guest's own files
        return
    is_local = move.source_compute == host.name
    guest_removal.remove(
        host, instance, lambda: host.driver.drop_received(instance, instance.network_info, is_local, move.uuid),
        nics=not is_local,
        disks=instance.task_state in (states.RESIZE_MIGRATED, states.RESIZE_FINISH))    # else they are still the old host's


# the old host ---------------------------------------------------------------------------------------------------------------
def _undone(work: Work) -> None:
    """The move failed, and no other host has files of it: the guest runs on where it was."""
    vm_state = (_move(work).facts or {}).get("vm_state", states.ACTIVE)
    power_on = vm_state != states.STOPPED
    _restore_at_source(work, power_on)
    work.fail(exception.ResizeError(work.action.arguments.get(steps.UNDO_REASON, "the destination went away")), {
        "vm_state": vm_state, **_powered(power_on), **_size(work.instance), **_devices(work.instance),
        "network_info": [v.to_primitive() for v in work.instance.network_info]})


def _restore_at_source(work: Work, power_on: bool) -> None:
    host, instance = work.host, work.instance
    # the move holds the devices of the way back until it has ended
    instance.pci_devices = [{**d, "consumer": instance.uuid} for d in instance.pci_devices if d["consumer"] == _move(work).uuid]
    with host.events.listen(instance.uuid) as listener:
        instance.network_info = retry_until_available(work, lambda: host.network.move(admin_context(), instance, host.name))
        never_left = instance.uuid not in host.driver.left_behind() and host.driver.power_state(instance) == states.RUNNING
        if not never_left:
            retry_until_available(work, lambda: volumes.take_along(work))
            retry_until_available(work, lambda: volumes.connect_taken(work))
            _plug(work)
            wait = listener.waiter(admin_context(), instance, instance.network_info) if power_on else None
            # its disks may be encrypted, and the key manager away
            retry_until_available(work, lambda: host.driver.bring_back(
                instance, instance.network_info, power_on, _move(work).uuid, _ignore_network_failure(work, wait)))
    retry_until_available(work, lambda: volumes.complete_all(work))


def _ignore_network_failure(work: Work, wait: Waiter | None) -> Waiter | None:
    """A guest that returns to its old host is started even when the network is not reported as ready: no other host could start
    it."""
    if wait is None:
        return None

    def try_it() -> None:
        try:
            wait()
        except exception.BuildAborted as error:
            LOG.error("it starts all the same: %s", error, extra={"instance_uuid": work.instance.uuid})

    return try_it


# the user's word ------------------------------------------------------------------------------------------------------------
def confirm(work: Work) -> None:
    """On the old host: remove what was kept for a revert. Raises Conflict where a revert has begun, and the new host does not
    answer that the guest is still there."""
    _check_not_gone(work)
    work.host.driver.drop_aside(work.instance)
    instance = work.instance
    off = instance.power_state == states.SHUTDOWN
    work.succeed({"vm_state": states.STOPPED if off else states.ACTIVE, "power_state": instance.power_state, **_size(instance)})


def revert(work: Work) -> None:
    """On the new host the guest is removed; then it is started on the old host."""
    instance, move = work.instance, _move(work)
    if work.action.step != steps.RETURN:
        with work.step("compute_revert_resize"):
            _remove_at_destination(work)
        old = dataclasses.replace(instance, flavor=move.old_flavor or instance.flavor)
        work.hand_over(steps.RETURN, updates={
            **_size(old), "host": move.source_compute, "node": move.source_node, "launched_on": move.source_compute,
            "availability_zone": (move.facts or {}).get("old_zone") or instance.availability_zone,
            **_devices(instance)})
        return
    vm_state = (move.facts or {}).get("vm_state", states.ACTIVE)
    with work.step("compute_finish_revert_resize"):
        _restore_at_source(work, vm_state != states.STOPPED)
    work.succeed({"vm_state": vm_state, **_powered(vm_state != states.STOPPED), "launched_at": units.utcnow().isoformat(),
                  "network_info": [v.to_primitive() for v in instance.network_info], **_devices(instance)})


def _remove_at_destination(work: Work) -> None:
    """The files go last: as long as they are here the server can stay, too. Raises Conflict when there is no way back."""
    host, instance, move = work.host, work.instance, _move(work)
    if not _holds(work, move.source_compute)["aside"]:
        raise exception.Conflict(f"Host {move.source_compute} has nothing any more to which the server could go back.")
    work.update_migration({"facts": {**(move.facts or {}), objects.REVERT_BEGUN: True}})

    def power_off() -> None:
        if host.driver.power_state(instance) is not None:
            host.driver.power_off(instance, 0)

    guest_removal.remove(host, instance, power_off)
    host.driver.drop_received(instance, instance.network_info, move.source_compute == host.name, move.uuid)


def _check_not_gone(work: Work) -> None:
    """Raise Conflict when a revert that was given up may have removed the guest: then the files that this host has set aside
    are the only copy."""
    move = _move(work)
    if move.reverting and not _holds(work, move.dest_compute)["guest"]:
        raise exception.Conflict(f"A revert has removed the guest from host {move.dest_compute}: it can only be reverted.")


def _holds(work: Work, host: str | None) -> dict[str, bool]:
    """See ``migration_source.MigrationSource.holds``. Raises Conflict when the host does not answer."""
    if host == work.host.name:
        return migration_source.holds(work.host, work.instance, _move(work).uuid)
    try:
        found: dict[str, bool] = work.ask_other_host("holds", HOST_RETURNS)
        return found
    except exception.HostSilent as error:
        raise exception.Conflict(f"Host {host} does not answer, so it is not known what it has of the server.",
                                 "A host does not answer, so it is not known what it has of the server.") from error


def settle_confirm(work: Work) -> dict[str, Any]:
    """A confirmation that failed can be asked for again."""
    return {"vm_state": states.RESIZED, "power_state": work.instance.power_state}


def settle_revert(work: Work) -> dict[str, Any]:
    """So can a revert, as long as the new host still has the guest. Raises what leaves the action open, to be gone on with,
    when it has not."""
    if work.action.step == steps.RETURN:
        return {}
    power_state = work.host.driver.power_state(work.instance)
    if power_state is None:
        raise exception.DriverRefusal(what="Revert", reason="the guest is gone from here, and its revert is not finished")
    return {"vm_state": states.RESIZED, "power_state": power_state}


# ----------------------------------------------------------------------------------------------------------------------------
def _move(work: Work) -> Migration:
    if work.migration is None:
        raise exception.MigrationNotFound(migration_id=work.action.arguments.get("migration_id"))
    return work.migration


def _as_new(work: Work) -> Instance:
    return dataclasses.replace(work.instance, flavor=_move(work).new_flavor or work.instance.flavor)


def _size(instance: Instance) -> dict[str, Any]:
    flavor = instance.flavor
    return {"flavor": flavor.to_primitive(), "flavor_ref": flavor.flavorid, "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb}


def _powered(on: bool) -> dict[str, Any]:
    return {"power_state": states.RUNNING if on else states.SHUTDOWN}


def _devices(instance: Instance) -> dict[str, Any]:
    return {"block_devices": [d.to_primitive() for d in instance.block_devices]}


def _plug(work: Work) -> None:
    vifs: list[VIF] = work.instance.network_info
    for vif in vifs:
        work.host.network.plug(work.instance, vif)


def _fetcher(work: Work) -> Fetcher:
    """Images for this host's cache; ImageNotFound for one that was deleted after the server was built."""
    def fetch(image_id: str, path: str) -> None:
        image = work.instance.image
        work.host.image.download(work.context, image_id, path, image if image and image.id == image_id else None)
    return fetch


VERBS: dict[str, Callable[[Work], None]] = {"resize": run, "migrate": run, "confirmResize": confirm, "revertResize": revert}
SETTLE: dict[str, Callable[[Work], dict[str, Any]]] = {"confirmResize": settle_confirm, "revertResize": settle_revert}
