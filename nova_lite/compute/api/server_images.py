"""Images of servers: the record is made with the user's token before the answer, the data comes from the host."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_log import log

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.db import quotas
from nova_lite.image.base import ImageAPI
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
# what is true of an image's data, not of what a guest has made of it; and how it was come by
_NOT_INHERITED = {"cache_in_nova", "bittorrent", "img_signature_hash_method", "img_signature", "img_signature_key_type",
                  "img_signature_certificate_uuid", "cinder_encryption_key_id", "cinder_encryption_key_deletion_policy",
                  "direct_url", "locations", "block_device_mapping", "mappings", "root_device_name", "bdm_v2",
                  "backup_type", "image_type"}
_NOT_INHERITED_PREFIXES = ("os_glance_", "signature_verified")


class ServerImages(Base):
    """Both return the id of the new image, which stays queued until the host has its data. The user's metadata override the
    other properties; only ``backup_type`` is that of the request, since the rotation depends on it."""

    def check_image_metadata(self, instance: Instance, metadata: Mapping[str, str]) -> None:
        """Raise MetadataLimitExceeded: the project's quota of a server's metadata holds for those of its images, too."""
        with self.db.read() as connection:
            limits = quotas.limits_for(connection, self.conf, instance.project_id)
        validate.check_metadata_quota(metadata, limits["metadata_items"])

    def create_image(self, context: RequestContext, instance: Instance, name: str, metadata: Mapping[str, str]) -> str:
        """An image of the server's disk. Raises InstanceInvalidState, InstanceNotReady, or the Image service's error for the
        user."""
        return self._create(context, instance, "createImage", name, {"image_type": "snapshot", **metadata}, {})

    def create_backup(self, context: RequestContext, instance: Instance, name: str, metadata: Mapping[str, str],
                      backup_type: str, rotation: int) -> str:
        """The same, of which the newest ``rotation`` of each ``backup_type`` are kept."""
        properties = {"image_type": "backup", **metadata, "backup_type": backup_type}
        return self._create(context, instance, "createBackup", name, properties,
                            {"backup_type": backup_type, "rotation": rotation})

    def _create(self, context: RequestContext, instance: Instance, verb: str, name: str, properties: Mapping[str, str],
                arguments: Mapping[str, Any]) -> str:
        check_image(context, instance, verb)
        validate.refuse_encrypted_disks(instance, verb)
        if instance.host is None:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        image = self.image.create(context, image_record(context, instance, name, properties))
        try:
            self.operate(context, instance.uuid, verb, {**arguments, "image_id": image.id})
        except Exception:
            forget_image(self.image, context, image.id, instance)
            raise
        return image.id


def check_image(context: RequestContext, instance: Instance, verb: str) -> None:
    """Raise what ``states.check`` raises."""
    operations.check(operations.VERBS[verb], instance, may_override_lock=bool(context.is_admin))


def forget_image(images: ImageAPI, context: RequestContext, image_id: str, instance: Instance,
                 unless_whole: bool = False) -> None:
    """Delete the image of an operation that did not begin, or of a server that is gone; ``unless_whole``: an image with data
    stays. An error is only logged."""
    try:
        if not unless_whole or images.get(context, image_id).status != "active":
            images.delete(context, image_id)
    except exception.ImageNotFound:
        return
    except exception.NovaLiteError as error:
        LOG.warning("image %s is of no use any more and could not be deleted: %s", image_id, error,
                    extra={"instance_uuid": instance.uuid})


def image_record(context: RequestContext, instance: Instance, name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """What an image of a server is created with, without its formats, which are the host's to choose."""
    origin = instance.image
    inherited = {k: v for k, v in (origin.properties if origin else {}).items()
                 if k not in _NOT_INHERITED and not k.startswith(_NOT_INHERITED_PREFIXES)}
    own = {"base_image_ref": inherited.get("base_image_ref") or instance.image_ref, "instance_uuid": instance.uuid,
           "user_id": str(context.user_id), "owner_id": instance.project_id, "image_location": "snapshot",
           "image_state": "available"}
    return {"name": name, "visibility": "private", "min_ram": origin.min_ram if origin else 0,
            "min_disk": max(origin.min_disk if origin else 0, instance.flavor.root_gb),
            "properties": {**inherited, **own, **properties}}
