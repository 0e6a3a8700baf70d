"""Snapshots of volumes in files that a guest has open: the Volume service asks, the guest's host makes them."""
from __future__ import annotations

from typing import Any

from nova_lite import exception, operations
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects.instance import Instance


class VolumeSnapshots(Base):
    """What is wrong with a request is Invalid (400), as in Nova, whatever it would be elsewhere."""

    def volume_snapshot_create(self, context: RequestContext, volume_id: str, info: dict[str, Any]) -> None:
        """Begin a snapshot; ``info`` is Cinder's create_info."""
        self._begin_snapshot(context, "volume_snapshot_create", volume_id, info["snapshot_id"], info)

    def volume_snapshot_delete(self, context: RequestContext, volume_id: str, snapshot_id: str, info: dict[str, Any]) -> None:
        """Begin to merge a snapshot; ``info`` is Cinder's delete_info."""
        self._begin_snapshot(context, "volume_snapshot_delete", volume_id, snapshot_id, info)

    def _begin_snapshot(self, context: RequestContext, verb: str, volume_id: str, snapshot_id: str,
                        info: dict[str, Any]) -> None:
        instance = self._server_of(volume_id)
        try:
            operations.check(operations.VERBS[verb], instance)
            if instance.host is None:
                raise exception.InstanceNotReady(instance_id=instance.uuid)
            self.operate(context, instance.uuid, verb, {"volume_id": volume_id, "snapshot_id": snapshot_id, "info": info})
        except exception.Conflict as error:
            raise exception.Invalid(error.public) from error

    def _server_of(self, volume_id: str) -> Instance:
        """The only server that has the volume, of any project."""
        try:
            servers = {attachment["server_id"] for attachment in self.volume.get(admin_context(), volume_id).attachments}
        except exception.VolumeNotFound:
            servers = set()
        if len(servers) > 1:
            raise exception.Invalid(f"Volume {volume_id} is attached to several servers.")
        try:
            return self.get(RequestContext(is_admin=True, overwrite=False), servers.pop())
        except (KeyError, exception.InstanceNotFound) as error:
            raise exception.Invalid(f"No volume Block Device Mapping with id {volume_id}.") from error
