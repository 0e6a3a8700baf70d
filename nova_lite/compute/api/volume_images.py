"""Images of servers that boot from a volume: no data, but snapshots of all volumes, made by the request with the user's token.

An action names the snapshots. When the request fails or dies, the host of the server continues (``compute/snapshot.py``): it
thaws the guest, and removes the snapshots, or completes the image that names them.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations, retry, units
from nova_lite.compute.api import block_devices, preparing
from nova_lite.compute.api.server_images import ServerImages, check_image, forget_image, image_record
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances
from nova_lite.objects import action as action_objects
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.hardware.asked import is_true
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
VERB, EVENT = "snapshot_volumes", "api_snapshot_instance"
QUIET_SECONDS, LOOK = 60.0, 0.5     # how long a guest may be frozen until its snapshots are made; the pause between two reads


@dataclass
class _Guest:
    """The state of the guest, as the request knows it. Neither field is true where answers were lost: then the host has to thaw
    the guest."""

    is_quiet: bool = False
    thawed: bool = True


class VolumeImages(ServerImages):
    """createImage, where it cannot be the host's."""

    def create_image_of_volumes(self, context: RequestContext, instance: Instance, name: str,
                                metadata: Mapping[str, str]) -> str:
        """An image without data, which names snapshots of all volumes of a server that boots from one: a server of it gets
        new volumes of these. Active at once. Raises as :meth:`create_image`, what the Volume service says to the user, and
        QemuGuestAgentNotEnabled or InstanceQuiesceFailed (409)."""
        check_image(context, instance, "createImage")
        action_id, host = self.db.write(_begin, context, instance.uuid, self.conf.conductor.lease_seconds)
        started, taken = units.utcnow(), list[str]()
        image_id, guest = None, _Guest()
        try:
            with preparing.held(self.db, [action_id], self.conf.conductor.lease_seconds):
                self._freeze(context, instance, guest)
                try:
                    mapping = self._snapshots(context, instance, name, action_id, taken)
                    if guest.is_quiet:
                        self._wait_until_made(context, instance, taken)
                finally:
                    if guest.is_quiet:
                        guest.thawed = self._thaw(context, instance)
                record = _record(context, instance, name, metadata, mapping)
                image_id = self.image.create(context, record).id
                self.image.upload(context, image_id, [])
            if not self._end(context, action_id, host, actions.event(EVENT, self.conf.host, started), guest.thawed):
                raise _taken_over()
        except Exception as error:
            if image_id is not None:
                forget_image(self.image, context, image_id, instance)
            text = exception.public_of(error)
            event = actions.event(EVENT, self.conf.host, started, error=text)
            self._give_up(context, instance, action_id, host, event, text, guest.thawed, taken)
            raise
        return image_id

    def _freeze(self, context: RequestContext, instance: Instance, guest: _Guest) -> None:
        """Freeze the guest's file systems, if it runs and has an agent, as in Nova."""
        required = _asks_for(instance, "os_require_quiesce")
        if instance.vm_state != states.ACTIVE or instance.host is None:
            return
        if not _asks_for(instance, "hw_qemu_guest_agent"):
            if required:
                raise exception.QemuGuestAgentNotEnabled()
            return
        guest.thawed = False
        try:
            self.compute_rpc.quiesce(context, instance.host, instance.uuid)
            guest.is_quiet = True
        except (exception.NovaLiteError, messaging.MessagingException) as error:
            guest.thawed = self._thaw(context, instance)        # an answer may be lost
            if required:
                raise exception.InstanceQuiesceFailed(reason=error) from error
            LOG.warning("snapshots without quiet: %s", error, extra={"instance_uuid": instance.uuid})

    def _thaw(self, context: RequestContext, instance: Instance) -> bool:
        """False: the guest could not be thawed; the host thaws it when it works on the action."""
        try:
            self.compute_rpc.unquiesce(context, instance.host or "", instance.uuid)
            return True
        except (exception.NovaLiteError, messaging.MessagingException) as error:
            LOG.error("the guest may still be frozen: %s", error, extra={"instance_uuid": instance.uuid})
            return False

    def _snapshots(self, context: RequestContext, instance: Instance, name: str, action_id: int,
                   taken: list[str]) -> list[dict[str, Any]]:
        """The image's mapping, with snapshots of volumes that may be in use. They are noted as they come."""
        mapping = []
        for device in instance.block_devices:
            snapshot_id = None      # of a disk of the host
            if device.is_volume and device.volume_id is not None:
                snapshot_id = self.volume.create_snapshot(context, device.volume_id, f"snapshot for {name}", force=True).id
                taken.append(snapshot_id)
                self.db.write(_note, action_id, taken)
            mapping.append(block_devices.as_mapping(device, snapshot_id))
        return mapping

    def _wait_until_made(self, context: RequestContext, instance: Instance, taken: Sequence[str]) -> None:
        """The Volume service takes a snapshot some time after the call; the guest stays frozen until then."""
        deadline = self.clock.monotonic() + QUIET_SECONDS
        for snapshot_id in taken:
            status = retry.poll(partial(self._snapshot_status, context, snapshot_id), lambda found: found != "creating",
                                retry.every(LOOK, timeout=deadline - self.clock.monotonic()), self.clock)
            if status == "creating":
                error = exception.InstanceQuiesceFailed(reason=f"snapshots were not made within {QUIET_SECONDS:.0f} s")
                if _asks_for(instance, "os_require_quiesce"):
                    raise error
                LOG.warning("snapshots without quiet: %s", error, extra={"instance_uuid": instance.uuid})
                return
            if status == "error":
                raise exception.InvalidVolume(reason=f"snapshot {snapshot_id} could not be made")

    def _snapshot_status(self, context: RequestContext, snapshot_id: str) -> str:
        return self.volume.get_snapshot(context, snapshot_id).status

    def _end(self, context: RequestContext, action_id: int, host: str, event: Mapping[str, Any], thawed: bool,
             error: str | None = None) -> bool:
        """False: another worker has the action, or the server is gone."""
        ours, waits = self.db.write(_close, action_id, host, self.conf.conductor.lease_seconds, event, thawed, error)
        if waits:
            self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])
        return ours

    def _give_up(self, context: RequestContext, instance: Instance, action_id: int, host: str, event: Mapping[str, Any],
                 error: str, thawed: bool, taken: Sequence[str]) -> None:
        """Let the host remove the snapshots: a snapshot that is still being made cannot be deleted yet. Where the host cannot,
        the conductor does. An error is only logged."""
        try:
            if self._end(context, action_id, host, event, thawed, error):
                return
            self.db.write(_leave, action_id, taken)
        except Exception:
            LOG.exception("the action is left to the sweeper", extra={"instance_uuid": instance.uuid})
        for snapshot_id in taken:       # the server was deleted, or one came when the host had been given the others
            try:
                self.volume.delete_snapshot(context, snapshot_id)
            except exception.NovaLiteError as failed:
                LOG.warning("snapshot %s of a volume is of no use and could not be deleted: %s", snapshot_id, failed,
                            extra={"instance_uuid": instance.uuid})


def _asks_for(instance: Instance, name: str) -> bool:
    return instance.image is not None and is_true(instance.image.properties.get(name, False))


def _record(context: RequestContext, instance: Instance, name: str, metadata: Mapping[str, str],
            mapping: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    properties = {"image_type": "snapshot", **metadata, "bdm_v2": "True", "block_device_mapping": json.dumps(mapping),
                  "root_device_name": instance.root_device_name or ""}
    record = image_record(context, instance, name, properties)
    root: BlockDevice | None = next((d for d in instance.block_devices if d.is_root), None)
    record["min_disk"] = instance.image.min_disk if instance.image else 0
    if root is not None and root.size:
        record["min_disk"] = min(record["min_disk"], root.size)
    return {**record, "disk_format": "raw", "container_format": "bare"}


def _begin(connection: sa.Connection, context: RequestContext, uuid: str, lease_seconds: float) -> tuple[int, str]:
    """With an agent only one such request at a time: the first to end would thaw the guest of the other."""
    instance = instances.get(connection, uuid, lock=True)
    check_image(context, instance, "createImage")
    if instance.host is None:
        raise exception.InstanceNotReady(instance_id=uuid)
    if _asks_for(instance, "hw_qemu_guest_agent") and any(
            row.freezes_guest for _, row in operations.known(actions.open_of_instances(connection, [uuid]).get(uuid, ()))):
        raise exception.InstanceIsBusy(action="createImage", instance_id=uuid, state="createImage")
    [action_id] = actions.create(connection, context, VERB, [uuid], lease_seconds, action_objects.API, instance.host,
                                 {"snapshots": []})
    return action_id, instance.host


def _ours(connection: sa.Connection, action_id: int) -> action_objects.Action | None:
    action = actions.lock(connection, [action_id])[action_id]
    return action if (action.stage, action.state) == (action_objects.API, action_objects.PENDING) else None


def _note(connection: sa.Connection, action_id: int, taken: Sequence[str]) -> None:
    action = _ours(connection, action_id)
    if action is None:
        raise _taken_over()
    actions.set_arguments(connection, action_id, {**action.arguments, "snapshots": list(taken)})


def _leave(connection: sa.Connection, action_id: int, taken: Sequence[str]) -> None:
    """Another worker has the action, or has closed it: a snapshot that it does not know is deleted after its failure."""
    action = actions.lock(connection, [action_id])[action_id]
    actions.set_arguments(connection, action_id, {**action.arguments, "snapshots": list(taken)})
    actions.schedule_cleanup(connection, [action_id])


def _taken_over() -> exception.Conflict:
    return exception.Conflict("The server was deleted, or the request taken for dead, before its image was made")


def _close(connection: sa.Connection, action_id: int, host: str, lease_seconds: float, event: Mapping[str, Any], thawed: bool,
           error: str | None) -> tuple[bool, bool]:
    """Whether it was ours to close, and whether the host has something to do for it."""
    action = _ours(connection, action_id)
    if action is None:
        return False, False
    actions.add_events(connection, [(action_id, event)])
    if thawed and (error is None or not action.arguments["snapshots"]):
        actions.finish(connection, [action_id], error)
        return True, False
    arguments = {**action.arguments, **({"error": error} if error else {})}
    actions.hand_over(connection, [action_id], lease_seconds, action_objects.COMPUTE, host, arguments)
    return True, True
