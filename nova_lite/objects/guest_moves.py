"""The messages between two hosts about a guest that moves."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record


@dataclass
class DiskOffer(Record):
    """The disks of a guest that moves, which its old host serves over the migration network, read-only. ``disks`` are the names
    of files, ``disk_format`` is the format of the root disk, and ``base`` the name of its base image (empty: none). ``key`` is
    needed to connect, and valid for this move only; it must not come into any log. ``pool``: the guest's own disks are not
    served, but stay in this Ceph pool, which the new host must use too; empty: they are files."""

    address: str
    port: int
    disks: list[str] = field(default_factory=list)
    base: str = ""
    base_format: str = ""
    key: str = ""
    disk_format: str = ""
    pool: str = ""


@dataclass
class SourceFacts(Record):
    """The guest as it runs on its host. ``disks`` are {"name", "size", "used", "format", "whole"}, sizes in bytes. whole: the
    disk has no base image, so all of it is copied. ``token`` is the content of a file beside the disks: a destination that can
    read the file shares the directory. ``pool``: the Ceph pool of the disks; empty: they are files."""

    hypervisor_type: str
    hypervisor_version: int
    power_state: int
    arch: str = ""
    machine: str = ""
    virt_type: str = ""
    cpu: str = ""
    disks: list[dict[str, Any]] = field(default_factory=list)
    root: str = ""
    token: str = ""
    pool: str = ""


@dataclass
class Plan(Record):
    """How the guest comes to the destination, which has made the plan. ``shared``: both hosts have the same directory of
    guests. ``nics`` by hardware address and ``volumes`` by id are the devices at the destination. ``waits_for``: ports whose
    nics exist before the guest, so that Neutron can wire them."""

    block: bool = False
    shared: bool = False
    uri: str = ""
    address: str = ""
    power_state: int = 0
    disks: list[dict[str, Any]] = field(default_factory=list)
    source_root: str = ""
    root: str = ""
    listen: str = ""                # where the destination's consoles are
    nics: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    host: str = ""                  # the destination's name
    post_copy: bool = False         # the destination can run the guest before all its memory is there
    waits_for: list[str] = field(default_factory=list)


@dataclass
class Progress(Record):
    """Bytes of a copy; ``post_copy``: the guest runs at the destination already."""

    memory_total: int = 0
    memory_processed: int = 0
    memory_remaining: int = 0
    disk_total: int = 0
    disk_processed: int = 0
    disk_remaining: int = 0
    post_copy: bool = False
