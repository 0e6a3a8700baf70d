"""Volumes of servers: those of a new server, and attach and detach of an existing one.

The Volume service is called with the user's own token only here: all work after the answer acts as the service. Each operation
is written (stage ``api``) before anything is made or reserved. The sweeper hands over the action of a request that died, and
the work continues where it stopped.
"""
from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.compute.api import block_devices, preparing
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances
from nova_lite.objects import action as action_objects
from nova_lite.objects import block_device as bd
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import AVAILABLE, IN_USE, Volume
from nova_lite.virt import device_names
from nova_lite.volume import release

LOG = log.getLogger(__name__)
DOUBT = 3                       # times [service_user] timeout until a call without an answer has been done, or never will be
_ABOUT_THE_IMAGE = {"image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size"}
_BLANK_NAME = "%s-blank-vol"
_NO_SIZE = {bd.IMAGE: "Images with destination_type 'volume' need to have a non-zero size specified",
            bd.BLANK: "Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size"}
Prepared = Mapping[str, Sequence[BlockDevice]]      # by server


class Volumes(Base):
    """The part of the compute API for the Volume service."""

    # new servers ----------------------------------------------------------------------------------------------------------
    def check_devices(self, context: RequestContext, devices: Sequence[BlockDevice], count: int,
                      allow_multiattach: bool, has_image: bool) -> None:
        """Look up all volumes, snapshots and images that devices name, and complete their sizes. ``has_image``: the request
        names an image, too; then the root volume need not be bootable, as in Nova. Raises Invalid and similar errors."""
        if count > 1 and any(d.source_type == bd.VOLUME for d in devices):
            raise exception.Invalid("Cannot attach one or more volumes to multiple instances")
        for device in devices:
            if device.source_type == bd.VOLUME:
                self._check_existing(context, device, allow_multiattach, must_boot=not has_image)
            elif device.source_type == bd.SNAPSHOT:
                self._check_snapshot(context, device)
            elif device.is_volume and not device.size:
                raise exception.Invalid(_NO_SIZE[device.source_type])
            elif device.is_volume and device.source_type == bd.IMAGE:
                check_image_fits(self._image(context, device.source_id or ""), device)

    def _check_existing(self, context: RequestContext, device: BlockDevice, allow_multiattach: bool, must_boot: bool) -> None:
        try:
            volume = self.volume.get(context, device.volume_id or "")
        except exception.NotFound as error:
            raise exception.InvalidBlockDevice(reason=f"failed to get volume {device.volume_id}.") from error
        check_volume(volume, allow_multiattach)
        if device.is_root and must_boot and not volume.bootable:
            raise exception.VolumeNotBootable(id=volume.id)
        device.size, device.multiattach = volume.size, volume.multiattach

    def _check_snapshot(self, context: RequestContext, device: BlockDevice) -> None:
        try:
            snapshot = self.volume.get_snapshot(context, device.source_id or "")
        except exception.NotFound as error:
            raise exception.InvalidBlockDevice(reason=f"failed to get snapshot {device.source_id}.") from error
        if snapshot.status != AVAILABLE:
            raise exception.InvalidBlockDevice(reason=f"snapshot {snapshot.id} is {snapshot.status}, not {AVAILABLE}.")
        device.size = device.size or snapshot.size
        if device.size < snapshot.size:
            raise exception.InvalidBlockDevice(reason=f"a volume of {device.size} GiB is too small for snapshot {snapshot.id}, "
                                                      f"which needs {snapshot.size} GiB.")

    def _image(self, context: RequestContext, image_id: str) -> ImageMeta:
        try:
            image = self.image.get(context, image_id)
        except exception.ImageNotFound as error:
            raise exception.InvalidBlockDevice(reason=f"failed to get image {image_id}.") from error
        if image.status != "active":
            raise exception.ImageNotActive(image_id=image_id)
        return image

    def root_image(self, context: RequestContext, root: BlockDevice) -> ImageMeta:
        """The image data of the system on a root volume, for scheduler and hypervisor; its id is "" when unknown."""
        if root.source_type == bd.IMAGE:
            return self._image(context, root.source_id or "")
        if root.source_type == bd.BLANK:
            return ImageMeta("")
        volume_id = root.volume_id or ""
        try:
            if root.source_type == bd.SNAPSHOT:
                volume_id = self.volume.get_snapshot(context, root.source_id or "").volume_id
            volume = self.volume.get(context, volume_id)
        except exception.NotFound as error:
            raise exception.InvalidBlockDevice(reason=f"failed to get volume {volume_id}.") from error
        return image_of_volume(volume)

    def prepare_volumes(self, context: RequestContext, wanted: Prepared, action_ids: Sequence[int]) -> None:
        """Reserve and create the volumes of new servers, then hand their builds over to the conductor. After an error the
        servers are deleted by durable actions, which release the volumes, and the user gets the error."""
        try:
            with preparing.held(self.db, action_ids, self._lease()):
                for server, devices in wanted.items():
                    for device in devices:
                        if device.is_volume:
                            self._prepare(context, server, device)
            self.db.write(_hand_over_builds, wanted, action_ids, self.conf.conductor.lease_seconds)
        except Exception as error:
            LOG.warning("the volumes of new servers could not be prepared: deleting %s", ", ".join(wanted))
            for server, devices in wanted.items():
                self._take_back(context, server)
                if isinstance(error, (exception.Conflict, exception.InstanceNotFound)):
                    # a delete that came meanwhile may have searched before the last of these was created
                    release.undo(self.volume, server, devices)
            raise

    def _prepare(self, context: RequestContext, server: str, device: BlockDevice) -> None:
        if device.volume_id is not None:
            device.attachment_id = self.volume.reserve(context, device.volume_id, server).id
            return
        try:
            made = self.volume.create(
                context, device.size or 0, name=_BLANK_NAME % server if device.source_type == bd.BLANK else "",
                image_id=device.source_id if device.source_type == bd.IMAGE else None,
                snapshot_id=device.source_id if device.source_type == bd.SNAPSHOT else None, volume_type=device.volume_type,
                metadata=release.metadata_of(server, device))
        except exception.NotFound as error:       # of something in the body
            raise exception.InvalidBlockDevice(reason=error.public) from error
        device.volume_id, device.multiattach = made.id, made.multiattach

    def _take_back(self, context: RequestContext, server: str) -> None:
        try:
            self.operate(context, server, "delete")
        except exception.InstanceNotFound:
            LOG.info("deleted meanwhile", extra={"instance_uuid": server})

    # attach ---------------------------------------------------------------------------------------------------------------
    def attach_volume(self, context: RequestContext, instance: Instance, volume_id: str, device_name: str | None = None,
                      tag: str | None = None, delete_on_termination: bool = False,
                      allow_multiattach: bool = True) -> BlockDevice:
        """Reserve a volume and let the host attach it; the device as it will be.

        Raises VolumeNotFound, InvalidVolume, AttachToShelvedNotSupported (400), TooManyDiskDevices (403), and what
        ``states.check`` raises (409).
        """
        uuid = instance.uuid
        operations.check(operations.VERBS["attach_volume"], instance, may_override_lock=bool(context.is_admin))
        _check_not_attached(instance, volume_id)
        volume = self.volume.get(context, volume_id)
        check_volume(volume, allow_multiattach)
        wanted = BlockDevice(str(uuids.uuid4()), bd.VOLUME, source_id=volume_id, volume_id=volume_id, size=volume.size,
                             device_name=device_name, tag=tag, delete_on_termination=delete_on_termination,
                             multiattach=volume.multiattach)
        action_id, device, host = self.db.write(_begin_attach, context, uuid, wanted, self._lease())
        try:
            with preparing.held(self.db, [action_id], self._lease()):
                device.attachment_id = self.volume.reserve(context, volume_id, uuid).id
                if host is None:        # no host will say so before the server is unshelved
                    self.volume.complete(context, device.attachment_id)
        except exception.ServiceUnavailable as error:      # it is not known whether the volume was reserved
            # Cinder may still do so: so the sweeper releases the volume later, when Cinder has done what was queued
            self.db.write(_turn_into_detach, context, uuid, device.id, action_id, DOUBT * self.conf.service_user.timeout,
                          error.public)
            raise
        except Exception as error:
            self.db.write(_forget, uuid, device.id, action_id, exception.public_of(error))
            raise
        if not self.db.write(_reserved, uuid, device, action_id, host, self._lease()):
            self.volume.release(context, device.attachment_id)
            raise exception.InstanceNotFound(instance_id=uuid)
        LOG.info("attach_volume %s: action %s", volume_id, action_id, extra={"instance_uuid": uuid})
        if host is not None:
            self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])
        return device

    def detach_volume(self, context: RequestContext, uuid: str, volume_id: str) -> None:
        """Let the host take a volume from the guest and give it back.

        Raises VolumeNotAttached (404), Invalid (400) for the root volume, InvalidVolume (400) while it is being attached
        or detached, or when Cinder does not let it go, and what ``states.check`` raises (409). A Volume service that does not
        answer is no reason not to begin: host or conductor ask it again.
        """
        action_id, host, attached = self.db.write(_begin_detach, context, uuid, volume_id, self._lease())
        try:
            if attached:
                with preparing.held(self.db, [action_id], self._lease()):
                    self.volume.begin_detaching(context, volume_id)
        except exception.ServiceUnavailable as error:
            LOG.warning("volume %s does not say that it is being detached: %s", volume_id, error,
                        extra={"instance_uuid": uuid})
        except Exception as error:
            self.db.write(give_up, action_id, exception.public_of(error))
            raise
        if not self.db.write(_hand_over_detach, action_id, host, self._lease()):
            return          # the sweeper was faster, or a delete
        if host is None:
            self.wakeups.send(self.conductor_rpc.run_action, context, [action_id])
        else:
            self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])

    def _lease(self) -> float:
        return float(self.conf.conductor.lease_seconds)

    def update_attachment(self, context: RequestContext, uuid: str, volume_id: str, delete_on_termination: bool) -> None:
        """Whether the volume goes with the server. Raises VolumeNotAttached, and InstanceInvalidState (409) in a build."""
        self.db.write(_set_delete_flag, uuid, volume_id, delete_on_termination)


def check_volume(volume: Volume, allow_multiattach: bool) -> None:
    """Raise InvalidVolume or MultiattachTooOld (400) for a volume that no server may be given now."""
    shared = volume.multiattach and volume.status == IN_USE
    if volume.status != AVAILABLE and not shared:
        raise exception.InvalidVolume(reason=f"volume '{volume.id}' status must be 'available'. Currently in "
                                             f"'{volume.status}' status")
    if volume.multiattach and not allow_multiattach:
        raise exception.MultiattachTooOld()


def check_image_fits(image: ImageMeta, device: BlockDevice) -> None:
    """Raise VolumeSmallerThanMinDisk for a volume that the image does not fit on."""
    size, needed = (device.size or 0) * units.GiB, int(image.min_disk or 0) * units.GiB
    if size and needed > size:
        raise exception.VolumeSmallerThanMinDisk(volume_size=size, image_min_disk=needed)


def image_of_volume(volume: Volume) -> ImageMeta:
    """The image that a bootable volume was made of, as the Volume service remembers it."""
    known = volume.image_metadata
    properties = {name: value for name, value in known.items() if name not in _ABOUT_THE_IMAGE}
    return ImageMeta(
        str(known.get("image_id") or ""), str(known.get("image_name") or ""), size=volume.size * units.GiB,
        min_disk=_number(known.get("min_disk")), min_ram=_number(known.get("min_ram")), disk_format="raw",
        properties=properties)


def _number(value: Any) -> int:
    return units.number(str(value or 0)) or 0


def _check_not_attached(instance: Instance, volume_id: str) -> None:
    if bd.find(instance.block_devices, volume_id) is not None:
        raise exception.InvalidVolume(reason=f"volume {volume_id} already attached to instance {instance.uuid}")


# transactions: actions are locked before servers, as everywhere -----------------------------------------------------------
def _hand_over_builds(connection: sa.Connection, wanted: Prepared, action_ids: Sequence[int], lease_seconds: float) -> None:
    waiting = actions.lock(connection, action_ids)
    if any((a.stage, a.state) != (action_objects.API, action_objects.PENDING) for a in waiting.values()):
        raise exception.Conflict("The server was deleted, or taken over by the sweeper, before its volumes were ready")
    for server, devices in wanted.items():
        instances.update(connection, server, {"block_devices": list(devices)}, [states.SCHEDULING])
    actions.hand_over(connection, action_ids, lease_seconds, action_objects.CONDUCTOR)


def _begin_attach(connection: sa.Connection, context: RequestContext, uuid: str,
                  wanted: BlockDevice, lease_seconds: float) -> tuple[int, BlockDevice, str | None]:
    instance = instances.get(connection, uuid, lock=True)
    operations.check(operations.VERBS["attach_volume"], instance, may_override_lock=bool(context.is_admin))
    _check_not_attached(instance, wanted.volume_id or "")
    if instance.vm_state == states.SHELVED_OFFLOADED and (wanted.tag or wanted.multiattach):
        raise exception.AttachToShelvedNotSupported(what="Tagged volumes" if wanted.tag else "Multiattach volumes")
    if len(instance.volumes) + 1 >= block_devices.MAX_DEVICES:
        raise exception.TooManyDiskDevices(maximum=block_devices.MAX_DEVICES)
    if wanted.tag and any(d.tag == wanted.tag for d in instance.block_devices):
        raise exception.Invalid(f"The device tag {wanted.tag} is in use already")
    instance.block_devices.append(wanted)
    wanted.device_name = f"/dev/{device_names.assign(instance)[wanted.id]}"
    instances.update(connection, uuid, {"block_devices": instance.block_devices})
    [action_id] = actions.create(connection, context, "attach_volume", [uuid], lease_seconds, action_objects.API,
                                 instance.host, {"device_id": wanted.id, "volume_id": wanted.volume_id})
    return action_id, wanted, instance.host


def _reserved(connection: sa.Connection, uuid: str, device: BlockDevice, action_id: int, host: str | None,
              lease_seconds: float) -> bool:
    """Hand the action over to the host; False when another worker has it, or the server is gone."""
    action = actions.lock(connection, [action_id])[action_id]
    if (action.stage, action.state) != (action_objects.API, action_objects.PENDING):
        return False
    try:
        if not instances.change_block_device(connection, uuid, device.id, {"attachment_id": device.attachment_id}):
            return False
    except exception.InstanceNotFound:
        return False
    if host is None:        # an unshelved server connects it when it is built again
        actions.finish(connection, [action_id])
    else:
        actions.hand_over(connection, [action_id], lease_seconds, action_objects.COMPUTE, host)
    return True


def _forget(connection: sa.Connection, uuid: str, device_id: str, action_id: int, reason: str) -> None:
    """An attach that the Volume service refused: nothing was taken."""
    action = actions.lock(connection, [action_id])[action_id]
    if action.stage != action_objects.API or action.state != action_objects.PENDING:
        return
    try:
        instances.change_block_device(connection, uuid, device_id, None)
    except exception.InstanceNotFound:
        LOG.info("deleted meanwhile", extra={"instance_uuid": uuid})
    actions.finish(connection, [action_id], reason)


def _turn_into_detach(connection: sa.Connection, context: RequestContext, uuid: str, device_id: str, action_id: int,
                      seconds: float, reason: str) -> None:
    """Whatever became of an attach is undone, after ``seconds``: until then the action waits as one of a request does."""
    action = actions.lock(connection, [action_id])[action_id]
    actions.finish(connection, [action_id], reason)
    actions.create(connection, context, "detach_volume", [uuid], seconds, action_objects.API, action.host,
                   {"device_id": device_id, "volume_id": action.arguments.get("volume_id")})


def _begin_detach(connection: sa.Connection, context: RequestContext, uuid: str, volume_id: str,
                  lease_seconds: float) -> tuple[int, str | None, bool]:
    """The action, its host, and whether the guest has the volume."""
    instance = instances.get(connection, uuid, lock=True)
    device = bd.find(instance.block_devices, volume_id)
    if device is None:
        raise exception.VolumeNotAttached(instance_id=uuid, volume_id=volume_id)
    if device.is_root:
        raise exception.Invalid("Cannot detach a root device volume")
    operations.check(operations.VERBS["detach_volume"], instance, may_override_lock=bool(context.is_admin))
    for other in actions.open_of_instances(connection, [uuid]).get(uuid, ()):
        # a detach may wait behind an attach: what is in-use for the Volume service may be a moment from its end here
        if other.arguments.get("device_id") == device.id and (other.verb, other.stage) != ("attach_volume",
                                                                                           action_objects.COMPUTE):
            raise exception.InvalidVolume(reason=f"volume {volume_id} is in the middle of '{other.verb}'")
    [action_id] = actions.create(connection, context, "detach_volume", [uuid], lease_seconds, action_objects.API,
                                 instance.host, {"device_id": device.id, "volume_id": volume_id})
    LOG.info("detach_volume %s: action %s", volume_id, action_id, extra={"instance_uuid": uuid})
    return action_id, instance.host, device.attached


def _hand_over_detach(connection: sa.Connection, action_id: int, host: str | None, lease_seconds: float) -> bool:
    action = actions.lock(connection, [action_id])[action_id]
    if (action.stage, action.state) != (action_objects.API, action_objects.PENDING):
        return False
    stage = action_objects.COMPUTE if host else action_objects.CONDUCTOR
    actions.hand_over(connection, [action_id], lease_seconds, stage, host)
    return True


def give_up(connection: sa.Connection, action_id: int, reason: str) -> None:
    """The Volume service refused: nothing was begun."""
    action = actions.lock(connection, [action_id])[action_id]
    if (action.stage, action.state) == (action_objects.API, action_objects.PENDING):
        actions.finish(connection, [action_id], reason)


def _set_delete_flag(connection: sa.Connection, uuid: str, volume_id: str, flag: bool) -> None:
    instance = instances.get(connection, uuid, lock=True)
    device = bd.find(instance.block_devices, volume_id)
    if device is None:
        raise exception.VolumeNotAttached(instance_id=uuid, volume_id=volume_id)
    if instance.task_state == states.SCHEDULING:        # the request that makes it writes its devices down when they are ready
        raise exception.InstanceInvalidState(action="update volume attachment", instance_id=uuid, attr="task_state",
                                             state=instance.task_state)
    instances.change_block_device(connection, uuid, device.id, {"delete_on_termination": flag})
