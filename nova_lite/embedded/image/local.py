"""Images in a local directory: ``<id>.json`` is the record, ``<id>.data`` the data, ``deleted-ids`` the ids of deleted images.

Files appear and change by an atomic rename, so a reader sees an old file or a new one and a killed writer leaves at most a
``.part`` file, which goes when an API starts (``tidy``). A lock file serialises the writers of all processes. Ids are UUIDs and
nothing else, so no id leads elsewhere.
"""
from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import IO, Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import durable, exception, units
from nova_lite.context import RequestContext
from nova_lite.embedded import disk_room
from nova_lite.embedded.image import fields
from nova_lite.embedded.image.deleted_ids import DeletedIds
from nova_lite.embedded.image.fields import COMMUNITY, PRIVATE, PUBLIC
from nova_lite.image import digests
from nova_lite.objects.image import ImageMeta
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)

QUEUED, ACTIVE, PENDING_DELETE = "queued", "active", "pending_delete"
CHUNK = units.MiB
MOST_IMAGES = 1000                  # of a project, with data or without, where there is a quota of bytes
PIECE = 64 * 1024            # kept for each reader, however slow it is
LOOK_BYTES = 64 * units.MiB         # of an upload, after which the usage of its project is read again
_SETTABLE = {"name", "visibility", "owner", "min_disk", "min_ram", "disk_format", "container_format", "properties", "tags",
             "protected"}
_FIELDS = {f.name for f in dataclasses.fields(ImageMeta)}


class LocalImages:
    """The image driver ``local``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._directory = pathlib.Path(conf.image.local_path)
        self._quota = conf.image.local_quota_gb * units.GiB if conf.image.local_quota_gb >= 0 else None
        self._deleted = DeletedIds(self._directory / "deleted-ids")
        self._lock = threading.Lock()

    def get(self, context: RequestContext, image_id: str) -> ImageMeta:
        """One image; ImageNotFound for an image that the project may not see."""
        image = self._read(image_id)
        if not _visible(context, image):
            raise exception.ImageNotFound(image_id=image_id)
        return image

    def list(self, context: RequestContext, properties: Mapping[str, str] | None = None) -> list[ImageMeta]:
        """The project's own images and the public ones, newest first; only those with these properties."""
        wanted = [i for i in self._all() if _visible(context, i) and (i.visibility != COMMUNITY or _owned(context, i))]
        asked = (properties or {}).items()
        wanted = [i for i in wanted if all(i.properties.get(name) == value for name, value in asked)]
        return sorted(wanted, key=lambda i: (i.created_at, i.id), reverse=True)

    def download(self, context: RequestContext, image_id: str, path: str, expected: ImageMeta | None = None) -> None:
        """Write the data to ``path``; raises ImageUnacceptable when it does not fit its checksum, and leaves no file then."""
        image = self._active(context, image_id)
        checked = expected or image
        digest = digests.begun(checked)
        size = concurrency.native(_copy, self._data(image_id), path, digest)
        try:
            digests.check(checked, digest, size)
        except exception.ImageUnacceptable:
            os.unlink(path)
            raise

    def read(self, context: RequestContext, image_id: str) -> Iterator[bytes]:
        """The data in pieces."""
        self._active(context, image_id)
        stream = open(self._data(image_id), "rb")       # noqa: SIM115  closed by the generator
        return _pieces(stream)

    def create(self, context: RequestContext, values: dict[str, Any]) -> ImageMeta:
        """A new image record in status queued. Its id, when given, must be a UUID that no image has or had (409 otherwise).

        Raises InvalidInput for a field of the wrong type or size, StorageFull, both here and at an update, and
        StorageLimitExceeded for more images than the quota.
        """
        image_id = values.get("id") or str(uuid.uuid4())
        if not _is_uuid(image_id):
            raise exception.InvalidInput(reason=f"image id {image_id!r} is not a UUID")
        now = units.isotime(units.utcnow()) or ""
        image = ImageMeta(id=image_id, status=QUEUED, visibility=PRIVATE, owner=context.project_id or "", created_at=now,
                          updated_at=now)
        _assign(image, {k: v for k, v in values.items() if k in _SETTABLE})
        with self._locked():
            if self._record(image_id).exists() or ("id" in values and image_id in self._deleted):
                raise exception.Conflict(f"Image ID {image_id} already exists!")
            self._check_count(image.owner)
            disk_room.check(self._directory)
            self._write(image)
        return image

    def upload(self, context: RequestContext, image_id: str, data: Iterable[bytes]) -> ImageMeta:
        """Store the data of a queued image: size and checksum are set, the status becomes active.

        Raises StorageLimitExceeded or StorageFull when there are too many.
        """
        image = self._own(context, image_id)
        if image.status != QUEUED:
            raise exception.Conflict(f"Image {image_id} has data already.")
        part = self._directory / f"{image_id}.{uuid.uuid4()}.part"
        try:
            size, digest = _store(self._limited(image.owner, data), part, image.hash_algo)
            with self._locked():
                image = self._read(image_id)        # it may have been changed, filled or deleted meanwhile
                if image.status != QUEUED:
                    raise exception.Conflict(f"Image {image_id} has data already.")
                self._check_quota(self._used(image.owner, [".data"]), size)
                os.rename(part, self._data(image_id))
                image = dataclasses.replace(image, size=size, checksum=digest, status=ACTIVE, updated_at=_now())
                self._write(image)
        finally:
            part.unlink(missing_ok=True)
        # not for operators to read by default: the request itself is a line of the log already
        LOG.debug("Image %s: %d bytes stored, %s %s", image_id, size, image.hash_algo, digest)
        return image

    def update(self, context: RequestContext, image_id: str, values: dict[str, Any]) -> ImageMeta:
        """Change fields of the record; what only the service may set (status, size, checksum ...) is InvalidInput."""
        refused = set(values) - _SETTABLE
        if refused:
            raise exception.InvalidInput(reason=f"image attributes cannot be changed: {', '.join(sorted(refused))}")
        self._own(context, image_id)
        with self._locked():
            image = self._read(image_id)
            _assign(image, values)
            image.updated_at = _now()
            disk_room.check(self._directory)
            self._write(image)
        return image

    def delete(self, context: RequestContext, image_id: str) -> None:
        """Remove data and record; Forbidden for a protected image. An interrupted delete can be run again."""
        self._own(context, image_id)
        with self._locked():
            image = self._read(image_id)
            if image.protected:
                raise exception.Forbidden(f"Image {image_id} is protected and cannot be deleted.")
            self._write(dataclasses.replace(image, status=PENDING_DELETE))
            self._data(image_id).unlink(missing_ok=True)
            self._deleted.add(image_id)
            self._record(image_id).unlink()

    def tidy(self) -> None:
        """Remove what killed processes and earlier versions have left."""
        with self._locked():
            old = list(self._directory.glob("*.deleted"))
            self._deleted.add(*(path.stem for path in old))
            for path in old:
                path.unlink()
            durable.sweep(self._directory, ".data")

    def _all(self) -> Iterator[ImageMeta]:
        for path in self._directory.glob("*.json"):
            with contextlib.suppress(exception.ImageNotFound):      # deleted since the directory was read
                yield self._read(path.stem)

    def _check_count(self, owner: str) -> None:
        used = sum(image.owner == owner for image in self._all()) if self._quota is not None else 0
        if used >= MOST_IMAGES:
            raise exception.StorageLimitExceeded(what="images", used=used, limit=MOST_IMAGES, asked=1)

    def _limited(self, owner: str, data: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, as long as there is room for them."""
        used, since = self._used(owner), 0
        for chunk in data:
            if since >= LOOK_BYTES:
                used, since = self._used(owner), 0
            since += len(chunk)
            self._check_quota(used, since)
            disk_room.check(self._directory, len(chunk))
            yield chunk

    def _used(self, owner: str, kinds: Collection[str] = (".data", ".part")) -> int:
        """The bytes that a project's images have, and those that its uploads have written so far."""
        paths = [path for path in self._directory.glob("*") if path.suffix in kinds] if self._quota is not None else []
        used = 0
        for path in paths:
            with contextlib.suppress(exception.ImageNotFound, FileNotFoundError):       # deleted meanwhile
                used += path.stat().st_size if self._read(path.name.partition(".")[0]).owner == owner else 0
        return used

    def _check_quota(self, used: int, more: int) -> None:
        if self._quota is not None and more and used + more > self._quota:      # an image may be without data
            raise exception.StorageLimitExceeded(what="bytes of images", used=used, limit=self._quota, asked=more)

    def _record(self, image_id: str) -> pathlib.Path:
        return self._directory / f"{image_id}.json"

    def _data(self, image_id: str) -> pathlib.Path:
        return self._directory / f"{image_id}.data"

    def _active(self, context: RequestContext, image_id: str) -> ImageMeta:
        image = self.get(context, image_id)
        if image.status != ACTIVE:
            raise exception.ImageNotActive(image_id=image_id)
        return image

    def _own(self, context: RequestContext, image_id: str) -> ImageMeta:
        image = self.get(context, image_id)
        if not _owned(context, image):
            raise exception.Forbidden(f"You are not permitted to change image {image_id}.")
        return image

    def _read(self, image_id: str) -> ImageMeta:
        if not _is_uuid(image_id):
            raise exception.ImageNotFound(image_id=image_id)
        try:
            values = dict(json.loads(self._record(image_id).read_text()))
            return ImageMeta.from_primitive({k: v for k, v in values.items() if k in _FIELDS})
        except FileNotFoundError:
            raise exception.ImageNotFound(image_id=image_id) from None
        except (ValueError, TypeError) as error:        # one that cannot be understood must not hide the others
            LOG.error("The record %s cannot be read: %s", self._record(image_id), error)
            raise exception.ImageNotFound(image_id=image_id) from error

    def _write(self, image: ImageMeta) -> None:
        with durable.written_whole(self._record(image.id), mode=0o644, unique=True) as part:
            part.write_text(json.dumps(image.to_primitive(), indent=1, sort_keys=True))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)     # what a guest wrote may be in an image
        with self._lock, open(self._directory / ".lock", "w") as lock:
            concurrency.native(fcntl.flock, lock, fcntl.LOCK_EX)
            yield


def _now() -> str:
    return units.isotime(units.utcnow()) or ""


def _is_uuid(value: object) -> bool:
    """Only the canonical form: nothing else may become part of a path."""
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def _owned(context: RequestContext, image: ImageMeta) -> bool:
    return bool(context.is_admin) or (bool(image.owner) and image.owner == context.project_id)


def _visible(context: RequestContext, image: ImageMeta) -> bool:
    return image.visibility in (PUBLIC, COMMUNITY) or _owned(context, image)


def _assign(image: ImageMeta, values: dict[str, Any]) -> None:
    for name, value in fields.checked(values).items():
        setattr(image, name, value)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while chunk := concurrency.native(stream.read, PIECE):
            yield chunk


def _copy(source: pathlib.Path, target: str, digest: Any) -> int:
    """Copy a file, update the digest, if there is one, and return the number of bytes."""
    size = 0
    with open(source, "rb") as reader, open(target, "wb") as writer:
        while chunk := reader.read(CHUNK):
            if digest is not None:
                digest.update(chunk)
            size += writer.write(chunk)
    return size


def _store(data: Iterable[bytes], path: pathlib.Path, algorithm: str) -> tuple[int, str]:
    """Write pieces to a new file; its size and digest."""
    digest = hashlib.new(algorithm)
    size = 0

    def add(chunk: bytes) -> None:
        digest.update(chunk)
        writer.write(chunk)

    try:
        with open(path, "xb") as writer:
            for chunk in data:
                concurrency.native(add, chunk)
                size += len(chunk)
            writer.flush()
            concurrency.native(os.fsync, writer.fileno())
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise exception.ServiceUnavailable(what="Image storage", reason="no space left") from error
        raise
    return size, digest.hexdigest()
