"""The configuration of one guest: plain dataclasses, from which ``domain_xml`` makes libvirt's XML. They do not depend on
servers, flavors or images; ``guest_config`` fills them.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from nova_lite.objects.hardware.placement import BoundCell


@dataclass(frozen=True)
class Auth:
    """QEMU's user at a storage backend; libvirt keeps the password as a secret. ``kind``: ceph or iscsi."""

    username: str
    kind: str
    secret_uuid: str


@dataclass(frozen=True)
class NetworkSource:
    """A volume that QEMU reaches by itself. ``protocol`` is rbd, iscsi or nbd, ``hosts`` are (name or address, port) pairs."""

    protocol: str
    name: str
    hosts: tuple[tuple[str, str], ...]
    auth: Auth | None = None
    initiator: str = ""


@dataclass(frozen=True)
class DiskPool:
    """The Ceph pool with the guests' own disks."""

    name: str
    hosts: tuple[tuple[str, str], ...]
    auth: Auth | None = None

    def source(self, image: str) -> NetworkSource:
        """One image of it."""
        return NetworkSource("rbd", f"{self.name}/{image}", self.hosts, self.auth)


@dataclass(frozen=True)
class Disk:
    """One disk: a file, a block device (``block``) or on the network (``network``; ``path`` is then the file that it would be).

    ``device`` is disk or cdrom; ``tune`` are limits by their libvirt names, e.g. total_iops_sec. ``alias`` is the name by which
    libvirt is to know the device. ``shareable``: other guests write to it, too. ``luks_secret``: uuid of libvirt's secret with
    the passphrase of a disk that is encrypted.
    """

    path: str
    target: str
    bus: str = "virtio"
    format: str = "qcow2"
    device: str = "disk"
    cache: str = "none"
    serial: str | None = None
    boot_order: int | None = None
    tune: dict[str, int] = field(default_factory=dict)
    network: NetworkSource | None = None
    block: bool = False
    readonly: bool = False
    shareable: bool = False
    discard: bool = False
    alias: str | None = None
    luks_secret: str = ""


@dataclass(frozen=True)
class Nic:
    """One nic. ``bandwidth`` are libvirt's names: (inbound|outbound, average|peak|burst) -> number.

    ``kind`` says what ``source`` is: bridge: a Linux bridge. ovs: a bridge of Open vSwitch, on which the host has put the tap
    (``taps.py``). vhostuser: the path of a socket, on which QEMU is ``mode`` (client or server). direct: an interface of the
    host, with macvtap's ``mode``. hostdev: a PCI function (0000:0a:00.1), its traffic tagged with ``vlan``.
    Without ``offload`` the guest does the checksums itself: nobody else would. ``queues`` above 1: it sends and receives on as
    many CPUs.
    """

    mac: str
    source: str
    devname: str
    model: str = "virtio"
    mtu: int | None = None
    bandwidth: dict[tuple[str, str], int] = field(default_factory=dict)
    kind: str = "bridge"
    mode: str = ""
    vlan: int | None = None
    offload: bool = True
    queues: int = 1


@dataclass(frozen=True)
class Cpu:
    """``mode`` empty: the emulator's own model."""

    vcpus: int
    sockets: int
    cores: int = 1
    threads: int = 1
    mode: str = ""
    model: str = ""
    tune: dict[str, int] = field(default_factory=dict)      # shares, period, quota
    pmu: bool | None = None


@dataclass(frozen=True)
class Rng:
    """A random number generator, at most ``rate_bytes`` in ``rate_period`` milliseconds when set."""

    rate_bytes: int | None = None
    rate_period: int | None = None


@dataclass(frozen=True)
class Graphics:
    """A screen with its pointer, and the consoles (``protocols``: vnc, spice) that show it. ``video_ram`` is KiB, ``pointer``
    the bus of a tablet: usb, virtio, or none."""

    listen: str
    video: str = "virtio"
    pointer: str = "usb"
    video_ram: int | None = None
    protocols: tuple[str, ...] = ("vnc",)


@dataclass(frozen=True)
class Port:
    """A nic as the metadata element tells it: port id and its (address, version) pairs."""

    id: str
    addresses: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Description:
    """The description in the domain, for operators and tools that read Nova's metadata element."""

    package: str
    name: str
    created: str
    flavor_name: str
    flavor_id: str
    memory_mb: int
    root_gb: int
    swap_mb: int
    ephemeral_gb: int
    vcpus: int
    extra_specs: dict[str, str]
    image_id: str
    user_id: str
    project_id: str
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True)
class Tpm:
    """One that swtpm plays: ``version`` 1.2 or 2.0, ``model`` tpm-tis or tpm-crb."""

    version: str
    model: str


@dataclass(frozen=True)
class Firmware:
    """UEFI. ``variables`` is the file where it keeps what the guest has it remember."""

    variables: str
    secure_boot: bool = False


@dataclass(frozen=True)
class GuestConfig:
    """One domain. ``tb_cache_mb`` bounds the memory that the emulator spends on translated code (QEMU without KVM only).

    ``firmware`` None: a BIOS. ``cells`` are in the order of their numbers; without any the guest floats over the host.
    """

    uuid: str
    name: str
    virt_type: str
    arch: str
    machine: str
    memory_mb: int
    cpu: Cpu
    console_log: str
    description: Description
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    graphics: Graphics | None = None
    rng: Rng | None = None
    firmware: Firmware | None = None
    tpm: Tpm | None = None
    cells: tuple[BoundCell, ...] = ()
    hide_hypervisor: bool = False
    serial_ports: int = 1
    boot_menu: bool = False
    local_time: bool = False
    has_hpet: bool = False
    scsi_model: str | None = None
    guest_agent: bool = False
    watchdog: str | None = None
    tb_cache_mb: int | None = None
    balloon_period: int = 10
    hostdevs: tuple[str, ...] = ()      # addresses of PCI devices of the host: 0000:0a:00.1
