"""Volumes in files of this machine: ``<id>.json`` is the record, ``<id>.raw`` the data; snapshots likewise below snapshots/.

An attachment has the life cycle of Cinder's: it is reserved, gets a connector, is completed and deleted, and the status of the
volume follows. The volume type ``multiattach`` makes a volume that several servers may have at once; all other types are alike.
"""
from __future__ import annotations

import dataclasses
import pathlib
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import durable, exception, units
from nova_lite.context import RequestContext
from nova_lite.embedded import disk_room
from nova_lite.embedded.volume import data_files
from nova_lite.embedded.volume.data_files import Builder, DataFile, Progress
from nova_lite.embedded.volume.records import DirectoryLock, RecordDirectory
from nova_lite.image import base as image_base
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.volume import AVAILABLE, CREATING, DELETING, ERROR, IN_USE, Attachment, Snapshot, Volume

LOG = log.getLogger(__name__)

RESERVED, ATTACHING, ATTACHED = "reserved", "attaching", "attached"
MULTIATTACH, ZONE = "multiattach", "nova"
MOST_METADATA = 128     # items of a volume
_SETTABLE = ("name", "description", "metadata", "bootable")


@dataclass
class StoredVolume(Volume):
    """A record: ``bindings`` are its attachments, [{"id", "server_id", "status", "device"}]."""

    bindings: list[dict[str, str]] = field(default_factory=list)

    def public(self) -> Volume:
        """As others see it: only those servers that have it count as attached."""
        made = Volume.from_primitive(self.to_primitive())
        made.attachments = [{"server_id": b["server_id"], "attachment_id": b["id"],
                             **({"device": b["device"]} if b.get("device") else {})}
                            for b in self.bindings if b["status"] == ATTACHED]
        return made


@dataclass
class StoredSnapshot(Snapshot):
    """A snapshot with what the Block Storage API shows of it."""

    project_id: str = ""
    bootable: bool = False
    image_metadata: dict[str, Any] = field(default_factory=dict)


class LocalVolumes:
    """The volume driver ``local``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._directory = pathlib.Path(conf.volume.local_path).absolute()
        self._volumes = RecordDirectory(self._directory, StoredVolume)
        self._snapshots = RecordDirectory(self._directory / "snapshots", StoredSnapshot)
        self._lock = DirectoryLock(self._directory)

    def get(self, context: RequestContext, volume_id: str) -> Volume:
        """One volume."""
        return self._visible(context, volume_id).public()

    def list_all(self, context: RequestContext) -> list[Volume]:
        """The volumes of the project (of all, for a service that has none), newest first."""
        return _newest_first([v.public() for v in self._all() if context.project_id in (None, v.project_id)])

    def find(self, context: RequestContext, metadata: dict[str, str]) -> list[Volume]:
        """The volumes that carry these metadata, of every project."""
        return _newest_first([v.public() for v in self._all() if metadata.items() <= v.metadata.items()])

    def get_snapshot(self, context: RequestContext, snapshot_id: str) -> StoredSnapshot:
        """One snapshot."""
        found = self._snapshots.read(snapshot_id)
        if found is None or not _may(context, found.project_id):
            raise exception.SnapshotNotFound(snapshot_id=snapshot_id)
        if found.status == CREATING:
            found.status = self._settle(found.status, self._snapshot_data(snapshot_id))
        return found

    def list_snapshots(self, context: RequestContext) -> list[StoredSnapshot]:
        """The snapshots of the project, newest first."""
        found = [s for s in self._snapshots.all() if context.project_id in (None, s.project_id)]
        return sorted(found, key=lambda s: (s.created_at, s.id), reverse=True)

    def used_gb(self, project_id: str) -> int:
        """The GiB of a project's volumes and snapshots."""
        return (sum(one.size for one in self._volumes.all() if one.project_id == project_id)
                + sum(one.size for one in self._snapshots.all() if one.project_id == project_id))

    def create(self, context: RequestContext, size: int, name: str = "", description: str = "",
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> Volume:
        """A new volume of the context's project. A blank one is available at once, others are filled in the background.

        Raises StorageLimitExceeded and StorageFull, as ``extend`` and ``create_snapshot`` do.
        """
        volume = StoredVolume(
            str(uuid.uuid4()), CREATING, size, context.project_id or "", name, description, volume_type or "local",
            availability_zone or ZONE, multiattach=volume_type == MULTIATTACH, snapshot_id=snapshot_id, source_image=image_id,
            metadata=dict(metadata or {}), created_at=units.isotime_micro(units.utcnow()) or "")
        if size < 1:
            raise exception.InvalidVolume(reason=f"size {size} is not a number of GiB above 0")
        build = self._builder(context, volume)
        _check_metadata(volume.metadata)
        data = self._data(volume.id)
        with self._lock.held():
            self._check_quota(volume.project_id, size)
            data.begin()
            self._volumes.write(volume.id, volume)
        if image_id or snapshot_id:
            threading.Thread(target=self._make, args=(volume.id, data, build), name=f"volume-{volume.id}", daemon=True).start()
            return volume.public()
        self._make(volume.id, data, build)
        return self.get(context, volume.id)

    def reimage(self, context: RequestContext, volume_id: str, image_id: str) -> None:
        """Write an image over a reserved volume; done when this returns."""
        volume = self._visible(context, volume_id)
        if volume.status != RESERVED:
            raise _wrong_status(volume, "reimage", RESERVED)
        images = image_base.load(self._conf)
        image = images.get(context, image_id)
        disk_room.check(self._directory, _room_for(image))
        data = self._data(volume_id)
        data.begin_again()
        try:
            data.build(data_files.from_image(image_id, image.disk_format, volume.size,
                                             lambda path: images.download(context, image_id, path)))
        except OSError as error:
            raise exception.InvalidVolume(reason=f"volume {volume_id} cannot be reimaged: {error}",
                                          public=f"Invalid volume: volume {volume_id} cannot be reimaged") from error
        finally:
            data.finish()
        with self._lock.held():
            volume = self._visible(context, volume_id)
            volume.bootable, volume.image_metadata = True, _image_metadata(image)
            self._volumes.write(volume_id, volume)

    def update(self, context: RequestContext, volume_id: str, values: dict[str, Any]) -> Volume:
        """Change name, description, metadata or the mark bootable."""
        with self._lock.held():
            volume = self._visible(context, volume_id)
            for key in _SETTABLE:
                setattr(volume, key, values.get(key, getattr(volume, key)))
            _check_metadata(volume.metadata)
            self._volumes.write(volume_id, volume)
        return volume.public()

    def extend(self, context: RequestContext, volume_id: str, size: int) -> None:
        """Let an unused volume grow to ``size`` GiB."""
        with self._lock.held():
            volume = self._visible(context, volume_id)
            if volume.status != AVAILABLE:
                raise _wrong_status(volume, "extend", AVAILABLE)
            if size <= volume.size:
                raise exception.InvalidVolume(reason=f"New size for extend must be greater than current size. (current: "
                                                     f"{volume.size}, extended: {size}).")
            self._check_quota(volume.project_id, size - volume.size)
            disk_room.check(self._directory)
            try:
                data_files.blank(size)(self._data(volume_id).path)
            except OSError as error:
                raise exception.InvalidVolume(reason=f"volume {volume_id} cannot be extended: {error}",
                                              public=f"Invalid volume: volume {volume_id} cannot be extended") from error
            volume.size = size
            self._volumes.write(volume_id, volume)

    def delete(self, context: RequestContext, volume_id: str) -> None:
        """Remove data and record; InvalidVolume while the volume is in use or being made, or has snapshots. An interrupted
        delete can be run again."""
        with self._lock.held():
            try:
                volume = self._visible(context, volume_id)
            except exception.VolumeNotFound:
                return
            if volume.bindings or volume.status not in (AVAILABLE, ERROR, DELETING):
                raise _wrong_status(volume, "delete", f"{AVAILABLE} or {ERROR}")
            if any(s.volume_id == volume_id for s in self._snapshots.all()):
                raise exception.InvalidVolume(reason=f"Volume {volume_id} still has dependent snapshots.")
            self._volumes.write(volume_id, dataclasses.replace(volume, status=DELETING))
            self._data(volume_id).remove()
            self._volumes.remove(volume_id)

    def create_snapshot(self, context: RequestContext, volume_id: str, name: str = "", description: str = "",
                        force: bool = False) -> StoredSnapshot:
        """A copy of a volume as it is now; ``force``: even while a guest writes to it."""
        volume = self._visible(context, volume_id)
        if volume.status != AVAILABLE and not (force and volume.status == IN_USE):
            raise _wrong_status(volume, "snapshot", AVAILABLE)
        snapshot = StoredSnapshot(
            str(uuid.uuid4()), volume_id, volume.size, CREATING, name, description, units.isotime_micro(units.utcnow()) or "",
            project_id=volume.project_id, bootable=volume.bootable, image_metadata=volume.image_metadata)
        disk_room.check(self._directory, disk_room.allocated(self._data(volume_id).path))
        data = self._snapshot_data(snapshot.id)
        with self._lock.held():
            self._check_quota(volume.project_id, volume.size)
            data.begin()
            self._snapshots.write(snapshot.id, snapshot)
        try:
            data.build(data_files.copy_of(self._data(volume_id).path, volume.size))
            snapshot.status = AVAILABLE
        except OSError as error:
            LOG.error("Snapshot %s failed: %s", snapshot.id, error)
            snapshot.status = ERROR
        self._snapshots.write(snapshot.id, snapshot)
        data.finish()
        return snapshot

    def delete_snapshot(self, context: RequestContext, snapshot_id: str) -> None:
        """Remove a snapshot, as ``delete`` does; one that does not exist is no error."""
        with self._lock.held():
            try:
                snapshot = self.get_snapshot(context, snapshot_id)
            except exception.SnapshotNotFound:
                return
            self._snapshots.write(snapshot_id, dataclasses.replace(snapshot, status=DELETING))
            self._snapshot_data(snapshot_id).remove()
            self._snapshots.remove(snapshot_id)

    def tidy(self) -> None:
        """Remove what killed processes have left."""
        with self._lock.held():
            for directory in (self._directory, self._directory / "snapshots"):
                durable.sweep(directory, ".raw")

    # attachments -------------------------------------------------------------------------------------------------------

    def attachments(self, context: RequestContext, server_id: str) -> list[Attachment]:
        """Every attachment of a server."""
        return [self._attachment(volume, binding) for volume in self._all() for binding in volume.bindings
                if binding["server_id"] == server_id and _may(context, volume.project_id)]

    def all_attachments(self, context: RequestContext) -> list[Attachment]:
        """The attachments of the project's volumes (of all, for a service that has none)."""
        return [self._attachment(volume, binding) for volume in self._all() for binding in volume.bindings
                if context.project_id in (None, volume.project_id)]

    def reserve(self, context: RequestContext, volume_id: str, server_id: str,
                connector: dict[str, Any] | None = None) -> Attachment:
        """Create an attachment, which reserves the volume. InvalidVolume for a volume that is in use or not ready."""
        with self._lock.held():
            volume = self._visible(context, volume_id)
            shared = volume.multiattach and volume.status in (RESERVED, ATTACHING, IN_USE)
            # a server that moves, or is rebuilt, has its new attachment before it gives the old one back
            mine = [b["status"] for b in volume.bindings if b["server_id"] == server_id]
            again = len(mine) == 1 and mine[0] in (ATTACHED, ATTACHING)
            if volume.status != AVAILABLE and not shared and not again:
                raise _wrong_status(volume, "reserve", AVAILABLE)
            if mine and not again:
                raise exception.InvalidVolume(reason=f"volume {volume_id} is attached to server {server_id} already")
            binding = {"id": str(uuid.uuid4()), "server_id": server_id, "status": ATTACHING if connector else RESERVED,
                       "device": str((connector or {}).get("mountpoint") or "")}
            volume.bindings.append(binding)
            self._write(volume)
        return self._attachment(volume, binding)

    def connect(self, context: RequestContext, attachment_id: str, connector: dict[str, Any]) -> Attachment:
        """The host is this machine, so every connector is as good: the answer names the file."""
        return self._step(context, attachment_id, ATTACHING, str(connector.get("mountpoint") or ""))

    def encryption(self, context: RequestContext, volume_id: str) -> dict[str, Any]:
        """Files are never encrypted."""
        return {}

    def complete(self, context: RequestContext, attachment_id: str) -> None:
        """The volume becomes in-use."""
        self._step(context, attachment_id, ATTACHED)

    def update_snapshot_status(self, context: RequestContext, snapshot_id: str, status: str) -> None:
        """Nothing: no hypervisor helps with these snapshots, they are copies."""

    def complete_migration(self, context: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Never needed: volumes in files are not migrated."""
        raise exception.InvalidVolume(reason=f"volume {volume_id} is not migrating")

    def make_available(self, context: RequestContext, volume_id: str) -> None:
        """The status follows the attachments."""

    def begin_detaching(self, context: RequestContext, volume_id: str) -> None:
        """The status follows the attachments: it stays in-use until the release."""

    def roll_detaching(self, context: RequestContext, volume_id: str) -> None:
        """Nothing was changed."""

    def release(self, context: RequestContext, attachment_id: str) -> None:
        """Delete an attachment; the last one makes the volume available."""
        with self._lock.held():
            try:
                volume, binding = self._bound(context, attachment_id)
            except exception.VolumeAttachmentNotFound:
                return
            volume.bindings.remove(binding)
            self._write(volume)

    def _step(self, context: RequestContext, attachment_id: str, status: str, device: str = "") -> Attachment:
        with self._lock.held():
            volume, binding = self._bound(context, attachment_id)
            if binding["status"] != ATTACHED:
                binding |= {"status": status, "device": device or binding.get("device", "")}
                self._write(volume)
        return self._attachment(volume, binding)

    def _bound(self, context: RequestContext, attachment_id: str) -> tuple[StoredVolume, dict[str, str]]:
        for volume in self._all():
            for binding in volume.bindings:
                if binding["id"] == attachment_id and _may(context, volume.project_id):
                    return volume, binding
        raise exception.VolumeAttachmentNotFound(attachment_id=attachment_id)

    def _attachment(self, volume: StoredVolume, binding: dict[str, str]) -> Attachment:
        info = {} if binding["status"] == RESERVED else {
            "driver_volume_type": "local", "data": {"device_path": str(self._data(volume.id).path), "access_mode": "rw"}}
        return Attachment(binding["id"], volume.id, binding["server_id"], binding["status"], info)

    def _write(self, volume: StoredVolume) -> None:
        """Write the record after a change of the attachments, which determine the status."""
        have = {b["status"] for b in volume.bindings}
        volume.status = next((status for binding, status in ((ATTACHED, IN_USE), (ATTACHING, ATTACHING), (RESERVED, RESERVED))
                              if binding in have), AVAILABLE)
        self._volumes.write(volume.id, volume)

    # making ------------------------------------------------------------------------------------------------------------

    def _builder(self, context: RequestContext, volume: StoredVolume) -> Builder:
        """How its data are made; what can be refused is refused now."""
        if volume.snapshot_id:
            snapshot = self.get_snapshot(context, volume.snapshot_id)
            if snapshot.status != AVAILABLE:
                raise exception.InvalidVolume(reason=f"snapshot {snapshot.id} is {snapshot.status}")
            _check_size(volume.size, snapshot.size, f"snapshot {snapshot.id}")
            volume.bootable, volume.image_metadata = snapshot.bootable, snapshot.image_metadata
            disk_room.check(self._directory, disk_room.allocated(self._snapshot_data(snapshot.id).path))
            return data_files.copy_of(self._snapshot_data(snapshot.id).path, volume.size)
        if volume.source_image:
            images = image_base.load(self._conf)
            image = images.get(context, volume.source_image)
            if image.status != "active":
                raise exception.ImageNotActive(image_id=image.id)
            _check_size(volume.size, max(image.min_disk, -(-image.size // units.GiB)), f"image {image.id}")
            volume.bootable, volume.image_metadata = True, _image_metadata(image)
            disk_room.check(self._directory, _room_for(image))
            return data_files.from_image(image.id, image.disk_format, volume.size,
                                         lambda path: images.download(context, image.id, path))
        disk_room.check(self._directory)
        return data_files.blank(volume.size)

    def _check_quota(self, project_id: str, more: int) -> None:
        """Raise StorageLimitExceeded. The caller holds the lock until the record has the new size."""
        limit = self._conf.volume.local_quota_gb
        used = self.used_gb(project_id)
        if 0 <= limit < used + more:
            raise exception.StorageLimitExceeded(what="gigabytes of volumes and snapshots", used=used, limit=limit, asked=more)

    def _make(self, volume_id: str, data: DataFile, build: Builder) -> None:
        try:
            data.build(build)
            status = AVAILABLE
        except (exception.NovaLiteError, OSError) as error:
            LOG.error("Volume %s could not be made: %s", volume_id, error)
            status = ERROR
        try:
            self._end_making(volume_id, status)
        finally:
            data.finish()

    def _end_making(self, volume_id: str, status: str) -> None:
        with self._lock.held():
            volume = self._volumes.read(volume_id)
            if volume is not None and volume.status == CREATING:
                volume.status = status
                self._volumes.write(volume_id, volume)

    def _settle(self, status: str, data: DataFile) -> str:
        """A record with status "creating" whose process died: complete data make it available, incomplete data an error."""
        return {Progress.WHOLE: AVAILABLE, Progress.IN_WORK: status, Progress.LOST: ERROR}[data.progress()]

    def _all(self) -> list[StoredVolume]:
        return [self._settled(volume) for volume in self._volumes.all()]

    def _settled(self, volume: StoredVolume) -> StoredVolume:
        if volume.status == CREATING:
            volume.status = self._settle(volume.status, self._data(volume.id))
        return volume

    def _visible(self, context: RequestContext, volume_id: str) -> StoredVolume:
        volume = self._volumes.read(volume_id)
        if volume is None or not _may(context, volume.project_id):
            raise exception.VolumeNotFound(volume_id=volume_id)
        return self._settled(volume)

    def _data(self, volume_id: str) -> DataFile:
        return DataFile(self._directory / f"{volume_id}.raw")

    def _snapshot_data(self, snapshot_id: str) -> DataFile:
        return DataFile(self._directory / "snapshots" / f"{snapshot_id}.raw")


def _may(context: RequestContext, project_id: str) -> bool:
    """A context without a token is the service's own."""
    return not context.auth_token or bool(context.is_admin) or context.project_id == project_id


def _newest_first(volumes: list[Volume]) -> list[Volume]:
    return sorted(volumes, key=lambda v: (v.created_at, v.id), reverse=True)


def _check_metadata(metadata: dict[str, str]) -> None:
    if len(metadata) > MOST_METADATA:
        raise exception.InvalidInput(reason=f"metadata: a volume has at most {MOST_METADATA} items of it")


def _wrong_status(volume: Volume, what: str, needed: str) -> exception.InvalidVolume:
    return exception.InvalidVolume(reason=f"Volume {volume.id} status must be {needed} to {what}, but the current status is "
                                          f"{volume.status}.")


def _check_size(size: int, needed: int, what: str) -> None:
    if size < needed:
        raise exception.InvalidVolume(reason=f"{what} needs {needed} GiB, the volume has {size} GiB")


def _room_for(image: ImageMeta) -> int:
    """Bytes that a volume is made of an image with: of the copy that is read, and of its contents."""
    return 2 * image.size


def _image_metadata(image: ImageMeta) -> dict[str, Any]:
    """In the form of Cinder: one flat dictionary."""
    return {**{k: str(v) for k, v in image.properties.items()}, "image_id": image.id, "image_name": image.name,
            "disk_format": image.disk_format, "container_format": image.container_format, "min_disk": str(image.min_disk),
            "min_ram": str(image.min_ram), "size": str(image.size)}
