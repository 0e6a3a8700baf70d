"""What actions that failed still owe to neighbours, paid by a conductor.

Whoever carries out an action and fails leaves nothing. What is left is that of actions that were given up, or closed with their
server or after os-resetState, and what a neighbour did not hear or want just then: images that never got their data, snapshots
of volumes that no image names, the answer that the Volume service waits for when it has asked for the exchange of a volume.
A failed action stays written down as one to be looked at until that has been done.
"""
from __future__ import annotations

import functools
from dataclasses import replace

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.context import admin_context
from nova_lite.db import actions, instances
from nova_lite.db.core import Database
from nova_lite.image import base as image_base
from nova_lite.objects.action import Action
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.operations import Debt
from nova_lite.volume import image_snapshots, release
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
INTERVAL = 60.0
LIMIT = 100         # actions in one run; the next run takes the others
_ACTIVE = "active"
_WAITS = ("starting", "migrating")      # migration_status of a volume whose service has heard nothing yet


class Debts:
    """Any number of conductors may look, each at another action."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, volume: VolumeAPI) -> None:
        self._conf, self._db, self._volume = conf, db, volume

    def run(self) -> None:
        """Look at the actions whose time has come. What cannot be done now comes again some time later."""
        for _ in range(LIMIT):
            action = self._db.write(actions.next_owing)
            if action is None:
                return
            extra = {"instance_uuid": action.instance_uuid}
            try:
                is_paid = self._pay(action)
            except exception.ServiceUnavailable as error:
                LOG.warning("what a failed '%s' has left is looked at later: %s", action.verb, error, extra=extra)
                continue
            except exception.NovaLiteError as error:        # its owner has to see to it
                LOG.warning("what a failed '%s' has left stays: %s: %s", action.verb, action.arguments, error, extra=extra)
                is_paid = True
            except Exception:       # one action that nobody understands must not keep the others from being looked at
                LOG.exception("what a failed '%s' has left is looked at later", action.verb, extra=extra)
                continue
            if is_paid:
                self._db.write(actions.paid, action.id)

    def _pay(self, action: Action) -> bool:
        """False: it is too early for that."""
        owes = operations.of(action).owes
        if owes is Debt.SNAPSHOTS:
            return self._drop_snapshots(action)
        if owes is Debt.ANSWER:
            self._answer(action)
        else:
            self._delete_image(action)
        return True

    @functools.cached_property
    def _images(self) -> image_base.ImageAPI:
        """Not before somebody needs it: few do."""
        return image_base.load(self._conf)

    def _server(self, action: Action) -> Instance | None:
        with self._db.read() as conn:
            return instances.get_many(conn, [action.instance_uuid], deleted=True, tags=False).get(action.instance_uuid)

    def _delete_image(self, action: Action) -> None:
        """Unless it has its data: only the worker's report was lost then."""
        image_id = action.arguments.get("image_id")
        if image_id is None:        # written down by another version
            return
        try:
            if self._images.get(admin_context(), image_id).status == _ACTIVE:
                return
            self._images.delete(admin_context(), image_id)
        except exception.ImageNotFound:
            return
        LOG.info("image %s will never have data: deleted", image_id, extra={"instance_uuid": action.instance_uuid})

    def _drop_snapshots(self, action: Action) -> bool:
        """As on a host (``compute/snapshot.py``). False: some are still being made. While they were there, no volume could be
        deleted with its server."""
        uuid, taken = action.instance_uuid, action.arguments["snapshots"]
        if not taken or image_snapshots.are_named(self._images, uuid, taken):
            return True
        dropped = [image_snapshots.drop(self._volume, uuid, snapshot_id) for snapshot_id in taken]
        if not all(dropped):
            return False
        LOG.info("snapshots %s are of no image: deleted", ", ".join(taken), extra={"instance_uuid": uuid})
        server = self._server(action)
        if server is not None and server.deleted:
            release.delete_volumes(self._volume, server)
        return True

    def _answer(self, action: Action) -> None:
        """Tell how a migration ended that nobody works on any more. Which volume counts says the record of the server: the
        guest had the new one only after that was written down, and by then both were the same."""
        server, wanted = self._server(action), action.arguments
        if server is None or self._is_exchanged_again(server, wanted["device_id"]):
            return
        old_id, new_id = wanted["volume_id"], wanted["new_volume_id"]
        device = next((d for d in server.block_devices if d.id == wanted["device_id"]), None)
        has_new = device is not None and device.volume_id == new_id
        if has_new and not server.deleted:
            LOG.error("the exchange of volume %s for %s was given up in its last steps: the Volume service waits to hear of "
                      "it, for the guest may still have both", old_id, new_id, extra={"instance_uuid": server.uuid})
            return
        if server.deleted:
            release.release_all(self._volume, server)
        new = replace(BlockDevice.from_primitive(wanted["old"]), volume_id=new_id,
                      attachment_id=wanted.get("new_attachment_id"))
        release.release_volume(self._volume, server.uuid, new)
        if self._waits(old_id, new_id):
            self._volume.complete_migration(admin_context(), old_id, new_id, not has_new)
            LOG.info("the exchange of volume %s for %s has %s: the Volume service was told", old_id, new_id,
                     "ended well" if has_new else "failed", extra={"instance_uuid": server.uuid})
        if server.deleted and device is not None:       # nothing of this did the Volume service do before it had its answer
            self._volume.make_available(admin_context(), old_id)
            if self._is_going(new_id):
                device.volume_id = old_id
            release.delete_volumes(self._volume, server)

    def _is_exchanged_again(self, server: Instance, device_id: str) -> bool:
        """Then the Volume service had its answer, and waits for another one."""
        with self._db.read() as conn:
            others = operations.known(actions.open_of_instances(conn, [server.uuid]).get(server.uuid, ()))
        return any(row.owes is Debt.ANSWER and other.arguments["device_id"] == device_id for other, row in others)

    def _waits(self, old_id: str, new_id: str) -> bool:
        """Whether the Volume service has had no answer: with one it deletes what has the new one's id then."""
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
