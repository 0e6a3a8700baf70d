"""Releases what a server holds in the Volume service: after a failed build, and with its delete, on hosts and conductors.

Each function can be run twice, and acts as the service: the user's token has expired by then.
"""
from __future__ import annotations

import operator
from collections.abc import Iterable

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects.block_device import VOLUME, BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import CREATING
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
CREATE_TIMEOUT = 600.0                  # seconds that the making of a volume may take
DELETES = retry.Schedule((0.2, 1.0, 2.0, 5.0))           # tries to delete a volume that was in use a moment ago
MAKING_PAUSE = 1.0                      # seconds between two reads of a volume that is being made
DOWNLOADING = "downloading"


def metadata_of(instance_uuid: str, device: BlockDevice) -> dict[str, str]:
    """The metadata of a volume that is created for a server, by which it is found when its creator dies."""
    return {"nova_lite_server": instance_uuid, "nova_lite_device": device.id}


def release_all(volumes: VolumeAPI, instance: Instance) -> None:
    """Delete every attachment of the server, also those that are not recorded. Raises ServiceUnavailable."""
    if not instance.volumes:
        return
    context = admin_context()
    found = {a.id for a in volumes.attachments(context, instance.uuid)}
    for attachment_id in sorted(found | {d.attachment_id for d in instance.volumes if d.attachment_id}):
        volumes.release(context, attachment_id)


def release_volume(volumes: VolumeAPI, instance_uuid: str, device: BlockDevice) -> None:
    """The same for one volume of the server."""
    context = admin_context()
    found = {a.id for a in volumes.attachments(context, instance_uuid) if a.volume_id == device.volume_id}
    for attachment_id in sorted(found | ({device.attachment_id} if device.attachment_id else set())):
        volumes.release(context, attachment_id)


def delete_volumes(volumes: VolumeAPI, instance: Instance, clock: retry.Clock = retry.SYSTEM) -> None:
    """Delete the volumes that go with the server, and volumes that were created for it and not recorded because the request
    died. A volume that the Volume service refuses to delete stays, and is logged. Raises ServiceUnavailable."""
    delete_unknown(volumes, instance, clock)
    for device in instance.volumes:
        if device.volume_id is not None and device.delete_on_termination:
            _delete(volumes, instance.uuid, device.volume_id, clock)


def delete_unknown(volumes: VolumeAPI, instance: Instance, clock: retry.Clock = retry.SYSTEM) -> None:
    """Delete the volumes that were created for the server and not recorded. Raises ServiceUnavailable."""
    context = admin_context()
    for device in instance.volumes:
        if device.volume_id is None and device.source_type != VOLUME:
            for volume in volumes.find(context, metadata_of(instance.uuid, device)):
                _delete(volumes, instance.uuid, volume.id, clock)


def undo(volumes: VolumeAPI, instance_uuid: str, devices: Iterable[BlockDevice], clock: retry.Clock = retry.SYSTEM) -> None:
    """Release what one request has reserved and created for a server that will not be built."""
    context = admin_context()
    for device in devices:
        if device.attachment_id is not None:
            volumes.release(context, device.attachment_id)
        if device.is_volume and device.volume_id is not None and device.source_type != VOLUME:
            _delete(volumes, instance_uuid, device.volume_id, clock)


def _delete(volumes: VolumeAPI, instance_uuid: str, volume_id: str, clock: retry.Clock) -> None:
    """A volume that is still being made cannot be deleted yet; one that was just detached may need a moment. All waits together
    end after CREATE_TIMEOUT."""
    context, extra = admin_context(), {"instance_uuid": instance_uuid}
    deadline = clock.monotonic() + CREATE_TIMEOUT

    def wait_until_made(error: Exception, _pause: float) -> None:
        left = deadline - clock.monotonic()
        if left <= 0:
            raise error
        retry.poll(lambda: _is_being_made(volumes, context, volume_id), operator.not_,
                   retry.every(MAKING_PAUSE, timeout=left), clock)

    try:
        retry.on_error(lambda: volumes.delete(context, volume_id), _is_refusal, DELETES, clock, before_pause=wait_until_made)
    except exception.NotFound:
        return
    except exception.ServiceUnavailable:
        raise
    except exception.NovaLiteError as error:
        LOG.warning("volume %s stays: %s", volume_id, error, extra=extra)
        return
    LOG.info("volume %s deleted with its server", volume_id, extra=extra)


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, exception.NovaLiteError) and not isinstance(
        error, exception.NotFound | exception.ServiceUnavailable)


def _is_being_made(volumes: VolumeAPI, context: RequestContext, volume_id: str) -> bool:
    try:
        return volumes.get(context, volume_id).status in (CREATING, DOWNLOADING)
    except exception.NotFound:
        return False
