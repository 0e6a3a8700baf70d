"""Rebuild: the same server on a new root disk. Its ports, volumes and addresses stay, and so does its host."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.context import RequestContext
from nova_lite.db import keypairs, quotas
from nova_lite.objects import hardware, states
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance

VERB = "rebuild"


@dataclass
class RebuildRequest:
    """The request of the user. ``values`` are the new columns of the server; other columns stay. ``key_name``: "" keeps the
    key, None removes it. ``onto_volume``: the root disk may be a volume, which is written again (2.93); before that a server
    keeps the volume that it boots from, and its image."""

    image_id: str
    values: dict[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] | None = None
    personality: Sequence[Mapping[str, str]] = ()
    key_name: str | None = ""
    disk_config: str | None = None
    trusted_certs: list[str] | None = None
    preserve_ephemeral: bool = False
    onto_volume: bool = False
    admin_password: str | None = None


class Rebuilds(Base):
    """POST /servers/{id}/action (rebuild)."""

    def rebuild(self, context: RequestContext, instance: Instance, request: RebuildRequest) -> None:
        """Begin it. Raises the 409s of its state, its shares and its vTPM, 400 for an image that does not fit and for a key
        that is not there, and the 403s of quota."""
        validate.refuse_vtpm(instance, VERB)
        operations.check(operations.VERBS[VERB], instance, may_override_lock=bool(context.is_admin))
        validate.refuse_certificates(request.trusted_certs)
        updates: dict[str, Any] = {**request.values, **self._looked_up(context, instance, request)}
        image = self._rebuild_image(context, instance, request)
        updates |= _of_image(instance, image, request)
        arguments: dict[str, Any] = {"preserve_ephemeral": request.preserve_ephemeral}
        if instance.is_volume_backed and request.onto_volume:
            arguments["reimage"] = image.id
        if request.admin_password and updates.get("config_drive", instance.config_drive):
            arguments["admin_password"] = request.admin_password

        def prepare(_connection: sa.Connection, server: Instance) -> Prepared:
            before = {name: value for name, value in server.to_primitive().items()
                      if name in ("image_ref", "image", "config_drive")}
            return Prepared(updates, {**arguments, states.BEFORE: before} if "image" in updates else arguments)

        self.operate(context, instance.uuid, VERB, prepare=prepare)

    def _looked_up(self, context: RequestContext, instance: Instance, request: RebuildRequest) -> dict[str, Any]:
        """The checks of quota and key pairs."""
        found: dict[str, Any] = {}
        with self.db.read() as connection:
            limits = quotas.limits_for(connection, self.conf, instance.project_id)
            if request.metadata is not None:
                validate.check_metadata_quota(request.metadata, limits["metadata_items"])
                found["metadata"] = dict(request.metadata)
            validate.check_files(request.personality, limits)
            if request.key_name is None:
                found |= {"key_name": None, "keypair": None}
            elif request.key_name:
                found |= {"key_name": request.key_name, "keypair": _key(connection, context, request.key_name)}
        return found

    def _rebuild_image(self, context: RequestContext, instance: Instance, request: RebuildRequest) -> ImageMeta:
        """The image, after all that can be wrong with it."""
        try:
            image = self.image.get(context, request.image_id)
        except exception.ImageNotFound as error:
            raise exception.Invalid(f"Cannot find image for rebuild: {error.public}") from error
        root = next((d for d in instance.volumes if d.is_root), None)
        hardware.check(instance.flavor, image, flavor_is_the_servers=True)
        if hardware.demand(instance.flavor, image) != hardware.demand(instance.flavor, instance.image):
            raise exception.InvalidHardware(reason="An instance's NUMA topology cannot be changed as part of a rebuild. The "
                                                   "image provided is invalid for this instance.")
        if hardware.encrypts_disks(instance.flavor, image) != hardware.encrypts_disks(instance.flavor, instance.image):
            raise exception.InvalidHardware(reason="Whether an instance's disks are encrypted cannot be changed as part of a "
                                                   "rebuild.")
        validate.check_image(image, instance.flavor, allow_zero_disk=True, is_on_volume=root is not None)
        if root is None:
            return image
        known = instance.image.id if instance.image is not None else ""
        if not request.onto_volume and image.id != known:
            raise exception.ImageUnacceptable(image_id=image.id, reason="Unable to rebuild with a different image for a "
                                                                        "volume-backed server.")
        if request.onto_volume:
            size = self.volume.get(context, root.volume_id or "").size
            if size < int(image.min_disk or 0):
                raise exception.ImageUnacceptable(image_id=image.id, reason=f"it needs {image.min_disk} GiB, the volume has "
                                                                            f"{size}")
        return image


def _key(connection: sa.Connection, context: RequestContext, name: str) -> dict[str, Any]:
    """A key of the user who sends the request, whoever created the server."""
    try:
        found = keypairs.get(connection, context.user_id or "", name)
    except exception.KeypairNotFound as error:
        raise exception.Invalid("Invalid key_name provided.") from error
    return {key: found[key] for key in ("name", "type", "public_key")}


def _of_image(instance: Instance, image: ImageMeta, request: RebuildRequest) -> dict[str, Any]:
    """The columns that depend on the image; a server on a volume has no image, and keeps the properties of the old one."""
    made: dict[str, Any] = {"personality": [dict(one) for one in request.personality] or None}
    if request.disk_config is not None:
        made["auto_disk_config"] = validate.auto_disk_config(image, request.disk_config)
    if str(image.properties.get("img_config_drive", "")) == "mandatory":
        made["config_drive"] = True
    if not instance.is_volume_backed:
        made |= {"image_ref": image.id, "image": image}
    elif request.onto_volume:
        made["image"] = image
    return made
