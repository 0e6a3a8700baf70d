"""Volumes on a host: connected before a guest is built, attached to and detached from a guest.

The order is: reserve the volume in the Volume service, connect it to this host, give it to the guest, complete the attachment.
A detach does the reverse. Each step can be run twice. A volume that cannot be released at once stays in the server's record, so
that a detach or the delete of the server finds it.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.compute.work import Host, Work
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects import states
from nova_lite.objects.block_device import VOLUME, BlockDevice, find
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import AVAILABLE, Attachment
from nova_lite.virt.driver import ComputeDriver
from nova_lite.volume import release

LOG = log.getLogger(__name__)
RESERVED, ATTACHED = "reserved", "attached"
MAKING = retry.Schedule((0.2, 0.5, 1.0, 2.0), endless=True, timeout=release.CREATE_TIMEOUT)      # of a volume
RELEASES = retry.Schedule((1.0, 2.0, 4.0, 8.0))      # tries to give a volume back


def columns(instance: Instance) -> dict[str, Any]:
    """The block devices as a change of the server; {} without volumes. The conductor takes only the fields that a host may
    write: see ``instances.as_host_says``."""
    return {"block_devices": [d.to_primitive() for d in instance.block_devices]} if instance.volumes else {}


def changed(device_id: str, values: dict[str, Any] | None) -> dict[str, Any]:
    """The change that the end of an action writes: one block device (None: it is removed)."""
    return {"block_device": {"id": device_id, "values": values}}


# builds -------------------------------------------------------------------------------------------------------------------
def connect_all(work: Work, task_state: str | None = states.BLOCK_DEVICE_MAPPING) -> None:
    """Connect every volume of a new server to this host. ``task_state`` None: the server keeps its task_state. Raises
    BuildAborted for a volume that was not created, InvalidVolume for a volume that another server has, UnexpectedTaskState when
    the server is deleted meanwhile."""
    host, instance = work.host, work.instance
    if not instance.volumes:
        return
    if task_state is not None:
        started: dict[str, Any] = {"task_state": task_state,
                                   "network_info": [v.to_primitive() for v in instance.network_info]}
        work.update(started, [states.NETWORKING, states.BLOCK_DEVICE_MAPPING, states.SPAWNING])
        instance.task_state = task_state
    context = admin_context()
    known = _usable_attachments(host, context, instance)
    for device in instance.volumes:
        if device.volume_id is None:
            device.volume_id = _find_made(host, context, instance, device)
        attachment = known.get(device.volume_id)
        if attachment is None:
            if device.source_type != VOLUME:
                _wait_until_made(work, context, device)
            attachment = host.volume.reserve(context, device.volume_id, instance.uuid)
        _connect(host, context, instance, device, attachment.id)


def _usable_attachments(host: Host, context: RequestContext, instance: Instance) -> dict[str, Attachment]:
    """The attachments that this build can use, by volume: reservations, and attachments that an earlier run on this host has
    connected (the record has their connection_info). Attachments of other hosts are deleted."""
    connected = {d.attachment_id for d in instance.volumes if d.connection_info is not None}
    known: dict[str, Attachment] = {}
    for attachment in host.volume.attachments(context, instance.uuid):
        usable = attachment.status == RESERVED or attachment.id in connected or not attachment.connection_info
        if attachment.volume_id not in known and usable:
            known[attachment.volume_id] = attachment
        else:
            host.volume.release(context, attachment.id)
    return known


def _find_made(host: Host, context: RequestContext, instance: Instance, device: BlockDevice) -> str:
    """The volume that the API has created, but not recorded. Only the API can create it: that takes the token of the user."""
    found = host.volume.find(context, release.metadata_of(instance.uuid, device))
    if not found:
        raise exception.BuildAborted(instance_id=instance.uuid, reason=f"the volume for {device.device_name} was not created: "
                                     "the API that took the request stopped in between")
    return found[0].id


def _wait_until_made(work: Work, context: RequestContext, device: BlockDevice) -> None:
    clock = work.host.clock
    began = clock.monotonic()
    volume = retry.poll(lambda: work.host.volume.get(context, device.volume_id or ""),
                        lambda found: found.status == AVAILABLE or found.status.startswith("error"), MAKING, clock,
                        before_pause=lambda: work.update({}, [*work.verb.working]))      # a delete ends it
    if volume.status != AVAILABLE:
        raise exception.BuildAborted(
            instance_id=work.instance.uuid, reason=f"Volume {volume.id} did not finish being created even after we waited "
            f"{clock.monotonic() - began:.0f} seconds. And its status is {volume.status}.")


def _connect(host: Host, context: RequestContext, instance: Instance, device: BlockDevice, attachment_id: str) -> None:
    """The host may use the volume from here on."""
    device.attachment_id = attachment_id
    _connected(host, instance, device, host.volume.connect(context, attachment_id, connector(host, device)))


def connector(host: Host, device: BlockDevice) -> dict[str, Any]:
    """Who this host is to a storage backend, and the guest's name of the device, which the Volume service shows to users."""
    return {**host.driver.volume_connector(), **({"mountpoint": device.device_name} if device.device_name else {})}


def _connected(host: Host, instance: Instance, device: BlockDevice, attachment: Attachment) -> None:
    device.attachment_id = attachment.id
    serial = (device.connection_info or {}).get("serial")
    info = with_encryption(host, device, attachment.connection_info)
    device.connection_info = host.driver.connect_volume(instance, device, info)
    if serial:      # a running guest has the serial number of the first volume
        device.connection_info = {**device.connection_info, "serial": serial}


def with_encryption(host: Host, device: BlockDevice, info: dict[str, Any]) -> dict[str, Any]:
    """A connection with ``encryption`` (without the key itself), where the volume is encrypted."""
    data = info.get("data") or {}
    if not data.get("encrypted"):
        return info
    return {**info, "data": {**data, "encryption": host.volume.encryption(admin_context(), device.volume_id or "")}}


def connect_missing(work: Work) -> None:
    """Connect the volumes of a server that this host does not have, as after an interrupted operation. A volume without an
    attachment is being attached by a request: it is skipped."""
    context = admin_context()
    for device in work.instance.volumes:
        if device.connection_info is None and device.volume_id is not None and device.attachment_id:
            reserved = _reserved(work.host, context, work.instance, device)
            _connect(work.host, context, work.instance, device, reserved)
            work.update_device(device.id, {"attachment_id": reserved, "connection_info": device.connection_info})


def complete_missing(work: Work) -> None:
    """After ``connect_missing``, when the guest has them."""
    for device in work.instance.volumes:
        if not device.attached and device.connection_info is not None:
            work.host.volume.complete(admin_context(), device.attachment_id or "")
            work.update_device(device.id, {"attached": True})


def release_from_host(work: Work, device: BlockDevice) -> None:
    """Disconnect a volume that the server keeps: it is reserved for the server, so that no other server can take it. The guest
    is off. A second run uses the reservation of the first."""
    host, instance, context = work.host, work.instance, admin_context()
    if device.connection_info is not None:
        host.driver.disconnect_volume(instance, device)
    mine = [a for a in host.volume.attachments(context, instance.uuid) if a.volume_id == device.volume_id]
    kept = next((a for a in mine if a.status == RESERVED), None)
    for half_made in [a for a in mine if a.status not in (RESERVED, ATTACHED)]:     # in the way of a new reservation
        host.volume.release(context, half_made.id)
    if kept is None:
        kept = host.volume.reserve(context, device.volume_id or "", instance.uuid)
    for other in mine:
        if other.status == ATTACHED:
            host.volume.release(context, other.id)
    device.attachment_id, device.connection_info, device.attached = kept.id, None, False
    work.update_device(device.id, {"attachment_id": kept.id, "connection_info": None, "attached": False})


def connect_elsewhere(host: Host, instance: Instance, written: Sequence[BlockDevice] = ()) -> list[BlockDevice]:
    """The server's devices with its volumes connected to this host as well, before the guest comes here. ``written``: the
    connections of an earlier run on this host, which are used again. Other attachments, except those in the server's record,
    are deleted: another host may have made them. The record is not changed."""
    context = admin_context()
    known = host.volume.attachments(context, instance.uuid) if instance.volumes else []
    devices = [dataclasses.replace(d) for d in instance.block_devices]
    used, mine = {d.attachment_id for d in devices}, {d.attachment_id for d in written}
    for device in devices:
        if device.volume_id is not None:
            others = [a for a in known if a.volume_id == device.volume_id and a.id not in used]
            kept = next((a for a in others if a.id in mine and a.connection_info), None)
            for other in others:
                if other is not kept:
                    host.volume.release(context, other.id)
            _connected(host, instance, device, kept or host.volume.reserve(context, device.volume_id, instance.uuid,
                                                                           connector(host, device)))
    return devices


def release_others(host: Host, instance: Instance) -> None:
    """Delete the attachments of a server that belong to none of its devices: those of the old host of a move, or of a host that
    the server did not move to."""
    if instance.volumes:
        used = {d.attachment_id for d in instance.volumes}
        for attachment in host.volume.attachments(admin_context(), instance.uuid):
            if attachment.id not in used:
                host.volume.release(admin_context(), attachment.id)


def complete_all(work: Work) -> None:
    """The guest has its volumes: the Volume service says so from here on, too. It was not given those that are just being
    attached."""
    for device in work.instance.volumes:
        if device.connection_info is None:
            continue
        work.host.volume.complete(admin_context(), device.attachment_id or "")
        device.attached = True


def disconnect_all(driver: ComputeDriver, instance: Instance) -> None:
    """Disconnect the volumes of a server whose guest is gone from this host. The attachments in the Volume service are not
    changed."""
    for device in instance.volumes:
        if device.connection_info is not None:
            driver.disconnect_volume(instance, device)
    forget_connections(instance)


def forget_connections(instance: Instance) -> None:
    """No host has the volumes of the server."""
    for device in instance.volumes:
        device.connection_info, device.attached = None, False


# a server that moves -------------------------------------------------------------------------------------------------------
def take_along(work: Work) -> None:
    """Keep the volumes of a server that moves, after its old host has disconnected them: reserve each again before its old
    attachment is deleted, so that no other server can take it. Raises ServiceUnavailable and similar errors."""
    host, instance, context = work.host, work.instance, admin_context()
    known = host.volume.attachments(context, instance.uuid) if instance.volumes else []
    for device in instance.volumes:
        mine = [a for a in known if a.volume_id == device.volume_id]
        kept = next((a for a in mine if a.status == RESERVED), None)
        if kept is None:
            kept = host.volume.reserve(context, device.volume_id or "", instance.uuid)
        device.attachment_id, device.connection_info, device.attached = kept.id, None, False
        work.update_device(device.id, {"attachment_id": kept.id, "connection_info": None, "attached": False})
        for old in mine:
            if old.id != kept.id:
                host.volume.release(context, old.id)


def connect_taken(work: Work) -> None:
    """Connect what was taken along to this host."""
    for device in work.instance.volumes:
        if device.connection_info is None:
            _connect(work.host, admin_context(), work.instance, device, device.attachment_id or "")
            work.update_device(device.id, {"connection_info": device.connection_info})


# a server that is there ---------------------------------------------------------------------------------------------------
def attach(work: Work) -> None:
    """Give the guest a volume. When that fails, the volume is taken back and the server is as before."""
    device = _device(work)
    if device is None:      # a detach was faster
        work.succeed()
        return
    if device.attached:     # an earlier run has finished, or the guest was made again meanwhile
        work.succeed(changed(device.id, {"attachment_id": _keep_one(work, device)}))
        return
    host, instance, context = work.host, work.instance, admin_context()
    try:
        _connect(host, context, instance, device, _reserved(host, context, instance, device))
        work.update_device(device.id, {"attachment_id": device.attachment_id, "connection_info": device.connection_info})
        host.driver.attach_volume(instance, device)
        host.volume.complete(context, device.attachment_id or "")
    except exception.InstanceNotFound:
        raise
    except Exception as error:
        LOG.exception("attach of volume %s failed", device.volume_id, extra={"instance_uuid": instance.uuid})
        try:
            _take_back(work, device)
        except exception.InstanceNotFound:
            raise
        except Exception as second:
            LOG.exception("volume %s could not be taken back", device.volume_id, extra={"instance_uuid": instance.uuid})
            raise exception.VolumeStuck(volume_id=device.volume_id, reason=error, second=second) from error
        work.fail(error, changed(device.id, None))
        return
    work.succeed(changed(device.id, {"attached": True}))
    LOG.info("volume %s attached as %s", device.volume_id, device.device_name, extra={"instance_uuid": instance.uuid})


def _reserved(host: Host, context: RequestContext, instance: Instance, device: BlockDevice) -> str:
    """The attachment that the API or an earlier run of this has made, or a new one."""
    volume_id = device.volume_id or ""
    known = [a.id for a in host.volume.attachments(context, instance.uuid) if a.volume_id == volume_id]
    if device.attachment_id in known:
        return str(device.attachment_id)
    return known[0] if known else host.volume.reserve(context, volume_id, instance.uuid).id


def _keep_one(work: Work, device: BlockDevice) -> str | None:
    """Keep the attachment with which the guest has the volume; delete the others of the server."""
    volume, context = work.host.volume, admin_context()
    mine = [a for a in volume.attachments(context, work.instance.uuid) if a.volume_id == device.volume_id]
    attached = [a.id for a in mine if a.status == ATTACHED]
    used = device.attachment_id if device.attachment_id in attached or not attached else attached[0]
    for other in mine:
        if other.id != used:
            volume.release(context, other.id)
    return used


def detach(work: Work) -> None:
    """Detach a volume from the guest and release it. A guest that does not release the volume keeps it."""
    device = _device(work)
    if device is None:
        work.succeed()
        return
    try:
        _take_back(work, device)
    except exception.InstanceNotFound:
        raise
    except Exception:
        if device.attached:
            work.host.volume.roll_detaching(admin_context(), device.volume_id or "")
        raise
    work.succeed(changed(device.id, None))
    LOG.info("volume %s detached", device.volume_id, extra={"instance_uuid": work.instance.uuid})


def _take_back(work: Work, device: BlockDevice) -> None:
    """Guest, host, Volume service: in this order. The record is left, to go last."""
    host, instance = work.host, work.instance
    if device.connection_info is not None:
        host.driver.detach_volume(instance, device)
        host.driver.disconnect_volume(instance, device)
        device.connection_info, device.attached = None, False
        work.update_device(device.id, {"connection_info": None, "attached": False})
    give_back(host, instance, device)


def give_back(host: Host, instance: Instance, device: BlockDevice) -> None:
    """All attachments of a server's volume, with retries. Raises ServiceUnavailable."""
    def tell(error: Exception, pause: float) -> None:
        LOG.warning("volume %s is released in %s s: %s", device.volume_id, pause, error,
                    extra={"instance_uuid": instance.uuid})

    retry.on_error(lambda: release.release_volume(host.volume, instance.uuid, device), exception.ServiceUnavailable,
                   RELEASES, host.clock, before_pause=tell)


def _device(work: Work) -> BlockDevice | None:
    wanted = work.action.arguments.get("device_id")
    return next((d for d in work.instance.volumes if d.id == wanted), None)


def extend(work: Work) -> None:
    """A volume of the server has grown: change its record, and its guest if that has the volume now. A second run finds the
    present size. While the Volume service is away the action waits, and each report of this host tries again."""
    device = find(work.instance.block_devices, work.action.arguments["volume_id"])
    if device is None:      # a detach was faster
        work.succeed()
        return
    try:
        size = work.host.volume.get(admin_context(), device.volume_id or "").size
    except exception.ServiceUnavailable as error:
        LOG.warning("volume %s has grown; its guest is notified later: %s", device.volume_id, error,
                    extra={"instance_uuid": work.instance.uuid})
        work.wait()
        return
    work.update_device(device.id, {"size": size})       # also when the guest does not see it: its next start does
    if device.connection_info is not None:
        work.host.driver.extend_volume(work.instance, device, size)
    work.succeed()
    LOG.info("volume %s has %s GiB now", device.volume_id, size, extra={"instance_uuid": work.instance.uuid})


VERBS: dict[str, Callable[[Work], None]] = {"attach_volume": attach, "detach_volume": detach, "extend_volume": extend}
