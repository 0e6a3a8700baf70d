"""A disk of a server besides those of its flavor: the request, and its present state."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nova_lite.objects.base import Record

IMAGE, VOLUME, SNAPSHOT, BLANK, LOCAL = "image", "volume", "snapshot", "blank", "local"
FORMATS = ("ext4", "ext3", "ext2")      # of the file system on an empty disk of the host; the first is the default
MAX_LOCAL = 3           # disks of the host, with the root disk and what the flavor gives: Nova's max_local_block_devices


@dataclass
class BlockDevice(Record):
    """One entry of ``instances.block_devices``; the words are those of ``block_device_mapping_v2``.

    ``id`` is our own (a uuid), stable from the request on. ``source_type`` is image, volume, snapshot or blank and
    ``source_id`` the id of that; ``destination_type`` is volume or local. ``size`` is GiB. ``boot_index`` 0 is the root disk,
    None or negative never boots.

    A volume passes through: ``volume_id`` None (still to be created from its source), set, ``attachment_id`` set (reserved in
    the Volume service), ``connection_info`` set (this host may connect it), ``attached`` (the guest has it). What is undone
    goes the same way back. ``connection_info`` never holds a secret: what a host needs to authenticate it keeps itself.
    A guest is given the volumes that have one whenever it is started.
    """

    id: str
    source_type: str
    destination_type: str = VOLUME
    source_id: str | None = None
    boot_index: int | None = None
    size: int | None = None
    volume_id: str | None = None
    volume_type: str | None = None
    delete_on_termination: bool = False
    device_name: str | None = None
    device_type: str | None = None
    disk_bus: str | None = None
    guest_format: str | None = None
    tag: str | None = None
    attachment_id: str | None = None
    connection_info: dict[str, Any] | None = None
    attached: bool = False
    multiattach: bool = False

    @property
    def is_volume(self) -> bool:
        """True for what the Volume service holds, False for a disk of the host."""
        return self.destination_type == VOLUME

    @property
    def serial(self) -> str:
        """The serial number by which the guest identifies the volume: its id, or that of the volume for which it was
        exchanged."""
        return str((self.connection_info or {}).get("serial") or self.volume_id)

    @property
    def is_root(self) -> bool:
        """True for the disk that the guest boots from."""
        return self.boot_index == 0

    @property
    def is_swap(self) -> bool:
        """True for the swap disk of a host; ``size`` is MiB then."""
        return not self.is_volume and self.source_type == BLANK and self.guest_format == "swap"

    @property
    def is_ephemeral(self) -> bool:
        """True for an empty disk of the host."""
        return not self.is_volume and self.source_type == BLANK and self.guest_format != "swap"


def find(devices: Iterable[BlockDevice], volume_id: str) -> BlockDevice | None:
    """The device that is this volume."""
    return next((d for d in devices if d.is_volume and d.volume_id == volume_id), None)
