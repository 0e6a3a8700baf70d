"""406 to 413: not now, not any more, not in this version, or too much at once."""
from __future__ import annotations

from nova_lite.exception.base import NovaLiteError


class InvalidGlobalAPIVersion(NovaLiteError):
    msg_fmt = "Version %(req_ver)s is not supported by the API. Minimum is %(min_ver)s and maximum is %(max_ver)s."
    code = 406


class Conflict(NovaLiteError):
    msg_fmt = "Conflict"
    code = 409


class InstanceInvalidState(Conflict):
    msg_fmt = "Cannot '%(action)s' instance %(instance_id)s while it is in %(attr)s %(state)s"


class InstanceIsBusy(InstanceInvalidState):
    msg_fmt = "Cannot '%(action)s' instance %(instance_id)s while it is in the middle of %(state)s"


class OperationNotSupportedForVTPM(Conflict):
    msg_fmt = "Operation '%(operation)s' not supported for vTPM-enabled instance (%(instance_uuid)s)."


class OperationNotSupportedForEncryptedDisks(Conflict):
    msg_fmt = "Operation '%(operation)s' not supported for instance %(instance_uuid)s with encrypted disks: %(reason)s"


class QemuGuestAgentNotEnabled(Conflict):
    msg_fmt = "QEMU guest agent is not enabled (the image needs hw_qemu_guest_agent=yes, and the agent in it)."


class InstanceQuiesceFailed(Conflict):
    msg_fmt = "Failed to quiesce instance: %(reason)s"


class InstanceIsLocked(Conflict):
    msg_fmt = "Instance %(instance_id)s is locked"


class InstanceNotReady(Conflict):
    msg_fmt = "Instance %(instance_id)s is not ready"


class UnexpectedTaskState(Conflict):
    msg_fmt = ("Conflict updating instance %(instance_id)s. Expected: task_state %(expected)s. "
               "Actual: task_state %(actual)s")


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


class MacAddressInUse(Conflict):
    msg_fmt = "Hardware address %(mac)s is in use."


class SecurityGroupAmbiguous(Conflict):
    msg_fmt = "Multiple security groups found matching '%(name)s'. Use an ID to be more specific."


class NetworkAmbiguous(Conflict):
    msg_fmt = "Multiple possible networks found, use a Network ID to be more specific."


class NoMoreFixedIps(NovaLiteError):
    msg_fmt = "No fixed IP addresses available for network: %(net)s"
    code = 400
    safe = True


class Gone(NovaLiteError):
    """The text is the standard one (webob.exc.HTTPGone), which clients look for."""

    msg_fmt = "This resource is no longer available. No forwarding address is given."
    code = 410


class RequestTooLarge(NovaLiteError):
    msg_fmt = "Request is too large. The limit is %(limit)d bytes."
    code = 413


class ShareUnusable(Conflict):
    msg_fmt = "Share %(share_id)s %(reason)s."


class ShareAlreadyAttached(Conflict):
    msg_fmt = "Share '%(share_id)s' or tag '%(tag)s' already associated to this server."


class ForbiddenWithShare(Conflict):
    msg_fmt = "Feature not supported with instances that have shares."


class ComputeServiceMayBeInUse(Conflict):
    msg_fmt = ("Compute service of %(host)s may still be in use: conductors have not received the reports of hosts for "
               "%(seconds)d s without a break. Try again later, or force the service down if the host is off.")
