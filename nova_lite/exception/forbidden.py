"""403: the user may not, or has used up what he may."""
from __future__ import annotations

from nova_lite.exception.base import NovaLiteError


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


class StorageLimitExceeded(OverQuota):
    msg_fmt = "Quota exceeded for %(what)s: the project has %(used)s of %(limit)s, and %(asked)s more are too much."


class StorageFull(OverQuota):
    """Reported like a quota, as in Glance: the user has to use less."""

    msg_fmt = "Storage is full: there is too little room left on its disk."


class PortLimitExceeded(OverQuota):
    msg_fmt = "Maximum number of ports exceeded"


class ExternalNetworkAttachForbidden(Forbidden):
    msg_fmt = "It is not allowed to create an interface on external network %(network_id)s"


class MetadataLimitExceeded(OverQuota):
    msg_fmt = "Maximum number of metadata items exceeds %(allowed)d"


class HostNotAllowed(Forbidden):
    """A compute host asked for another host's data, or a sender was not authenticated."""

    msg_fmt = "Compute host %(host)s is refused: %(reason)s"
    public_fmt = "A message to or from a compute host is refused"


class MessageReplayed(HostNotAllowed):
    """A signed message was received before."""


class SharesNotSupported(Forbidden):
    msg_fmt = "Shares of files are not supported here: %(reason)s."
