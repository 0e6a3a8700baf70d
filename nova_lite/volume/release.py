"""What a server holds in the Volume service, given back: after a failed build, with its delete, by whoever does it.

Everything here can be run twice, and acts as the service: a user's token is long gone when it is done.
"""
from __future__ import annotations

import time
from collections.abc import Iterable

from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects.block_device import VOLUME, BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.volume import CREATING
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
PAUSES = (0.2, 1.0, 2.0, 5.0)           # seconds between tries to delete a volume that was in use a moment ago
MAKING_PAUSE = 1.0
CREATE_TIMEOUT = 600.0                  # seconds that the making of a volume may take
DOWNLOADING = "downloading"


def metadata_of(instance_uuid: str, device: BlockDevice) -> dict[str, str]:
    """What a volume that is made for a server carries, so that it is found whatever happened to the one who made it."""
    return {"nova_lite_server": instance_uuid, "nova_lite_device": device.id}


def release_all(volumes: VolumeAPI, instance: Instance) -> None:
    """Give back every attachment of the server, also those that nobody has written down. Raises ServiceUnavailable."""
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


def delete_volumes(volumes: VolumeAPI, instance: Instance) -> None:
    """Delete the volumes that are to go with the server, and those of which nobody was ever told: their request ended in
    the middle. A volume that the Volume service does not want to delete stays, and is logged. Raises ServiceUnavailable."""
    delete_unknown(volumes, instance)
    for device in instance.volumes:
        if device.volume_id is not None and device.delete_on_termination:
            _delete(volumes, admin_context(), instance.uuid, device.volume_id)


def delete_unknown(volumes: VolumeAPI, instance: Instance) -> None:
    """Delete the volumes of the server of which nobody was ever told. Raises ServiceUnavailable."""
    context = admin_context()
    for device in instance.volumes:
        if device.volume_id is None and device.source_type != VOLUME:
            for volume in volumes.find(context, metadata_of(instance.uuid, device)):
                _delete(volumes, context, instance.uuid, volume.id)


def undo(volumes: VolumeAPI, instance_uuid: str, devices: Iterable[BlockDevice]) -> None:
    """Give back what one request has reserved and created for a server that is not to be."""
    context = admin_context()
    for device in devices:
        if device.attachment_id is not None:
            volumes.release(context, device.attachment_id)
        if device.is_volume and device.volume_id is not None and device.source_type != VOLUME:
            _delete(volumes, context, instance_uuid, device.volume_id)


def _delete(volumes: VolumeAPI, context: RequestContext, instance_uuid: str, volume_id: str) -> None:
    extra = {"instance_uuid": instance_uuid}
    pauses, deadline = iter(PAUSES), time.monotonic() + CREATE_TIMEOUT
    while True:
        try:
            volumes.delete(context, volume_id)
            LOG.info("volume %s deleted with its server", volume_id, extra=extra)
            return
        except exception.NotFound:
            return
        except exception.ServiceUnavailable:
            raise
        except exception.NovaLiteError as error:
            # what is still being made cannot be deleted yet; what was just detached may need a moment
            pause = MAKING_PAUSE if _is_being_made(volumes, context, volume_id) else next(pauses, None)
            if pause is None or time.monotonic() > deadline:
                LOG.warning("volume %s stays: %s", volume_id, error, extra=extra)
                return
            time.sleep(pause)


def _is_being_made(volumes: VolumeAPI, context: RequestContext, volume_id: str) -> bool:
    try:
        return volumes.get(context, volume_id).status in (CREATING, DOWNLOADING)
    except exception.NotFound:
        return False
