"""Rescue of servers: which image, and whether it can be."""
from __future__ import annotations

from oslo_log import log

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)


class Rescues(Base):
    """POST /servers/{id}/action (rescue, unrescue)."""

    def rescue(self, context: RequestContext, instance: Instance, image_id: str | None, password: str | None,
               on_volume: bool) -> None:
        """Begin to boot the server from an image (None: its own). ``on_volume``: it may be one that boots from a volume
        (2.87). Raises InstanceNotRescuable, UnsupportedRescueImage (400), or the 409s of its state."""
        operations.check(operations.VERBS["rescue"], instance, may_override_lock=bool(context.is_admin))
        validate.refuse_vtpm(instance, "rescue")
        if instance.is_volume_backed and not on_volume:
            raise exception.InstanceNotRescuable(instance_id=instance.uuid, reason="Cannot rescue a volume-backed instance")
        image = self._rescue_image(context, instance, image_id)
        stable = image.properties.get("hw_rescue_device") or image.properties.get("hw_rescue_bus")
        if instance.is_volume_backed and not stable:
            raise exception.InstanceNotRescuable(
                instance_id=instance.uuid, reason=f"it boots from a volume, so image {image.id} must say by hw_rescue_device "
                "or hw_rescue_bus how it is to be added")
        arguments: dict[str, object] = {"image": image.to_primitive()}
        if password and instance.config_drive:
            arguments["admin_password"] = password
        self.operate(context, instance.uuid, "rescue", arguments)

    def unrescue(self, context: RequestContext, uuid: str) -> None:
        """Let it boot from its own disk again."""
        self.operate(context, uuid, "unrescue")

    def _rescue_image(self, context: RequestContext, instance: Instance, image_id: str | None) -> ImageMeta:
        image = self._named(context, image_id) if image_id else self._own(context, instance)
        wanted = image.id
        if image.status != "active":
            raise exception.UnsupportedRescueImage(image=wanted, reason=f"it is {image.status}")
        if image.properties.get("block_device_mapping") or image.properties.get("mappings"):
            raise exception.UnsupportedRescueImage(image=wanted, reason="it is of a server that booted from a volume")
        return image

    def _named(self, context: RequestContext, image_id: str) -> ImageMeta:
        try:
            return self.image.get(context, image_id)
        except exception.ImageNotFound as error:
            raise exception.UnsupportedRescueImage(image=image_id, reason=error.public) from error

    def _own(self, context: RequestContext, instance: Instance) -> ImageMeta:
        """For a server from a snapshot, the image from which the system was installed, if that still exists: the snapshot may
        contain the fault."""
        base = instance.image.properties.get("base_image_ref") if instance.image is not None else None
        if base:
            try:
                return self.image.get(context, str(base))
            except exception.ImageNotFound as error:
                LOG.info("rescued by its own image: %s", error, extra={"instance_uuid": instance.uuid})
        wanted = instance.image_ref or (instance.image.id if instance.image is not None else "")
        if not wanted:
            raise exception.InstanceNotRescuable(instance_id=instance.uuid, reason="it has no image, and none was named")
        return self._named(context, wanted)
