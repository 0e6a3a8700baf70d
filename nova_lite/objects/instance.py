"""A server, as the database holds it and as it crosses RPC."""
from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.network import VIF
from nova_lite.objects.share import ShareAttachment

PASSWORD_PIECE, PASSWORD_PIECES = 255, 4
PASSWORD_SIZE = PASSWORD_PIECE * PASSWORD_PIECES
PASSWORD_KEYS = tuple(f"password_{number}" for number in range(PASSWORD_PIECES))
"""Bytes that an encrypted password may have."""
SHELVED_AT, SHELVED_IMAGE, SHELVED_HOST = "shelved_at", "shelved_image_id", "shelved_host"
"""What ``system_metadata`` knows of a shelved server; the image is there only if it does not boot from a volume."""
UNSHELVED_IMAGE = "unshelved_image_id"
"""The image of a shelved server whose guest is back: it is needed no more, and may be gone already."""
DISKS_KEY = "disks_encryption_key_id"
"""The id of the key of its own disks, where they are encrypted."""
DEVICE_ADDRESSES = "device_addresses"
"""Where the guest finds its devices, of a server of which any has a tag: see ``ComputeDriver.device_addresses``."""
UNSHELVED_HOST = "unshelved_host"
"""The host whose guest may have begun to run, on a shelved server: no other may."""
SHELVING_KEYS = (SHELVED_AT, SHELVED_IMAGE, SHELVED_HOST, UNSHELVED_IMAGE, UNSHELVED_HOST)
"""What a server has of these only while it is shelved, or comes back."""


@dataclass
class Instance(Record):
    """One row of ``instances`` with its tags. Field meanings are those of the columns in ``db/models.py``."""

    uuid: str
    project_id: str
    user_id: str
    display_name: str
    flavor: Flavor
    id: int | None = None
    display_description: str | None = None
    hostname: str | None = None
    reservation_id: str | None = None
    launch_index: int = 0
    vm_state: str = "building"
    task_state: str | None = None
    power_state: int = 0
    progress: int = 0
    image_ref: str = ""
    image: ImageMeta | None = None
    flavor_ref: str = ""
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    key_name: str | None = None
    keypair: dict[str, Any] | None = None
    host: str | None = None
    node: str | None = None
    launched_on: str | None = None
    availability_zone: str | None = None
    pinned_availability_zone: str | None = None
    config_drive: bool = False
    user_data: str | None = None
    root_device_name: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    auto_disk_config: bool = False
    locked: bool = False
    locked_by: str | None = None
    locked_reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    system_metadata: dict[str, Any] = field(default_factory=dict)
    network_request: str | list[dict[str, Any]] | None = None
    network_info: list[VIF] = field(default_factory=list)
    security_groups: list[str] = field(default_factory=list)
    block_devices: list[BlockDevice] = field(default_factory=list)
    shares: list[ShareAttachment] = field(default_factory=list)
    scheduler_hints: dict[str, Any] = field(default_factory=dict)
    requested_destination: dict[str, Any] | None = None
    trusted_certs: list[str] | None = None
    personality: list[dict[str, str]] | None = None
    fault: dict[str, Any] | None = None
    tags: list[str] = field(default_factory=list)
    launched_at: datetime.datetime | None = None
    terminated_at: datetime.datetime | None = None
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    deleted_at: datetime.datetime | None = None
    deleted: int = 0
    pci_devices: list[dict[str, str]] = field(default_factory=list)     # {"address", "host", "consumer"}: it, or a move of it

    def __post_init__(self) -> None:
        if isinstance(self.flavor, dict):
            self.flavor = Flavor.from_primitive(self.flavor)
        if isinstance(self.image, dict):
            self.image = ImageMeta.from_primitive(self.image)
        self.network_info = [v if isinstance(v, VIF) else VIF.from_primitive(v) for v in self.network_info or []]
        self.block_devices = [d if isinstance(d, BlockDevice) else BlockDevice.from_primitive(d)
                              for d in self.block_devices or []]
        self.shares = [s if isinstance(s, ShareAttachment) else ShareAttachment.from_primitive(s) for s in self.shares or []]

    @property
    def encrypted_password(self) -> str:
        """What the guest once encrypted with its user's key; empty when it never did."""
        return "".join(str(self.system_metadata.get(key) or "") for key in PASSWORD_KEYS)

    @property
    def volumes(self) -> list[BlockDevice]:
        """The block devices that the Volume service holds."""
        return [d for d in self.block_devices if d.is_volume]

    @property
    def is_volume_backed(self) -> bool:
        """True when the guest boots from a volume."""
        return any(d.is_root for d in self.volumes)

    @property
    def disks_key_id(self) -> str:
        """The key manager's id of the key of its own disks; empty: it has none, or not yet."""
        return str(self.system_metadata.get(DISKS_KEY) or "")

    @property
    def device_addresses(self) -> dict[str, str]:
        """MAC address of a nic, or id of a block device -> where the guest finds it."""
        return dict(self.system_metadata.get(DEVICE_ADDRESSES) or {})

    @property
    def has_device_tags(self) -> bool:
        """Whether its user wants to find a device by its tag."""
        return any(vif.tag for vif in self.network_info) or any(device.tag for device in self.block_devices)

    def pci_addresses(self, host: str) -> list[str]:
        """The server's PCI devices on a host, without those that one of its moves keeps for a revert."""
        return [d["address"] for d in self.pci_devices if d["host"] == host and d["consumer"] == self.uuid]

    @property
    def placed_flavor(self) -> Flavor:
        """The flavor as far as it takes room of a host: without the root disk where that is a volume."""
        return dataclasses.replace(self.flavor, root_gb=0) if self.is_volume_backed else self.flavor

    @property
    def ephemeral_disks(self) -> list[int]:
        """GiB of each empty disk beside the root disk, at most MAX_LOCAL: those of the request, else the one of the flavor."""
        asked = [self.flavor.ephemeral_gb if d.size is None else d.size for d in self.block_devices if d.is_ephemeral]
        return [size for size in asked or [self.flavor.ephemeral_gb] if size]

    @property
    def swap_mb(self) -> int:
        """MiB of the swap disk; 0: none."""
        asked = [d.size for d in self.block_devices if d.is_swap and d.size is not None]
        return asked[0] if asked else self.flavor.swap

    def domain_name(self, template: str) -> str:
        """The hypervisor's name of this server, e.g. ``instance-0000002a``; ``template`` takes the number or the uuid."""
        try:
            return template % self.id
        except TypeError:
            return template % {"uuid": self.uuid, "id": self.id}


def has_unshelved(server: Instance) -> bool:
    """True when the guest of a shelved server is back on its host, though its unshelving has not ended."""
    image_id = server.system_metadata.get(SHELVED_IMAGE)
    return bool(image_id) and server.system_metadata.get(UNSHELVED_IMAGE) == image_id


def without_shelving_keys(server: Instance) -> dict[str, Any]:
    """``system_metadata`` of a server that was shelved, once it is not any more."""
    return {key: value for key, value in server.system_metadata.items()
            if key not in SHELVING_KEYS}
