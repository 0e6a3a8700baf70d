"""The data of a volume, the same for each driver."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record

AVAILABLE, CREATING, IN_USE, DETACHING, ERROR = "available", "creating", "in-use", "detaching", "error"
DELETING = "deleting"


@dataclass
class Volume(Record):
    """``size`` is GiB; ``attachments`` are [{"server_id", "attachment_id"}], with "device" where it is known;
    ``image_metadata`` describes the image on it."""

    id: str
    status: str
    size: int
    project_id: str = ""
    name: str = ""
    description: str = ""
    volume_type: str | None = None
    availability_zone: str | None = None
    bootable: bool = False
    multiattach: bool = False
    encrypted: bool = False
    snapshot_id: str | None = None
    source_image: str | None = None
    attachments: list[dict[str, str]] = field(default_factory=list)
    image_metadata: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    created_at: str = ""
    migration_status: str | None = None     # visible for services only

    @property
    def is_migrating(self) -> bool:
        """True while the Volume service moves the data to another volume, which takes this one's place at the end."""
        return self.migration_status not in (None, "")


@dataclass
class Snapshot(Record):
    """``size`` is that of its volume in GiB."""

    id: str
    volume_id: str
    size: int
    status: str = AVAILABLE
    name: str = ""
    description: str = ""
    created_at: str = ""


@dataclass
class Attachment(Record):
    """A reservation of a volume for a server; it has ``connection_info`` once it has a connector.

    ``connection_info`` is {"driver_volume_type": rbd|iscsi|nbd|local, "data": {...}} as Cinder returns it, with secrets: never
    log it, never store it.
    """

    id: str
    volume_id: str
    server_id: str
    status: str = "reserved"
    connection_info: dict[str, Any] = field(default_factory=dict, repr=False)
