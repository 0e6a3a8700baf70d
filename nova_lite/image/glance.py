"""Images of the Image service (Glance, API v2). Glance decides who sees an image, by the token of the context's user."""
from __future__ import annotations

import contextlib
import json
import os
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.identity.keystone import Client, NeighbourError
from nova_lite.image import digests
from nova_lite.objects.image import ImageMeta
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)
PAGE = 500
# bytes of one chunk of an upload: uWSGI, under which Glance often runs, refuses a mebibyte (its chunked-input-limit)
PIECE = 1 << 16
_PATCH = "application/openstack-images-v2.1-json-patch"
_PLAIN = ("name", "visibility", "min_disk", "min_ram", "disk_format", "container_format", "protected", "tags")
_CREATE_ONLY = ("id", "owner")
# of the record itself, not among its properties
_OWN = {*_PLAIN, *_CREATE_ONLY, "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "os_hidden",
        "created_at", "updated_at", "self", "file", "schema", "locations", "direct_url", "stores"}
_RESERVED = "os_glance_"    # properties that only Glance itself may set or remove


class GlanceImages:
    """The image driver ``glance``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._client = Client(conf, "image", "Glance", 2)

    def get(self, context: RequestContext, image_id: str) -> ImageMeta:
        """One image; ImageNotFound for an image that the user may not see."""
        return _image(self._call(context, image_id, "GET").json())

    def list(self, context: RequestContext, properties: Mapping[str, str] | None = None) -> list[ImageMeta]:
        """The images that the project may use: its own, public ones, and those shared with it that it accepted; only those
        with these properties."""
        found: list[ImageMeta] = []
        query: dict[str, Any] = {**(properties or {}), "limit": PAGE}
        while True:
            try:
                page = self._client.call(context, "GET", "/images", params=query).json()
            except NeighbourError as error:
                _refused(error, "")
            found += [_image(one) for one in page["images"]]
            following = urllib.parse.parse_qs(urllib.parse.urlsplit(page.get("next") or "").query).get("marker")
            if not following or not page["images"]:
                return found
            query["marker"] = following[0]

    def download(self, context: RequestContext, image_id: str, path: str, expected: ImageMeta | None = None) -> None:
        """Write the data to ``path``, which is removed again when that fails.

        Checked against the digest of ``expected``, the record that was read before (None: it is read now). Raises
        ImageUnacceptable for other data, ServiceUnavailable when the stream breaks off.
        """
        image = expected or self.get(context, image_id)
        if image.status != "active":
            raise exception.ImageNotActive(image_id=image_id)
        digest = digests.begun(image)
        written = 0
        try:
            with open(path, "wb") as target:
                for piece in self.read(context, image_id):
                    concurrency.native(_store, target, digest, piece)
                    written += len(piece)
            digests.check(image, digest, written)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            raise

    def read(self, context: RequestContext, image_id: str) -> Iterator[bytes]:
        """The data in pieces."""
        answer = self._call(context, image_id, "GET", "/file", stream=True, headers={"Accept": "*/*"})
        if answer.status_code == 204:       # a queued image has none
            answer.close()
            raise exception.ImageNotActive(image_id=image_id)
        return self._client.pieces(answer)

    def create(self, context: RequestContext, values: dict[str, Any]) -> ImageMeta:
        """A new image record in status queued. ``owner`` and a public visibility are the service's to give, not a user's."""
        body = {name: values[name] for name in (*_PLAIN, *_CREATE_ONLY) if values.get(name) is not None}
        body |= _texts(values.get("properties") or {})
        try:
            return _image(self._client.call(context, "POST", "/images", json=body).json())
        except NeighbourError as error:
            _refused(error, "")

    def upload(self, context: RequestContext, image_id: str, data: Iterable[bytes]) -> ImageMeta:
        """Stream the data to a queued image, which becomes active; Conflict when it has data already."""
        if self.get(context, image_id).status not in ("queued", "saving"):
            raise exception.Conflict(f"Image {image_id} has data already.")
        self._call(context, image_id, "PUT", "/file", data=_pieces(data), headers={"Content-Type": "application/octet-stream"})
        return self.get(context, image_id)

    def update(self, context: RequestContext, image_id: str, values: dict[str, Any]) -> ImageMeta:
        """Change fields of the record; ``properties`` are replaced as a whole, but for those that are Glance's own."""
        refused = set(values) - {*_PLAIN, "properties"}
        if refused:
            raise exception.InvalidInput(reason=f"image attributes cannot be changed: {', '.join(sorted(refused))}")
        patch = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in values.items() if name in _PLAIN]
        if "properties" in values:
            patch += _property_changes(self.get(context, image_id).properties, _texts(values["properties"] or {}))
        if not patch:
            return self.get(context, image_id)
        answer = self._call(context, image_id, "PATCH", data=json.dumps(patch), headers={"Content-Type": _PATCH})
        return _image(answer.json())

    def delete(self, context: RequestContext, image_id: str) -> None:
        """Remove record and data. Forbidden for a protected image or that of another project, Conflict for one in use."""
        self._call(context, image_id, "DELETE")

    def _call(self, context: RequestContext, image_id: str, method: str, path: str = "", **arguments: Any) -> Any:
        if not _is_uuid(image_id):      # nothing else may become part of the path
            raise exception.ImageNotFound(image_id=image_id)
        try:
            return self._client.call(context, method, f"/images/{image_id}{path}", **arguments)
        except NeighbourError as error:
            _refused(error, image_id, reading=method == "GET")


def _pieces(data: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in data:
        for begin in range(0, len(chunk), PIECE):
            yield chunk[begin:begin + PIECE]


def _refused(error: NeighbourError, image_id: str, reading: bool = False) -> NoReturn:
    """Raise our own form of Glance's refusal. What may not be read does not exist."""
    if image_id and (error.status == 404 or (reading and error.status == 403)):
        raise exception.ImageNotFound(image_id=image_id) from error
    if error.status in (403, 413):
        raise exception.Forbidden(f"Glance refuses: {error.reason}") from error
    if error.status == 409:
        raise exception.Conflict(f"Glance refuses: {error.reason}") from error
    if error.status in (400, 404, 415):
        raise exception.Invalid(f"Glance refuses: {error.reason}") from error
    raise error


def _image(found: Mapping[str, Any]) -> ImageMeta:
    # Glance before Rocky, and images of its time, know only MD5
    algorithm, digest = (found.get("os_hash_algo"), found.get("os_hash_value")) if found.get("os_hash_value") \
        else ("md5", found.get("checksum"))
    return ImageMeta(
        id=found["id"], name=found.get("name") or "", status=found.get("status") or "", owner=found.get("owner") or "",
        visibility=found.get("visibility") or "private", size=int(found.get("size") or 0),
        min_disk=int(found.get("min_disk") or 0), min_ram=int(found.get("min_ram") or 0),
        disk_format=found.get("disk_format") or "", container_format=found.get("container_format") or "",
        hash_algo=algorithm or "md5", checksum=digest, properties={k: v for k, v in found.items() if k not in _OWN},
        tags=list(found.get("tags") or ()), created_at=found.get("created_at") or "", updated_at=found.get("updated_at") or "",
        protected=bool(found.get("protected")))


def _texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties as Glance takes them: text, and none without a value."""
    return {name: value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
            for name, value in properties.items() if value is not None and name not in _OWN}


def _property_changes(now: Mapping[str, Any], wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    for name in sorted({*now, *wanted}):
        if name.startswith(_RESERVED) or now.get(name) == wanted.get(name):
            continue
        path = "/" + name.replace("~", "~0").replace("/", "~1")
        if name not in wanted:
            changes.append({"op": "remove", "path": path})
        else:
            changes.append({"op": "replace" if name in now else "add", "path": path, "value": wanted[name]})
    return changes


def _store(target: Any, digest: Any, piece: bytes) -> None:
    target.write(piece)
    if digest is not None:
        digest.update(piece)


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False
