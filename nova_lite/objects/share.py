"""Shares of files: what the Shared File System service says of one, and what a server has of it."""
from __future__ import annotations

from dataclasses import dataclass

from nova_lite.objects.base import Record

AVAILABLE = "available"
ATTACHING, INACTIVE, ACTIVE, DETACHING, ERROR = "attaching", "inactive", "active", "detaching", "error"


@dataclass
class Share(Record):
    """A share as its service knows it; ``export_location`` is what a host mounts."""

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
