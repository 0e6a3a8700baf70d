"""Shelving on a host. shelve powers the guest off and makes an image of its disk. Offloading removes the guest from the host;
the server keeps its ports, and its volumes stay reserved. unshelve starts a guest that is still here, or builds one on the host
that the scheduler has chosen. The task_state shows how far each has got.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from oslo_log import log

from nova_lite import exception, units
from nova_lite.compute import build, guest_removal, snapshot, volumes
from nova_lite.compute.work import Work, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import (
    SHELVED_IMAGE,
    UNSHELVED_HOST,
    UNSHELVED_IMAGE,
    Instance,
    has_unshelved,
    without_shelving_keys,
)
from nova_lite.virt.driver import wanted

LOG = log.getLogger(__name__)
OFF_THE_HOST: dict[str, Any] = {"vm_state": states.SHELVED_OFFLOADED, "host": None, "node": None, "availability_zone": None,
                                "power_state": states.SHUTDOWN}


# shelve ------------------------------------------------------------------------------------------------------------------
def shelve(work: Work) -> None:
    """Power off and copy the disk. With ``[compute] shelved_offload_time = 0``, and always where the root disk is a volume,
    the server leaves its host at once."""
    instance, conf = work.instance, work.host.conf.compute
    if instance.task_state != states.SHELVING_OFFLOADING:
        _power_off(work)
        if not instance.is_volume_backed:
            _copy_disk(work)
            if conf.shelved_offload_time != 0:
                work.succeed()
                return
        work.update({"task_state": states.SHELVING_OFFLOADING, "vm_state": states.SHELVED, "power_state": states.SHUTDOWN},
                    [*work.verb.working])
        instance.task_state, instance.vm_state = states.SHELVING_OFFLOADING, states.SHELVED
    _offload(work)


def offload(work: Work) -> None:
    """The server leaves its host."""
    _power_off(work)
    _offload(work)


def _power_off(work: Work) -> None:
    host, instance = work.host, work.instance
    if host.driver.power_state(instance) is not None:
        host.driver.power_off(instance, host.conf.compute.shutdown_timeout)


def _copy_disk(work: Work) -> None:
    image_id = work.action.arguments["image_id"]
    try:
        snapshot.make(work, image_id, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING)
    except exception.ImageNotFound:
        raise
    except Exception:
        snapshot.discard(work, image_id)
        raise


def _offload(work: Work) -> None:
    host, instance = work.host, work.instance
    guest_removal.remove(host, instance, lambda: host.driver.destroy(instance, instance.network_info), disks=False)
    _release_volumes(work, instance)
    work.succeed(OFF_THE_HOST)
    LOG.info("shelved, and off this host", extra={"instance_uuid": instance.uuid})


# unshelve ----------------------------------------------------------------------------------------------------------------
def unshelve(work: Work) -> None:
    """Start the guest, or build it from its image; then delete the image."""
    instance = work.instance
    image_id = instance.system_metadata.get(SHELVED_IMAGE)
    if not has_unshelved(instance):
        try:
            image = _image(work, image_id) if image_id else instance.image
        except exception.ImageNotFound:
            if work.host.driver.power_state(instance) is None:
                _undo(work)
                error = exception.UnshelveFailed(instance_id=instance.uuid, image_id=image_id)
                work.fail(error, {**_place(work), "vm_state": states.ERROR})
                return
            image = None        # the guest has its disk
        try:
            _bring_up(work, image, bool(image_id))
            if image_id:
                # before its image is deleted: from here on the guest's disk is the only copy, also for a later run
                _note(work, UNSHELVED_IMAGE, image_id)
        except exception.LeaseLost:
            if _is_offloaded(work):
                build.leave(work)
            raise
    if image_id:
        snapshot.discard(work, image_id)
    work.succeed({"launched_at": units.utcnow().isoformat(), "system_metadata": without_shelving_keys(instance),
                  **volumes.columns(instance)})
    LOG.info("unshelved", extra={"instance_uuid": instance.uuid})


def _bring_up(work: Work, image: ImageMeta | None, from_image: bool) -> None:
    """Start the guest here, with nics and volumes. ``from_image`` without an image: only a guest that is here can be
    started."""
    instance = work.instance
    with work.host.events.listen(instance.uuid) as listener:
        is_here = work.host.driver.power_state(instance) is not None
        if _is_offloaded(work):
            instance.network_info = work.host.network.move(work.context, instance, work.host.name)
        if _is_offloaded(work) or not is_here:      # an interrupted offload may have disconnected some volumes
            volumes.connect_all(work, None)
            work.update({"network_info": [v.to_primitive() for v in instance.network_info], **volumes.columns(instance)},
                        [states.UNSHELVING])
        for vif in instance.network_info:
            work.host.network.plug(instance, vif)
        shelved = dataclasses.replace(instance, image=image)
        check = partial(_note, work, UNSHELVED_HOST, work.host.name) if _is_offloaded(work) else wanted
        if is_here and (not _is_offloaded(work) or (from_image and image is None)):
            check()
            work.host.driver.power_on(instance, instance.network_info)
        else:
            work.host.driver.spawn(shelved, instance.network_info, build.guest_files(work, instance.network_info),
                                   build.fetcher(work, image),
                                   listener.waiter(work.context, instance, instance.network_info), check)
        volumes.complete_all(work)


def _note(work: Work, key: str, value: str) -> None:
    """Record that the guest is here, or may run from now on: when this host dies, the server stays here, and a second run finds
    the volumes. Raises as :meth:`Work.check`, which it replaces."""
    instance = work.instance
    noted = {**instance.system_metadata, key: value}
    # None: declared idle by os-resetState, which makes the guest no less real
    work.update({"system_metadata": noted, **volumes.columns(instance)}, [*work.verb.working, None])
    instance.system_metadata = noted


def _is_offloaded(work: Work) -> bool:
    return bool(work.action.arguments.get("offloaded"))


def _image(work: Work, image_id: str) -> ImageMeta:
    """The properties of the snapshot, with those of the server's image that describe the machine."""
    found = work.host.image.get(admin_context(), image_id)
    own = work.instance.image
    return dataclasses.replace(found, properties=own.properties) if own is not None else found


# failures ----------------------------------------------------------------------------------------------------------------
def settle_unshelve(work: Work) -> dict[str, Any]:
    """The server stays shelved after a failure, so that the user can try again."""
    if has_unshelved(work.instance):        # the guest runs, and its image may be gone
        return {"vm_state": states.ACTIVE, "system_metadata": without_shelving_keys(work.instance)}
    if not _is_offloaded(work) and work.host.driver.power_state(work.instance) is not None:
        work.host.driver.power_off(work.instance, 0)    # what a shelved server writes is lost at its offload
    _undo(work)
    return _place(work)


def settle_shelve(work: Work) -> dict[str, Any]:
    """A server that could not be shelved is off: it can be tried again."""
    if work.instance.vm_state == states.SHELVED:
        return {"vm_state": states.SHELVED, "power_state": states.SHUTDOWN}
    power = work.host.driver.power_state(work.instance)
    if power == states.SHUTDOWN:
        return {"vm_state": states.STOPPED, "power_state": power}
    return {} if power is None else {"vm_state": work.instance.vm_state, "power_state": power}


def _place(work: Work) -> dict[str, Any]:
    if _is_offloaded(work):
        known = {key: value for key, value in work.instance.system_metadata.items() if key != UNSHELVED_HOST}
        # even if some were not released: the next host must not use these connections
        volumes.forget_connections(work.instance)
        return {**OFF_THE_HOST, "system_metadata": known, **volumes.columns(work.instance)}
    return {"vm_state": states.SHELVED, "power_state": states.SHUTDOWN}


def _undo(work: Work) -> None:
    """Remove all that was made of the server on this host. What cannot be removed now is found by the next comparison of guests
    and servers. Raises GuestRemains for a guest that may still run: a shelved server could be unshelved on another host."""
    if not _is_offloaded(work):
        return
    host, instance = work.host, work.instance
    try:
        guest_removal.destroy_failed(work, instance.system_metadata.get(UNSHELVED_HOST) == host.name, disks=False)
        # the volumes are the server's, wherever it is built now
        work.update({}, [*work.verb.working, None, states.DELETING])
        volumes.disconnect_all(host.driver, instance)       # from the host, should the Volume service be away
        _release_volumes(work, instance)
    except exception.GuestRemains:
        raise
    except Exception as error:
        LOG.error("clean-up after a failed unshelve did not end well: %s", error, extra={"instance_uuid": instance.uuid},
                  exc_info=needs_stack(error))


def _release_volumes(work: Work, instance: Instance) -> None:
    for device in instance.volumes:
        if device.volume_id is not None:
            volumes.release_from_host(work, device)


VERBS: dict[str, Callable[[Work], None]] = {"shelve": shelve, "shelveOffload": offload, "unshelve": unshelve}
SETTLE: dict[str, Callable[[Work], dict[str, Any]]] = {
    "shelve": settle_shelve, "shelveOffload": settle_shelve, "unshelve": settle_unshelve}
