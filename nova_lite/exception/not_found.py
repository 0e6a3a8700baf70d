"""404: it is not there, or not for this user."""
from __future__ import annotations

from nova_lite.exception.base import NovaLiteError


class NotFound(NovaLiteError):
    msg_fmt = "Resource could not be found."
    code = 404


class InstanceNotFound(NotFound):
    msg_fmt = "Instance %(instance_id)s could not be found."


class FlavorNotFound(NotFound):
    msg_fmt = "Flavor %(flavor_id)s could not be found."


class FlavorExtraSpecNotFound(NotFound):
    msg_fmt = "Flavor %(flavor_id)s has no extra specs with key %(key)s."


class FlavorAccessNotFound(NotFound):
    msg_fmt = "Flavor access not found for %(flavor_id)s / %(project_id)s combination."


class ImageNotFound(NotFound):
    msg_fmt = "Image %(image_id)s could not be found."


class NetworkNotFound(NotFound):
    msg_fmt = "Network %(network_id)s could not be found."


class PortNotFound(NotFound):
    msg_fmt = "Port id %(port_id)s could not be found."


class SecurityGroupNotFound(NotFound):
    msg_fmt = "Security group %(security_group_id)s not found."


class VolumeNotFound(NotFound):
    msg_fmt = "Volume %(volume_id)s could not be found."


class SnapshotNotFound(NotFound):
    msg_fmt = "Snapshot %(snapshot_id)s could not be found."


class VolumeAttachmentNotFound(NotFound):
    msg_fmt = "Volume attachment %(attachment_id)s could not be found."


class ShareNotFound(NotFound):
    msg_fmt = "Share %(share_id)s could not be found."


class VolumeNotAttached(NotFound):
    msg_fmt = "Instance %(instance_id)s is not attached to volume %(volume_id)s."


class MigrationNotFound(NotFound):
    msg_fmt = "Migration %(migration_id)s could not be found."


class KeypairNotFound(NotFound):
    msg_fmt = "Keypair %(name)s not found for user %(user_id)s"


class ServiceNotFound(NotFound):
    msg_fmt = "Service %(service_id)s could not be found."


class HostBinaryNotFound(NotFound):
    msg_fmt = "Could not find binary %(binary)s on host %(host)s."


class ComputeHostNotFound(NotFound):
    msg_fmt = "Compute host %(host)s could not be found."


class HypervisorNotFound(NotFound):
    msg_fmt = "Hypervisor with ID '%(hypervisor_id)s' could not be found."


class AggregateNotFound(NotFound):
    msg_fmt = "Aggregate %(aggregate_id)s could not be found."


class AggregateHostNotFound(NotFound):
    msg_fmt = "Aggregate %(aggregate_id)s has no host %(host)s."


class ServerGroupNotFound(NotFound):
    msg_fmt = "Instance group %(group_uuid)s could not be found."


class ActionNotFound(NotFound):
    msg_fmt = "Action for request_id %(request_id)s on instance %(instance_id)s not found"


class TagNotFound(NotFound):
    msg_fmt = "Server %(server_id)s has no tag '%(tag)s'"


class ConsoleTokenNotFound(NotFound):
    msg_fmt = "Token not found: it is unknown or has expired, or its server has stopped or moved."


class MetadataItemNotFound(NotFound):
    msg_fmt = "Metadata item was not found"
