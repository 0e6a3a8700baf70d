"""5xx, and the errors between the services, which become the faults of servers."""
from __future__ import annotations

from nova_lite.exception.base import NovaLiteError


class ShareAccessFailed(NovaLiteError):
    msg_fmt = "Share %(share_id)s could not be opened to %(address)s: %(reason)s."
    public_fmt = "Share %(share_id)s could not be opened to the host of the server."


class NotImplementedByDriver(NovaLiteError):
    msg_fmt = "The driver of this host does not support: %(what)s"
    code = 501


class ServiceUnavailable(NovaLiteError):
    """``reason`` is in our own words, or an exception."""

    msg_fmt = "%(what)s is unavailable: %(reason)s"
    code = 503
    safe = True


class NoValidHost(NovaLiteError):
    """No host passed the filters. ``reason`` says how many hosts each filter left."""

    msg_fmt = "No valid host was found. %(reason)s"
    safe = True


class HostDown(NovaLiteError):
    msg_fmt = "Compute host %(host)s stopped reporting while it worked on '%(operation)s'"
    public_fmt = "The compute host stopped reporting while it worked on '%(operation)s'"


class HostDownBefore(HostDown):
    msg_fmt = "Compute host %(host)s stopped reporting before it began '%(operation)s'"
    public_fmt = "The compute host stopped reporting before it began '%(operation)s'"


class GuestMayRun(HostDown):
    msg_fmt = ("Compute host %(host)s stopped reporting while it worked on '%(operation)s', and the guest may run there: "
               "waiting for the host to come back, or to be declared down")
    public_fmt = "The compute host stopped reporting while it worked on '%(operation)s', and the guest may run there"


class GuestRemains(NovaLiteError):
    msg_fmt = ("'%(operation)s' failed on compute host %(host)s, and its guest, which may run, could not be removed: it is "
               "tried again there, and nowhere else. %(reason)s")
    public_fmt = "'%(operation)s' failed, and the guest, which may run, could not be removed: it is tried again. %(reason)s"


class BuildFailed(NovaLiteError):
    """A build that failed on this host and may be tried on another one."""

    msg_fmt = "Build of instance %(instance_id)s failed: %(reason)s"
    safe = True


class BuildAborted(BuildFailed):
    """A build that would fail on every host."""


class VirtDriverError(NovaLiteError):
    """An error of libvirt, a program or the kernel: its text is for the operator."""

    msg_fmt = "%(what)s failed: %(reason)s"


class DriverRefusal(VirtDriverError):
    """What the driver itself finds wrong: its words are our own, without paths, addresses and names of hosts."""

    safe = True


class GuestLacksDisk(DriverRefusal):
    """No guest has the disk: it is off, or was started without it."""

    msg_fmt = "Exchanging a volume failed: the guest has no disk %(disk)s, or does not run"


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
    safe = True


class VolumeNotReimaged(NovaLiteError):
    msg_fmt = "Volume %(volume_id)s did not get image %(image_id)s: its status is %(status)s"
    safe = True


class VolumeStuck(NovaLiteError):
    msg_fmt = ("Attaching volume %(volume_id)s failed: %(reason)s; it is reserved until it is detached, as taking it back "
               "failed, too: %(second)s")
    safe = True


class ConfigError(NovaLiteError):
    """A mistake in the operator's configuration, reported in one line."""

    msg_fmt = "%(reason)s"
    safe = True
