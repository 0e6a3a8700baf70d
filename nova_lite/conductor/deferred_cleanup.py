"""Clean-up after failed actions, done by a conductor some time later.

A worker that fails cleans up itself. Deferred clean-up is for actions that were given up, or closed with their server or by
os-resetState, and for requests that another service refused at that time. It deletes images that never got their data, and
snapshots of volumes that no image names. It reports the result of an exchange of volumes to the Volume service. ``lease_until``
of a failed action is the time of the next try; it is empty once the clean-up is done.
"""
from __future__ import annotations

import functools
from dataclasses import replace

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, retry
from nova_lite.context import admin_context
from nova_lite.db import actions, instances
from nova_lite.db.core import Database
from nova_lite.image import base as image_base
from nova_lite.objects.action import Action
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.operations import PendingCleanup
from nova_lite.volume import image_snapshots, release
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
INTERVAL = 60.0
LIMIT = 100         # actions in one run; the next run takes the others
_ACTIVE = "active"
_WAITS = ("starting", "migrating")      # migration_status of a volume until the Volume service has its answer


class DeferredCleanup:
    """Any number of conductors may run it: each takes another action."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, volume: VolumeAPI, clock: retry.Clock = retry.SYSTEM) -> None:
        self._conf, self._db, self._volume, self._clock = conf, db, volume, clock

    def run(self) -> None:
        """Clean up after the failed actions that are due. What fails is tried again later."""
        for _ in range(LIMIT):
            action = self._db.write(actions.next_cleanup)
            if action is None:
                return
            extra = {"instance_uuid": action.instance_uuid}
            try:
                is_done = self._clean_up(action)
            except exception.ServiceUnavailable as error:
                LOG.warning("the clean-up of a failed '%s' is tried again later: %s", action.verb, error, extra=extra)
                continue
            except exception.NovaLiteError as error:        # a further try would fail too: the user or operator has to act
                LOG.warning("the clean-up of a failed '%s' was refused: %s: %s", action.verb, action.arguments, error,
                            extra=extra)
                is_done = True
            except Exception:       # one faulty action must not stop the clean-up of the others
                LOG.exception("the clean-up of a failed '%s' is tried again later", action.verb, extra=extra)
                continue
            if is_done:
                self._db.write(actions.cleanup_done, action.id)

    def _clean_up(self, action: Action) -> bool:
        """False: the clean-up cannot be done yet."""
        pending = operations.of(action).pending_cleanup
        if pending is PendingCleanup.SNAPSHOTS:
            return self._drop_snapshots(action)
        if pending is PendingCleanup.ANSWER:
            self._answer(action)
        else:
            self._delete_image(action)
        return True

    @functools.cached_property
    def _images(self) -> image_base.ImageAPI:
        """Made at the first use: few clouds need it."""
        return image_base.load(self._conf)

    def _server(self, action: Action) -> Instance | None:
        with self._db.read() as conn:
            return instances.get_many(conn, [action.instance_uuid], deleted=True, tags=False).get(action.instance_uuid)

    def _delete_image(self, action: Action) -> None:
        """An image that has its data stays: only the worker's report was lost."""
        image_id = action.arguments.get("image_id")
        if image_id is None:        # the action is of another version
            return
        try:
            if self._images.get(admin_context(), image_id).status == _ACTIVE:
                return
            self._images.delete(admin_context(), image_id)
        except exception.ImageNotFound:
            return
        LOG.info("image %s will never have data: deleted", image_id, extra={"instance_uuid": action.instance_uuid})

    def _drop_snapshots(self, action: Action) -> bool:
        """As on a host (``compute/snapshot.py``). False: some snapshots are still being made. Volumes of a deleted server that
        could not be deleted because of the snapshots are deleted now."""
        uuid, taken = action.instance_uuid, action.arguments["snapshots"]
        if not taken or image_snapshots.are_named(self._images, uuid, taken):
            return True
        dropped = [image_snapshots.drop(self._volume, uuid, snapshot_id) for snapshot_id in taken]
        if not all(dropped):
            return False
        LOG.info("snapshots %s belong to no image: deleted", ", ".join(taken), extra={"instance_uuid": uuid})
        server = self._server(action)
        if server is not None and server.deleted:
            release.delete_volumes(self._volume, server, self._clock)
        return True

    def _answer(self, action: Action) -> None:
        """Report the end of an exchange of volumes that no worker does any more. The server's record says which volume is
        valid: the host wrote the new one there, after both had the same data, before the guest used it."""
        server, wanted = self._server(action), action.arguments
        if server is None or self._is_exchanged_again(server, wanted["device_id"]):
            return
        old_id, new_id = wanted["volume_id"], wanted["new_volume_id"]
        device = next((d for d in server.block_devices if d.id == wanted["device_id"]), None)
        has_new = device is not None and device.volume_id == new_id
        if has_new and not server.deleted:
            LOG.error("the exchange of volume %s for %s was given up in its last steps: the Volume service still "
                      "waits for an answer, since the guest may have both", old_id, new_id,
                      extra={"instance_uuid": server.uuid})
            return
        if server.deleted:
            release.release_all(self._volume, server)
        new = replace(BlockDevice.from_primitive(wanted["old"]), volume_id=new_id,
                      attachment_id=wanted.get("new_attachment_id"))
        release.release_volume(self._volume, server.uuid, new)
        if self._waits(old_id, new_id):
            self._volume.complete_migration(admin_context(), old_id, new_id, not has_new)
            LOG.info("the exchange of volume %s for %s has %s: reported to the Volume service", old_id, new_id,
                     "ended well" if has_new else "failed", extra={"instance_uuid": server.uuid})
        if server.deleted and device is not None:       # the Volume service did none of this before it had its answer
            self._volume.make_available(admin_context(), old_id)
            if self._is_going(new_id):
                device.volume_id = old_id
            release.delete_volumes(self._volume, server, self._clock)

    def _is_exchanged_again(self, server: Instance, device_id: str) -> bool:
        """Whether another exchange of the device is open. Then the Volume service has had its answer, and waits for another
        one."""
        with self._db.read() as conn:
            others = operations.known(actions.open_of_instances(conn, [server.uuid]).get(server.uuid, ()))
        return any(row.pending_cleanup is PendingCleanup.ANSWER and other.arguments["device_id"] == device_id
                   for other, row in others)

    def _waits(self, old_id: str, new_id: str) -> bool:
        """Whether the Volume service still waits for an answer. After the answer it deletes the volume with the new id."""
        try:
            is_migrating = self._volume.get(admin_context(), old_id).migration_status in _WAITS
        except exception.VolumeNotFound:
            return False
        return is_migrating and not self._is_going(new_id)

    def _is_going(self, volume_id: str) -> bool:
        try:
            return "deleting" in self._volume.get(admin_context(), volume_id).status
        except exception.VolumeNotFound:
            return True
