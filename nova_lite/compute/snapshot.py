"""Images of servers: the host copies the disk, and uploads it to the image that the API has created.

The id of the image is an argument of the action, so a second run continues with the same image. An active image is done. An
image without data gets its data. A deleted image ends the action. A failure deletes the image, and leaves the server as it was.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from oslo_log import log

from nova_lite import exception, retry, units
from nova_lite.compute.work import Work, ignore_conductor_outage, retry_until_available
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.image import ImageMeta
from nova_lite.runtime import concurrency
from nova_lite.virt.driver import DiskCopy
from nova_lite.volume import image_snapshots

LOG = log.getLogger(__name__)
CHUNK = units.MiB
LOOK_SECONDS = 5.0              # while data flows, between two checks of the lease
UPLOADS = retry.Schedule((0.5, 1.0, 2.0, 4.0, 8.0, 15.0))    # reads of an upload that a killed run has begun
SNAPSHOTS = retry.Schedule((0.5, 1.0, 2.0, *(5.0,) * 12))   # tries to delete a snapshot that may still be being made
QUEUED, SAVING, ACTIVE = "queued", "saving", "active"
BARE = "bare"


def create_image(work: Work) -> None:
    """Make the image active. Raises what kept it from becoming active."""
    _make_or_discard(work)
    work.succeed()


def create_backup(work: Work) -> None:
    """Make the image active in place of the oldest backup. Raises what kept it from becoming active."""
    _make_or_discard(work)
    _rotate(work)
    work.succeed()


def _make_or_discard(work: Work) -> None:
    image_id = work.action.arguments["image_id"]
    try:
        make(work, image_id)
    except exception.ImageNotFound:      # the last: its owner has deleted it
        raise
    except Exception:
        discard(work, image_id)
        raise


def make(work: Work, image_id: str, pending: str = states.IMAGE_PENDING_UPLOAD,
         uploading: str = states.IMAGE_UPLOADING) -> None:
    """Give an image the data of the root disk, as far as it has none; the task_states are those of the operation."""
    context, host = admin_context(), work.host
    steps: list[str | None] = list(work.verb.working)
    if states.IMAGE_SNAPSHOT in steps:
        work.update({"task_state": states.IMAGE_SNAPSHOT}, steps)
    image = _settled(work, image_id)
    if image.status == ACTIVE:
        return
    if image.status != QUEUED:
        raise exception.ImageUnacceptable(image_id=image_id, reason=f"it is {image.status}, and takes no data")
    work.update({"task_state": pending}, steps)
    with host.driver.snapshot(work.instance, ignore_conductor_outage(lambda: work.update({}, [pending]))) as copy:
        work.update({"task_state": uploading}, steps)
        if (image.disk_format, image.container_format) != (copy.disk_format, BARE):
            host.image.update(context, image_id, {"disk_format": copy.disk_format, "container_format": BARE})
        try:
            host.image.upload(context, image_id, _pieces(work, copy, uploading))
        except (exception.Conflict, exception.ServiceUnavailable):
            if host.image.get(context, image_id).status != ACTIVE:      # the answer was lost, not the data
                raise
    LOG.info("image %s was made", image_id, extra={"instance_uuid": work.instance.uuid})


def _settled(work: Work, image_id: str) -> ImageMeta:
    """The image, after the upload of a killed run has ended: Glance sets it to queued again."""
    return retry.poll(lambda: work.host.image.get(admin_context(), image_id), lambda image: image.status != SAVING, UPLOADS,
                      work.host.clock)


def _pieces(work: Work, copy: DiskCopy, uploading: str) -> Iterator[bytes]:
    """The data. Raises UnexpectedTaskState when the server is deleted meanwhile."""
    looked = time.monotonic()
    with open(copy.path, "rb") as stream:
        while piece := concurrency.native(stream.read, CHUNK):
            yield piece
            if time.monotonic() - looked > LOOK_SECONDS:
                work.update({}, [uploading])
                looked = time.monotonic()


def discard(work: Work, image_id: str) -> None:
    """No image is better than half of one. When that fails, too, its owner has to delete it: the first error counts."""
    try:
        work.host.image.delete(admin_context(), image_id)
    except exception.ImageNotFound:
        return
    except exception.NovaLiteError as error:
        LOG.warning("image %s has no data and could not be deleted: %s", image_id, error,
                    extra={"instance_uuid": work.instance.uuid})


def end_of_volumes(work: Work) -> None:
    """Finish a request that died (``compute/api/volume_images.py``): thaw the guest, and delete the snapshots, unless an image
    names them. Raises Conflict with the error of the request."""
    images, arguments = work.host.image, work.action.arguments
    taken = arguments["snapshots"]
    work.host.driver.unquiesce(work.instance)
    if taken and retry_until_available(work, lambda: image_snapshots.are_named(images, work.instance.uuid, taken)):
        work.succeed()
        return
    for snapshot_id in taken:
        retry_until_available(work, partial(_drop_snapshot, work, snapshot_id))
    raise exception.Conflict(arguments.get("error") or "The request ended before the image was made")


def _drop_snapshot(work: Work, snapshot_id: str) -> None:
    """One that takes long to be made is left to the conductor (``conductor/deferred_cleanup.py``)."""
    retry.poll(lambda: image_snapshots.drop(work.host.volume, work.instance.uuid, snapshot_id), bool, SNAPSHOTS,
               work.host.clock)


def _rotate(work: Work) -> None:
    """Delete the oldest backups of this server and type, as many as there are more than the rotation."""
    images, wanted = work.host.image, work.action.arguments
    kept = {"instance_uuid": work.instance.uuid, "image_type": "backup", "backup_type": wanted["backup_type"]}
    found = [i for i in images.list(admin_context(), kept) if i.owner == work.instance.project_id and i.status == ACTIVE]
    found.sort(key=lambda image: (image.created_at, image.id == wanted["image_id"]), reverse=True)
    for old in found[int(wanted["rotation"]):]:
        LOG.info("backup %s is deleted by rotation", old.id, extra={"instance_uuid": work.instance.uuid})
        try:
            images.delete(admin_context(), old.id)
        except (exception.ImageNotFound, exception.Forbidden, exception.Conflict) as error:
            LOG.warning("backup %s stays: %s", old.id, error, extra={"instance_uuid": work.instance.uuid})


VERBS: dict[str, Callable[[Work], None]] = {
    "createImage": create_image, "createBackup": create_backup, "snapshot_volumes": end_of_volumes}
