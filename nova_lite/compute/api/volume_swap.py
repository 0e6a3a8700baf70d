"""A volume of a server exchanged for another, as the Volume service asks for it in the middle of a migration or retype."""
from __future__ import annotations

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.compute.api import preparing
from nova_lite.compute.api.volumes import DOUBT, Volumes, give_up
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, instances
from nova_lite.objects import action as action_objects
from nova_lite.objects import block_device as bd
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import AVAILABLE, Volume
from nova_lite.volume import release

LOG = log.getLogger(__name__)


class VolumeSwap(Volumes):
    """PUT /servers/{id}/os-volume_attachments/{id} with another volume."""

    def swap_volume(self, context: RequestContext, instance: Instance, volume_id: str, new_volume_id: str) -> None:
        """Reserve the new volume, and let the host copy and exchange. After a request that died nothing is exchanged: the host
        releases what was reserved.

        Raises VolumeNotFound (404) for the old volume and Invalid (400) for the new one, VolumeNotAttached (404), Conflict
        (409) for a volume that the Volume service does not migrate now, InvalidVolume (400) for a pair that does not fit, and
        the errors of ``states.check`` (409).
        """
        old = self.volume.get(admin_context(), volume_id)
        if not old.is_migrating:
            raise exception.Conflict(f"volume {volume_id} is not migrating; this API should only be called by Cinder")
        try:
            new = self.volume.get(admin_context(), new_volume_id)
        except exception.VolumeNotFound as error:
            raise exception.Invalid(error.public) from error
        operations.check(operations.VERBS["swap_volume"], instance, may_override_lock=bool(context.is_admin))
        _check_pair(_device(instance, volume_id), old, new)
        action_id, host = self.db.write(_begin, context, instance.uuid, volume_id, new, self._lease())
        try:
            with preparing.held(self.db, [action_id], self._lease()):
                attachment = self.volume.reserve(admin_context(), new_volume_id, instance.uuid)
        except exception.ServiceUnavailable:      # it is not known whether the volume was reserved, and Cinder may still do so
            self.db.write(_leave_to_sweeper, action_id, host, DOUBT * self.conf.service_user.timeout)
            raise
        except Exception as error:
            self.db.write(give_up, action_id, exception.public_of(error))
            raise
        if not self.db.write(_hand_over, action_id, host, attachment.id, self._lease()):
            release.undo(self.volume, instance.uuid, [BlockDevice("", bd.VOLUME, attachment_id=attachment.id)])
            raise exception.Conflict(f"The server was deleted, or the request taken for dead, before volume {new_volume_id} "
                                     "was reserved for it")
        LOG.info("swap_volume %s for %s: action %s", volume_id, new_volume_id, action_id,
                 extra={"instance_uuid": instance.uuid})
        self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])


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


def _begin(connection: sa.Connection, context: RequestContext, uuid: str, volume_id: str, new: Volume,
           lease_seconds: float) -> tuple[int, str]:
    instance = instances.get(connection, uuid, lock=True)
    operations.check(operations.VERBS["swap_volume"], instance, may_override_lock=bool(context.is_admin))
    device = _device(instance, volume_id)
    if not instance.host:
        raise exception.InstanceNotReady(instance_id=uuid)
    for other in actions.open_of_instances(connection, [uuid]).get(uuid, ()):
        if other.arguments.get("device_id") == device.id:
            raise exception.InvalidVolume(reason=f"volume {volume_id} is in the middle of '{other.verb}'")
    arguments = {"device_id": device.id, "volume_id": volume_id, "old": device.to_primitive(), "new_volume_id": new.id,
                 "new_size": new.size}
    [action_id] = actions.create(connection, context, "swap_volume", [uuid], lease_seconds, action_objects.API,
                                 instance.host, arguments)
    return action_id, instance.host


def _hand_over(connection: sa.Connection, action_id: int, host: str, attachment_id: str, lease_seconds: float) -> bool:
    """False when another worker has the action, or the server is gone."""
    action = actions.lock(connection, [action_id])[action_id]
    if (action.stage, action.state) != (action_objects.API, action_objects.PENDING):
        return False
    actions.hand_over(connection, [action_id], lease_seconds, action_objects.COMPUTE, host,
                      {**action.arguments, "new_attachment_id": attachment_id})
    return True


def _leave_to_sweeper(connection: sa.Connection, action_id: int, host: str, seconds: float) -> None:
    """The sweeper finds the action after ``seconds``, as it finds that of a request that died."""
    action = actions.lock(connection, [action_id])[action_id]
    if (action.stage, action.state) == (action_objects.API, action_objects.PENDING):
        actions.hand_over(connection, [action_id], seconds, action_objects.API, host)
