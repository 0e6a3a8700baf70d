"""Shares of files: the data of the Shared File System service, and the record of a server."""
from __future__ import annotations

from dataclasses import dataclass

from nova_lite.objects.base import Record

AVAILABLE = "available"
ATTACHING, INACTIVE, ACTIVE, DETACHING, ERROR = "attaching", "inactive", "active", "detaching", "error"


@dataclass
class Share(Record):
    """A share, as in its service. A host mounts ``export_location``."""

    id: str
    status: str
    protocol: str
    export_location: str | None = None


@dataclass
class ShareAttachment(Record):
    """One entry of ``instances.shares``. ``uuid`` is our own, ``tag`` the name by which the guest mounts it.

    ``status``: attaching (its host gets access), inactive (it has), active (the guest runs with it), detaching, error.
    """

    uuid: str
    share_id: str
    tag: str
    status: str = ATTACHING
    export_location: str | None = None
    protocol: str = ""
