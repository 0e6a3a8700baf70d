"""A volume of a server exchanged for another, as the Volume service asks for it in the middle of a migration or retype."""
from __future__ import annotations

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, instances
from nova_lite.objects import action as action_objects
from nova_lite.objects import block_device as bd
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import AVAILABLE, Volume
from nova_lite.volume import release

LOG = log.getLogger(__name__)


class VolumeSwap(Base):
    """PUT /servers/{id}/os-volume_attachments/{id} with another volume."""

    def swap_volume(self, context: RequestContext, instance: Instance, volume_id: str, new_volume_id: str) -> None:
        """Reserve the new volume and let the host copy and exchange.

        Raises VolumeNotFound (404) for the old volume and Invalid (400) for the new one, VolumeNotAttached (404), Conflict
        (409) for a volume that the Volume service does not migrate just now, InvalidVolume (400) for a pair that does not fit,
        and what ``states.check`` raises (409).
        """
        old = self.volume.get(admin_context(), volume_id)
        if not old.is_migrating:
            raise exception.Conflict(f"volume {volume_id} is not migrating; this API should only be called by Cinder")
        try:
            new = self.volume.get(admin_context(), new_volume_id)
        except exception.VolumeNotFound as error:
            raise exception.Invalid(error.message) from error
        states.check(states.OPERATIONS["swap_volume"], instance, may_override_lock=bool(context.is_admin))
        _check_pair(_device(instance, volume_id), old, new)
        attachment = self.volume.reserve(admin_context(), new_volume_id, instance.uuid)
        try:
            action_id, host = self.db.write(_begin, context, instance.uuid, volume_id, new, attachment.id,
                                            float(self.conf.conductor.lease_seconds))
        except Exception:
            release.undo(self.volume, instance.uuid, [BlockDevice("", bd.VOLUME, attachment_id=attachment.id)])
            raise
        LOG.info("swap_volume %s for %s: action %s", volume_id, new_volume_id, action_id,
                 extra={"instance_uuid": instance.uuid})
        self.wakeups.send(self.compute_rpc.wake, context, host, "swap_volume", action_id)


def _device(instance: Instance, volume_id: str) -> BlockDevice:
    device = bd.find(instance.block_devices, volume_id)
    if device is None:
        raise exception.VolumeNotAttached(instance_id=instance.uuid, volume_id=volume_id)
    return device


def _check_pair(device: BlockDevice, old: Volume, new: Volume) -> None:
    if device.connection_info is None:
        raise exception.InvalidVolume(reason=f"volume {old.id} is not attached yet")
    if old.multiattach and len(old.attachments) > 1:
        raise exception.Invalid("Swapping multi-attach volumes with more than one read/write attachment is not supported.")
    if new.attachments or new.status != AVAILABLE:
        raise exception.InvalidVolume(reason="New volume must be detached in order to swap.")
    if new.size < old.size:
        raise exception.InvalidVolume(reason="New volume must be the same size or larger.")


def _begin(connection: sa.Connection, context: RequestContext, uuid: str, volume_id: str, new: Volume, attachment_id: str,
           lease_seconds: float) -> tuple[int, str]:
    instance = instances.get(connection, uuid, lock=True)
    states.check(states.OPERATIONS["swap_volume"], instance, may_override_lock=bool(context.is_admin))
    device = _device(instance, volume_id)
    if not instance.host:
        raise exception.InstanceNotReady(instance_id=uuid)
    for other in actions.open_of_instances(connection, [uuid]).get(uuid, ()):
        if other.arguments.get("device_id") == device.id:
            raise exception.InvalidVolume(reason=f"volume {volume_id} is in the middle of '{other.verb}'")
    arguments = {"device_id": device.id, "volume_id": volume_id, "old": device.to_primitive(), "new_volume_id": new.id,
                 "new_size": new.size, "new_attachment_id": attachment_id}
    [action_id] = actions.create(connection, context, "swap_volume", [uuid], lease_seconds, action_objects.COMPUTE,
                                 instance.host, arguments)
    return action_id, instance.host
