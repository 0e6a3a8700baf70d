"""Every error of nova_lite. An exception carries its HTTP status; the API makes a fault of it in one place.

``code`` is the HTTP status, ``msg_fmt`` the message with the keyword arguments of the constructor filled in. Errors with a
status below 500 are shown to the user as they are; others are shown only when ``safe`` is set.
"""
from __future__ import annotations

from typing import Any


class NovaLiteError(Exception):
    """Base of all errors that the service raises on purpose."""

    msg_fmt = "An unknown error occurred."
    code = 500
    safe = False

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        super().__init__(message if message is not None else self.msg_fmt % kwargs)

    @property
    def message(self) -> str:
        """The text for the user."""
        return str(self.args[0]) if self.args else self.msg_fmt


# 400 ---------------------------------------------------------------------------------------------------------------
class Invalid(NovaLiteError):
    msg_fmt = "Bad Request - Invalid Parameters"
    code = 400


class ValidationError(Invalid):
    msg_fmt = "%(detail)s"


class MalformedRequestBody(Invalid):
    msg_fmt = "Malformed request body"


class MarkerNotFound(Invalid):
    msg_fmt = "marker [%(marker)s] not found"


class InvalidInput(Invalid):
    msg_fmt = "Invalid input received: %(reason)s"


class FlavorDiskSmallerThanImage(Invalid):
    msg_fmt = ("Flavor's disk is too small for requested image. Flavor disk is %(flavor_size)i bytes, "
               "image is %(image_size)i bytes.")


class FlavorDiskSmallerThanMinDisk(Invalid):
    msg_fmt = ("Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is "
               "%(flavor_size)i bytes, minimum size is %(image_min_disk)i bytes.")


class FlavorMemoryTooSmall(Invalid):
    msg_fmt = "Flavor's memory is too small for requested image."


class ImageNotActive(Invalid):
    msg_fmt = "Image %(image_id)s is not active."


class ImageUnacceptable(Invalid):
    msg_fmt = "Image %(image_id)s is unacceptable: %(reason)s"


class InvalidVolume(Invalid):
    msg_fmt = "Invalid volume: %(reason)s"


class InvalidBlockDevice(Invalid):
    msg_fmt = "Block Device Mapping is Invalid: %(reason)s"


class VolumeSmallerThanMinDisk(Invalid):
    msg_fmt = ("Volume is smaller than the minimum size specified in image metadata. Volume size is %(volume_size)i bytes, "
               "minimum size is %(image_min_disk)i bytes.")


class BootSequenceInvalid(Invalid):
    msg_fmt = ("Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination "
               "is not valid.")


class VolumeNotBootable(Invalid):
    msg_fmt = "Block Device %(id)s is not bootable."


class MultiattachTooOld(Invalid):
    msg_fmt = "Multiattach volumes are only supported starting with compute API version 2.60."


class UnsupportedNetworkRequest(Invalid):
    msg_fmt = "%(reason)s"


class InstanceNotRescuable(Invalid):
    msg_fmt = "Instance %(instance_id)s cannot be rescued: %(reason)s"


class UnsupportedRescueImage(Invalid):
    msg_fmt = "Requested rescue image '%(image)s' is not supported: %(reason)s"


class Unauthorized(NovaLiteError):
    msg_fmt = "The request you have made requires authentication."
    code = 401


class FixedIpAlreadyInUse(Invalid):
    msg_fmt = "Fixed IP address %(address)s is already in use on network %(network_id)s."


class FixedIpNotFoundForInstance(Invalid):
    msg_fmt = "Instance %(instance_uuid)s does not have fixed IP '%(ip)s'."


class NetworkRequiresSubnet(Invalid):
    msg_fmt = "Network %(network_id)s requires a subnet in order to boot instances on."


class PortRequiresFixedIP(Invalid):
    msg_fmt = "Port %(port_id)s requires a FixedIP in order to be used."


class SecurityGroupCannotBeApplied(Invalid):
    msg_fmt = "Network %(network_id)s requires port_security_enabled and subnet associated in order to apply security groups."


class InterfaceAttachFailedNoNetwork(Invalid):
    msg_fmt = "No specific network was requested and none are available for project '%(project_id)s'."


class UnableToAutoAllocateNetwork(Invalid):
    msg_fmt = "Unable to automatically allocate a network for project %(project_id)s"


class InvalidAggregateAction(Invalid):
    msg_fmt = "Cannot %(action)s aggregate %(aggregate_id)s. Reason: %(reason)s."


class InvalidKeypair(Invalid):
    msg_fmt = "Keypair data is invalid: %(reason)s"


class CannotResizeToSameFlavor(Invalid):
    msg_fmt = "When resizing, instances must change flavor!"


class CannotResizeDisk(Invalid):
    msg_fmt = "Server disk was unable to be resized because: %(reason)s"


class MigrationPreCheckError(Invalid):
    msg_fmt = "Migration pre-check error: %(reason)s"


class InvalidHypervisorType(Invalid):
    msg_fmt = "The supplied hypervisor type of is invalid."


class DestinationHypervisorTooOld(Invalid):
    msg_fmt = "The instance requires a newer hypervisor version than has been provided."


class InvalidCPUInfo(Invalid):
    msg_fmt = "Unacceptable CPU info: %(reason)s"


class InvalidLocalStorage(Invalid):
    msg_fmt = "%(path)s is not on local storage: %(reason)s"


class InvalidSharedStorage(Invalid):
    msg_fmt = "%(path)s is not on shared storage: %(reason)s"


class UnableToMigrateToSelf(Invalid):
    msg_fmt = "Unable to migrate instance (%(instance_id)s) to current host (%(host)s)."


class ComputeServiceUnavailable(Invalid):
    msg_fmt = "Compute service of %(host)s is unavailable at this time."


class ComputeServiceInUse(Invalid):
    msg_fmt = "Compute service of %(host)s is still in use."


class InvalidMigrationState(Invalid):
    msg_fmt = ("Migration %(migration_id)s state of instance %(instance_id)s is %(state)s. Cannot %(method)s while the "
               "migration is in this state.")


class CannotMigrateToSameHost(Invalid):
    msg_fmt = "Cannot migrate to the host where the server exists."


class ConsoleTypeInvalid(Invalid):
    msg_fmt = "Invalid console type %(console_type)s"


class ConsoleTypeUnavailable(Invalid):
    msg_fmt = "Unavailable console type %(console_type)s."


# 403 ---------------------------------------------------------------------------------------------------------------
class Forbidden(NovaLiteError):
    msg_fmt = "Forbidden"
    code = 403


class PolicyNotAuthorized(Forbidden):
    msg_fmt = "Policy doesn't allow %(action)s to be performed."


class OverQuota(Forbidden):
    msg_fmt = "Quota exceeded for resources: %(overs)s"


class TooManyInstances(OverQuota):
    msg_fmt = ("Quota exceeded for %(overs)s: Requested %(req)s, but already used %(used)s of %(allowed)s %(overs)s")


class TooManyDiskDevices(Forbidden):
    msg_fmt = ("The maximum allowed number of disk devices (%(maximum)d) to attach to a single instance has been exceeded.")


class QuotaLimitExceeded(OverQuota):
    msg_fmt = "Quota exceeded, too many %(what)s."


class PortLimitExceeded(OverQuota):
    msg_fmt = "Maximum number of ports exceeded"


class ExternalNetworkAttachForbidden(Forbidden):
    msg_fmt = "It is not allowed to create an interface on external network %(network_id)s"


class MetadataLimitExceeded(OverQuota):
    msg_fmt = "Maximum number of metadata items exceeds %(allowed)d"


# 404 ---------------------------------------------------------------------------------------------------------------
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


# 406, 409, 410, 413 ------------------------------------------------------------------------------------------------
class InvalidGlobalAPIVersion(NovaLiteError):
    msg_fmt = "Version %(req_ver)s is not supported by the API. Minimum is %(min_ver)s and maximum is %(max_ver)s."
    code = 406


class Conflict(NovaLiteError):
    msg_fmt = "Conflict"
    code = 409


class InstanceInvalidState(Conflict):
    msg_fmt = "Cannot '%(action)s' instance %(instance_id)s while it is in %(attr)s %(state)s"


class InstanceIsLocked(Conflict):
    msg_fmt = "Instance %(instance_id)s is locked"


class InstanceNotReady(Conflict):
    msg_fmt = "Instance %(instance_id)s is not ready"


class UnexpectedTaskState(Conflict):
    msg_fmt = ("Conflict updating instance %(instance_id)s. Expected: task_state %(expected)s. "
               "Actual: task_state %(actual)s")


class LeaseLost(Conflict):
    """Another worker took the action: the holder must stop at once and change nothing more."""

    msg_fmt = "The lease of action %(action_id)s is not held by %(owner)s any more"


class UnshelveInvalidState(Conflict):
    msg_fmt = ('Specifying an availability zone or a host when unshelving instance "%(instance_id)s" with status "%(state)s" '
               "is not supported. The instance status must be SHELVED_OFFLOADED.")


class UnshelveHostNotInZone(Conflict):
    msg_fmt = 'Host "%(host)s" is not in the availability zone "%(availability_zone)s".'


class FlavorExists(Conflict):
    msg_fmt = "Flavor with name %(name)s already exists."


class FlavorIdExists(Conflict):
    msg_fmt = "Flavor with ID %(flavor_id)s already exists."


class FlavorAccessExists(Conflict):
    msg_fmt = "Flavor access already exists for flavor %(flavor_id)s and project %(project_id)s combination."


class KeyPairExists(Conflict):
    msg_fmt = "Key pair '%(name)s' already exists."


class AggregateNameExists(Conflict):
    msg_fmt = "Aggregate %(name)s already exists."


class AggregateHostExists(Conflict):
    msg_fmt = "Aggregate %(aggregate_id)s already has host %(host)s."


class HostInUse(Conflict):
    msg_fmt = "%(reason)s"


class PortInUse(Conflict):
    msg_fmt = "Port %(port_id)s is still in use."


class SecurityGroupAmbiguous(Conflict):
    msg_fmt = "Multiple security groups found matching '%(name)s'. Use an ID to be more specific."


class NetworkAmbiguous(Conflict):
    msg_fmt = "Multiple possible networks found, use a Network ID to be more specific."


class NoMoreFixedIps(NovaLiteError):
    msg_fmt = "No fixed IP addresses available for network: %(net)s"
    code = 400
    safe = True


class Gone(NovaLiteError):
    msg_fmt = "%(what)s is not there any more: Nova removed it in %(release)s."
    code = 410


class RequestTooLarge(NovaLiteError):
    msg_fmt = "Request is too large. The limit is %(limit)d bytes."
    code = 413


# 5xx and internal --------------------------------------------------------------------------------------------------
class SharesNotSupported(Forbidden):
    msg_fmt = "Shares of files are not supported here: %(reason)s."


class ShareUnusable(Conflict):
    msg_fmt = "Share %(share_id)s %(reason)s."


class ShareAlreadyAttached(Conflict):
    msg_fmt = "Share '%(share_id)s' or tag '%(tag)s' already associated to this server."


class ForbiddenWithShare(Conflict):
    msg_fmt = "Feature not supported with instances that have shares."


class ShareAccessFailed(NovaLiteError):
    msg_fmt = "Share %(share_id)s could not be opened to %(address)s: %(reason)s."


class NotImplementedByDriver(NovaLiteError):
    msg_fmt = "The driver of this host does not support: %(what)s"
    code = 501


class ServiceUnavailable(NovaLiteError):
    msg_fmt = "%(what)s is unavailable: %(reason)s"
    code = 503
    safe = True


class NoValidHost(NovaLiteError):
    """No host passed the filters. ``reason`` says how many hosts each filter left."""

    msg_fmt = "No valid host was found. %(reason)s"
    safe = True


class HostDown(NovaLiteError):
    msg_fmt = "Compute host %(host)s stopped reporting while it worked on '%(operation)s'"
    safe = True


class BuildFailed(NovaLiteError):
    """A build that failed on this host and may be tried on another one."""

    msg_fmt = "Build of instance %(instance_id)s failed: %(reason)s"
    safe = True


class BuildAborted(BuildFailed):
    """A build that would fail on every host."""


class VirtDriverError(NovaLiteError):
    msg_fmt = "%(what)s failed: %(reason)s"
    safe = True


class MigrationError(NovaLiteError):
    """The move of a server failed."""

    msg_fmt = "Migration error: %(reason)s"
    safe = True


class LiveMigrationAborted(NovaLiteError):
    msg_fmt = "Live migration of instance %(instance_id)s was aborted"
    safe = True


class ResizeError(NovaLiteError):
    """The server cannot be moved or resized, and stays as it is."""

    msg_fmt = "Resize error: %(reason)s"
    safe = True


class InterfaceAttachFailed(NovaLiteError):
    msg_fmt = "Failed to attach a network interface to %(instance_id)s: %(reason)s"
    safe = True


class UnshelveFailed(NovaLiteError):
    msg_fmt = "Unshelve of %(instance_id)s attempted but the image %(image_id)s cannot be found."


class VolumeNotReimaged(NovaLiteError):
    msg_fmt = "Volume %(volume_id)s did not get image %(image_id)s: its status is %(status)s"


class VolumeStuck(NovaLiteError):
    msg_fmt = ("Attaching volume %(volume_id)s failed: %(reason)s; it is reserved until it is detached, as taking it back "
               "failed, too: %(second)s")
    safe = True


class ConfigError(NovaLiteError):
    """A mistake of the operator, told in one line."""

    msg_fmt = "%(reason)s"
    safe = True
