"""400: what the user asked cannot be asked like this."""
from __future__ import annotations

from nova_lite.exception.base import NovaLiteError


class Invalid(NovaLiteError):
    msg_fmt = "Bad Request - Invalid Parameters"
    code = 400


class ValidationError(Invalid):
    msg_fmt = "%(detail)s"


class MalformedRequestBody(Invalid):
    msg_fmt = "Malformed request body"


class RequestAborted(MalformedRequestBody):
    msg_fmt = "The request body ended before its end"


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


class InvalidHardware(Invalid):
    """A guest that flavor and image describe and that cannot be."""

    msg_fmt = "%(reason)s"


class FlavorImageConflict(Invalid):
    msg_fmt = "%(reason)s"


class PciRequestAliasNotDefined(Invalid):
    msg_fmt = "PCI alias %(alias)s is not defined"


class InvalidVolume(Invalid):
    msg_fmt = "Invalid volume: %(reason)s"


class EncryptionKeyNotFound(InvalidVolume):
    """Of a volume or of a server's own disks."""

    msg_fmt = "It is encrypted, and its key %(key_id)s is not in the key manager"


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


class AttachToShelvedNotSupported(Invalid):
    msg_fmt = "%(what)s cannot be attached to a server that is shelved and has no host."


class UnsupportedNetworkRequest(Invalid):
    msg_fmt = "%(reason)s"


class InstanceNotRescuable(Invalid):
    msg_fmt = "Instance %(instance_id)s cannot be rescued: %(reason)s"


class UnsupportedRescueImage(Invalid):
    msg_fmt = "Requested rescue image '%(image)s' is not supported: %(reason)s"


class Unauthorized(NovaLiteError):
    msg_fmt = "The request you have made requires authentication."
    code = 401


class TooManyLogins(NovaLiteError):
    msg_fmt = "Too many failed logins from this address. Try again in %(retry_after)d seconds."
    code = 429


class FixedIpAlreadyInUse(Invalid):
    msg_fmt = "Fixed IP address %(address)s is already in use on network %(network_id)s."


class FixedIpNotFoundForInstance(Invalid):
    msg_fmt = "Instance %(instance_uuid)s does not have fixed IP '%(ip)s'."


class NetworkRequiresSubnet(Invalid):
    msg_fmt = "Network %(network_id)s requires a subnet in order to boot instances on."


class PortNotUsable(Invalid):
    msg_fmt = "Port %(port_id)s not usable for instance %(instance)s."


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
    public_fmt = "The disks are not on local storage: %(reason)s"


class InvalidSharedStorage(Invalid):
    msg_fmt = "%(path)s is not on shared storage: %(reason)s"
    public_fmt = "The disks are not on shared storage: %(reason)s"


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
