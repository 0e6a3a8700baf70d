"""Snapshots of volumes that were taken for an image: of use only as long as there is one that names them."""
from __future__ import annotations

from collections.abc import Collection

from oslo_log import log

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.image.base import ImageAPI
from nova_lite.objects.volume import CREATING
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
_QUEUED = "queued"


def are_named(images: ImageAPI, instance_uuid: str, taken: Collection[str]) -> bool:
    """Whether an image of the server names all of the snapshots. Such an image without data that is still queued is completed.
    Raises ServiceUnavailable."""
    for image in images.list(admin_context(), {"instance_uuid": instance_uuid}):
        if all(snapshot_id in str(image.properties.get("block_device_mapping")) for snapshot_id in taken):
            if image.status == _QUEUED:
                images.upload(admin_context(), image.id, [])
            return True
    return False


def drop(volumes: VolumeAPI, instance_uuid: str, snapshot_id: str) -> bool:
    """Delete a snapshot. False: it is still being made, and cannot be deleted yet. A snapshot that the Volume service refuses
    to delete is left to its owner, and logged. Raises ServiceUnavailable."""
    try:
        if volumes.get_snapshot(admin_context(), snapshot_id).status == CREATING:
            return False
        volumes.delete_snapshot(admin_context(), snapshot_id)
    except exception.SnapshotNotFound:
        return True
    except (exception.InvalidVolume, exception.Conflict, exception.Forbidden) as error:
        LOG.warning("snapshot %s of a volume is of no use and could not be deleted: %s", snapshot_id, error,
                    extra={"instance_uuid": instance_uuid})
    return True
