"""Rebuilds on a host: the guest ends, its root disk is made again, and the guest starts with the rest that it had.

The task_state shows how far the rebuild is, so a second run continues there. The image is fetched while the old guest still
runs: when the image cannot be fetched, no disk is lost. Nor is a disk lost when this host cannot make a guest of the image, or
when the old guest does not end: then the server keeps its old image.
"""
from __future__ import annotations

from oslo_log import log

from nova_lite import exception, retry, units
from nova_lite.compute import build, volumes
from nova_lite.compute.work import Work, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.volume import ERROR

LOG = log.getLogger(__name__)
DOWNLOADING = "downloading"
REIMAGES = retry.every(1.0, timeout=1800.0)     # reads of a volume while the Volume service writes an image onto it
_ASKED = "reimage_asked"        # in the action's arguments, from just before it asks the Volume service


def run(work: Work) -> None:
    """Rebuild one server. It ends running or stopped, as it was before. Raises the error: then the server is in ERROR, unless
    it still has its old guest because this host cannot make the new one."""
    instance = work.instance
    if instance.task_state == states.REBUILDING:
        try:
            work.host.driver.check_spawn(instance, instance.network_info)
        except exception.NovaLiteError as error:
            _stay(work, error, instance.vm_state)
            return
        try:
            _fetch(work)
            _shut_down(work)
        except (exception.InstanceNotFound, exception.UnexpectedTaskState):     # a delete has the server
            raise
        except Exception as error:
            _stay(work, error, states.ERROR)
            return
        _go_on(work, states.REBUILD_BLOCK_DEVICE_MAPPING)
    if instance.task_state == states.REBUILD_BLOCK_DEVICE_MAPPING:
        keep = bool(work.action.arguments.get("preserve_ephemeral"))
        work.host.driver.clear(instance, instance.network_info, keep)
        if "reimage" in work.action.arguments:
            _reimage(work, work.action.arguments["reimage"])
        volumes.connect_missing(work)
        _go_on(work, states.REBUILD_SPAWNING)
    work.succeed(_spawn(work))
    LOG.info("rebuilt", extra={"instance_uuid": instance.uuid})


def _go_on(work: Work, task_state: str) -> None:
    work.update({"task_state": task_state}, [work.instance.task_state])
    work.instance.task_state = task_state


def _stay(work: Work, error: Exception, vm_state: str) -> None:
    """Nothing was done to the guest yet, but that it may be off: its disk is of the old image, and so is its record."""
    instance = work.instance
    LOG.error("not rebuilt, and left as it was: %s", error, extra={"instance_uuid": instance.uuid},
              exc_info=needs_stack(error))
    updates = {"vm_state": vm_state, **work.action.arguments.get(states.BEFORE, {})}
    try:
        power_state = work.host.driver.power_state(instance)
        updates["power_state"] = states.NOSTATE if power_state is None else power_state
    except exception.VirtDriverError as unknown:        # the cause of the failure may also prevent this
        LOG.warning("its power state could not be read: %s", unknown, extra={"instance_uuid": instance.uuid})
    work.fail(error, updates)


def _fetch(work: Work) -> None:
    instance = work.instance
    if instance.image is not None and instance.image.id and not instance.is_volume_backed:
        work.host.driver.cache_image(instance.image, build.fetcher(work, instance.image))


def _shut_down(work: Work) -> None:
    host, instance = work.host, work.instance
    if host.driver.power_state(instance) is not None:
        host.driver.power_off(instance, host.conf.compute.shutdown_timeout)


def _spawn(work: Work) -> dict[str, object]:
    """Start the guest; what its server is then."""
    host, instance = work.host, work.instance
    for vif in instance.network_info:
        host.network.plug(instance, vif)
    files = build.guest_files(work, instance.network_info)
    host.driver.spawn(instance, instance.network_info, files, build.fetcher(work, instance.image), check=work.check)
    volumes.complete_all(work)
    updates = {"launched_at": units.utcnow().isoformat(), "personality": None, **volumes.columns(instance)}
    if instance.vm_state == states.STOPPED:
        host.driver.power_off(instance, 0)
        updates |= {"vm_state": states.STOPPED, "power_state": states.SHUTDOWN}
    return updates


def _reimage(work: Work, image_id: str) -> None:
    """Let the Volume service write the image onto the root disk, which no host has meanwhile."""
    root = next(d for d in work.instance.volumes if d.is_root)
    volumes.release_from_host(work, root)
    context, volume_id = admin_context(), root.volume_id or ""
    if not work.action.arguments.get(_ASKED):       # what is being written is the image of an earlier rebuild, which failed
        _wait_until_written(work, volume_id)
        work.note({_ASKED: True})
    if work.host.volume.get(context, volume_id).status != DOWNLOADING:      # a run that was killed may have asked already
        work.host.volume.reimage(context, volume_id, image_id)
    status = _wait_until_written(work, volume_id)
    if status in (DOWNLOADING, ERROR):
        raise exception.VolumeNotReimaged(volume_id=volume_id, image_id=image_id, status=status)
    LOG.info("volume %s has image %s now", volume_id, image_id, extra={"instance_uuid": work.instance.uuid})


def _wait_until_written(work: Work, volume_id: str) -> str:
    """The status of a volume when no image is written onto it any more, or of one for which that takes too long."""
    return retry.poll(lambda: work.host.volume.get(admin_context(), volume_id).status, lambda status: status != DOWNLOADING,
                      REIMAGES, work.host.clock,
                      before_pause=lambda: work.update({}, [states.REBUILD_BLOCK_DEVICE_MAPPING]))     # a delete ends it
