"""The interface to volumes: the Volume service, or files of this machine."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from nova_lite.context import RequestContext
from nova_lite.objects.volume import Attachment, Snapshot, Volume


class VolumeAPI(Protocol):
    """A context with a token acts as that user, one without as the service (which sees every project's volumes).

    All raise VolumeNotFound, SnapshotNotFound or VolumeAttachmentNotFound (404) for an item that does not exist or is not
    visible, and ServiceUnavailable (which names the service and the cause) when the service does not answer.
    """

    def get(self, context: RequestContext, volume_id: str) -> Volume:
        """One volume."""

    def list_all(self, context: RequestContext) -> list[Volume]:
        """The volumes of the project."""

    def get_snapshot(self, context: RequestContext, snapshot_id: str) -> Snapshot:
        """One snapshot."""

    def list_snapshots(self, context: RequestContext) -> Sequence[Snapshot]:
        """The snapshots of the project."""

    def create_snapshot(self, context: RequestContext, volume_id: str, name: str = "", description: str = "",
                        force: bool = False) -> Snapshot:
        """A new snapshot; ``force``: even of a volume that is in use. Raises InvalidVolume (400) and OverQuota."""

    def delete_snapshot(self, context: RequestContext, snapshot_id: str) -> None:
        """Remove a snapshot; one that does not exist is no error."""

    def create(self, context: RequestContext, size: int, name: str = "", description: str = "",
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> Volume:
        """A new volume of the context's project, still being created. Raises OverQuota-like errors by name."""

    def reimage(self, context: RequestContext, volume_id: str, image_id: str) -> None:
        """Write an image over a reserved volume. It may be under way still when this returns: the volume's status is
        "downloading" then, and "error" when it failed. Raises InvalidVolume, Conflict."""

    def find(self, context: RequestContext, metadata: dict[str, str]) -> list[Volume]:
        """The volumes that carry these metadata, of every project: how a second run finds what the first created."""

    def delete(self, context: RequestContext, volume_id: str) -> None:
        """Remove a volume; one that does not exist is no error."""

    def attachments(self, context: RequestContext, server_id: str) -> list[Attachment]:
        """Every attachment of a server."""

    def reserve(self, context: RequestContext, volume_id: str, server_id: str,
                connector: dict[str, Any] | None = None) -> Attachment:
        """Create an attachment: no other server can take the volume. Raises InvalidVolume (400) for a volume that is in use or
        in a state that cannot be attached. With the ``connector`` of a host it is connected at once, as by :meth:`connect`:
        only so a volume that is connected to one host of its server can be connected to another one."""

    def connect(self, context: RequestContext, attachment_id: str, connector: dict[str, Any]) -> Attachment:
        """Set the connector of a host (a second run gives the same); ``connection_info`` is in the answer."""

    def encryption(self, context: RequestContext, volume_id: str) -> dict[str, Any]:
        """The encryption of a volume: ``provider`` (luks, ...), ``encryption_key_id``, ``cipher``, ``key_size``,
        ``control_location`` (front-end: the hypervisor decrypts); {} for a volume that is not encrypted."""

    def complete(self, context: RequestContext, attachment_id: str) -> None:
        """The guest has it: the volume becomes in-use. Run again it does nothing."""

    def update_snapshot_status(self, context: RequestContext, snapshot_id: str, status: str) -> None:
        """Report the result of the hypervisor's part of a snapshot; one that does not exist is no error."""

    def complete_migration(self, context: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Report the end of the migration of a volume to a new volume; returns the id that these data have from now on."""

    def make_available(self, context: RequestContext, volume_id: str) -> None:
        """Set a volume to available whose status is in-use though no server has it, as after a migration whose server was
        deleted. Does nothing to any other volume, nor to one that does not exist."""

    def begin_detaching(self, context: RequestContext, volume_id: str) -> None:
        """Begin the detach of a volume: its status is "detaching" until it is released. A second run does nothing. Raises
        InvalidVolume (400) for a volume that cannot be detached now."""

    def roll_detaching(self, context: RequestContext, volume_id: str) -> None:
        """The guest has kept the volume: its status is in-use again. Does nothing to a volume that is not being detached."""

    def release(self, context: RequestContext, attachment_id: str) -> None:
        """Delete an attachment; one that does not exist is no error."""


def load(conf: cfg.ConfigOpts) -> VolumeAPI:
    """The driver ``[volume] driver``."""
    manager: Any = stevedore_driver.DriverManager("nova_lite.volume", conf.volume.driver, invoke_on_load=True,
                                                  invoke_args=(conf,))
    return manager.driver
