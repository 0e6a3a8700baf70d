"""The interface of a hypervisor driver. One driver object per host; every method blocks until it is done.

Each method can be run twice: a thing that exists is kept or replaced, a thing that is gone is no error. Long C calls go through
``concurrency.native``. A driver uses objects, configuration and files, but never the API, RPC or database.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from nova_lite import exception
from nova_lite.objects.base import Record
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.console import Console
from nova_lite.objects.diagnostics import Diagnostics
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.objects.share import ShareAttachment

if TYPE_CHECKING:
    from nova_lite.virt.live import LiveMigrations


@dataclass
class Inventory(Record):
    """The resources of one node. memory is MiB, disk GiB. Used amounts are not reported: the claims in the database are
    used."""

    hypervisor_hostname: str
    hypervisor_type: str
    hypervisor_version: int
    vcpus: int
    memory_mb: int
    local_gb: int
    cpu_info: dict[str, Any] = field(default_factory=dict)
    supported_instances: list[list[str]] = field(default_factory=list)
    disk_available_least: int | None = None
    free_disk_gb: int | None = None
    traits: list[str] = field(default_factory=list)
    numa_topology: list[dict[str, Any]] = field(default_factory=list)   # objects.hardware.placement.HostCell, as primitives
    pci_devices: list[dict[str, Any]] = field(default_factory=list)     # objects.hardware.pci.PciDevice: those that it offers


@dataclass
class GuestFiles:
    """What a guest is given besides its disk. ``admin_password`` is never written to a log."""

    injected_files: list[dict[str, str]] = field(default_factory=list)
    admin_password: str | None = None
    metadata: dict[str, bytes] = field(default_factory=dict)     # config drive: path inside the drive -> content
    # the same, made with the result of ``device_addresses``; None: no device has a tag
    metadata_with: Callable[[dict[str, str]], dict[str, bytes]] | None = None


@dataclass(frozen=True)
class DiskCopy:
    """A whole disk in one file without a base image; ``disk_format`` is qcow2 or raw."""

    path: str
    disk_format: str


PowerCallback = Callable[[str, int], None]
"""Called with (instance uuid, power_state) when a guest changes its power state by itself."""
Waiter = Callable[[], None]
"""Blocks until the network of a new guest is ready; raises when it will not be."""
Fetcher = Callable[[str, str], None]
"""Called with (image id, path): writes the image's data to the path, checked against its checksum, or raises."""

Noter = Callable[[BlockDevice], None]
"""Writes down which of two volumes a guest is given that is started from now on."""
Checker = Callable[[], None]
"""Called every few seconds by long operations; raises when the operation must end."""


def wanted() -> None:
    """A Checker that never ends the work."""


class ComputeDriver(Protocol):
    """All operations take the whole instance; power_state numbers are those of ``objects/states.py``."""

    def init_host(self, on_power_change: PowerCallback) -> None:
        """Connect to the hypervisor. Raises VirtDriverError or ConfigError when it cannot be used."""

    def stop_host(self) -> None:
        """Disconnect from the hypervisor; the guests run on."""

    def inventory(self) -> Inventory:
        """What the host offers now."""

    def uptime(self) -> str | None:
        """How long the host has run and how busy it is, as the command ``uptime`` prints it; None: unknown."""

    def power_states(self) -> dict[str, int]:
        """instance uuid -> power_state of every guest of the hypervisor, running or not."""

    def power_state(self, instance: Instance) -> int | None:
        """power_state of one guest; None: the hypervisor does not have the guest."""

    def spawn(self, instance: Instance, network_info: list[VIF], files: GuestFiles, fetch_image: Fetcher,
              wait_for_network: Waiter | None = None, check: Checker = wanted) -> None:
        """Make disk, config drive (when ``instance.config_drive``) and guest, and start it; with the volumes of
        ``instance.block_devices``, which are connected already.

        ``wait_for_network``: called when the guest's nics exist and before its first instruction; its exception ends the build.
        ``check``: called last before the first instruction; its exception is not changed. A second run finds what exists, and
        completes it. Raises BuildFailed (another host may succeed) or BuildAborted (no host would); then nothing half-made
        remains, except the files of a server that has ``launched_at``: the caller destroys it, or a rebuild continues with what
        it has kept.
        """

    def check_spawn(self, instance: Instance, network_info: list[VIF]) -> None:
        """Raise BuildFailed, BuildAborted or another NovaLiteError when this host cannot make the guest that the server's
        record says. Nothing is changed, and no room is taken; a root volume need not be connected."""

    def cache_image(self, image: ImageMeta, fetch_image: Fetcher) -> None:
        """Fetch an image into the cache, unless it is there. Raises the errors of ``fetch_image``, ImageUnacceptable."""

    def clear(self, instance: Instance, network_info: list[VIF], keep_ephemeral: bool) -> None:
        """End the guest and remove it with its files, except (``keep_ephemeral``) its empty disks: it is about to be spawned
        again, with its volumes."""

    def destroy(self, instance: Instance, network_info: list[VIF]) -> None:
        """End the guest and remove it with all its files and taps."""

    def power_on(self, instance: Instance, network_info: list[VIF]) -> None:
        """Start a stopped guest."""

    def power_off(self, instance: Instance, timeout: int) -> None:
        """Ask the guest to shut down; after ``timeout`` seconds (0: at once) pull the plug."""

    def reboot(self, instance: Instance, network_info: list[VIF], hard: bool, timeout: int) -> None:
        """Soft: through the guest, and hard after ``timeout`` seconds. Hard: the guest is defined again."""

    def rescue(self, instance: Instance, network_info: list[VIF], image: ImageMeta, files: GuestFiles,
               fetch_image: Fetcher) -> None:
        """Boot the guest, which is off, from a disk made of ``image``. Its own root disk is the second one; an image with
        hw_rescue_bus or hw_rescue_device is added to all the disks that it has, which keep their places."""

    def is_rescued(self, instance: Instance) -> bool:
        """Whether the guest is in its rescue: started, from the rescue disk."""

    def unrescue(self, instance: Instance, network_info: list[VIF]) -> None:
        """The inverse: the guest starts from its own disks, and the rescue disk is removed."""

    @property
    def live(self) -> LiveMigrations:
        """Moves of running guests."""

    def volume_connector(self) -> dict[str, Any]:
        """Who this host is to a storage backend: ``host``, ``ip``, ``initiator`` (an IQN), ``multipath``, ``os_type``, ..."""

    def connect_volume(self, instance: Instance, device: BlockDevice, connection_info: dict[str, Any]) -> dict[str, Any]:
        """Prepare the host for a volume; returns ``connection_info`` without its secrets, which the host keeps (a libvirt
        secret). Raises InvalidVolume for an unknown type."""

    def disconnect_volume(self, instance: Instance, device: BlockDevice) -> None:
        """The inverse of ``connect_volume``, after the guest has released the volume."""

    def attach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Give a connected volume to the guest, live when it runs; a guest that has it already keeps it."""

    def detach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Detach a volume from the guest and wait until the guest has released it. Raises VirtDriverError when it does not."""

    def swap_volume(self, instance: Instance, old: BlockDevice, new: BlockDevice, note: Noter) -> None:
        """Copy a volume of a running guest to another connected volume, and let the guest change to that; a guest that has the
        new volume keeps it. The guest runs meanwhile.

        ``note`` is called with ``new`` when both volumes are the same, and stay the same until the guest has changed; with
        ``old`` before the copy, and when the guest does not change after all. The volume of the last ``note`` is complete,
        whenever this is interrupted. Raises GuestLacksDisk where no guest has ``old``, VirtDriverError, and the errors of
        ``note``.
        """

    def snapshot_volume(self, instance: Instance, device: BlockDevice, info: dict[str, Any]) -> None:
        """Let the guest write to ``info["new_file"]``, a qcow2 file on the volume's; the old one is the snapshot then."""

    def merge_volume_snapshot(self, instance: Instance, device: BlockDevice, info: dict[str, Any]) -> None:
        """Merge ``info["file_to_merge"]`` into ``info["merge_target_file"]`` (None: the file below into the one in use)."""

    def extend_volume(self, instance: Instance, device: BlockDevice, size: int) -> None:
        """A volume has grown to ``size`` GiB: the guest is to see it."""

    def mount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """Mount a share on this host, for a guest that is about to start with it; a mounted share stays. Called only on hosts
        with the trait COMPUTE_STORAGE_VIRTIO_FS."""

    def unmount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """The inverse, after the guest has ended; what is not mounted is no error."""

    def attach_interface(self, instance: Instance, vif: VIF) -> None:
        """Give the guest a nic whose network is plugged, live when it runs; a guest that has it already keeps it."""

    def detach_interface(self, instance: Instance, vif: VIF) -> None:
        """Detach a nic from the guest and wait until the guest has released it. Raises VirtDriverError when it does not."""

    def unplugged(self) -> set[str]:
        """uuids of servers with a nic that somebody has taken from its bridge. Called each few seconds."""

    def plug(self, instance: Instance, network_info: list[VIF]) -> None:
        """Put the interfaces of a guest on their bridges again; those that are there stay."""

    def snapshot(self, instance: Instance, check: Checker = wanted) -> AbstractContextManager[DiskCopy]:
        """The root disk at this moment, copied while the guest runs. The file exists within the ``with`` block; a file that a
        killed run has left is deleted first. Raises VirtDriverError, OSError without space, or the error of ``check``: then the
        copy is ended."""

    def quiesce(self, instance: Instance) -> None:
        """Freeze the file systems of a running guest, for snapshots that are made elsewhere. Raises QemuGuestAgentNotEnabled or
        InstanceQuiesceFailed; nothing is frozen then."""

    def unquiesce(self, instance: Instance) -> None:
        """The inverse; file systems that are not frozen are no error. A failure is logged, and the thaw is repeated as soon as
        possible."""

    def pause(self, instance: Instance) -> None:
        """Stop the CPUs; memory stays."""

    def unpause(self, instance: Instance) -> None:
        """The inverse of pause."""

    def suspend(self, instance: Instance) -> None:
        """Save memory to disk and end the process (managed save)."""

    def resume(self, instance: Instance, network_info: list[VIF]) -> None:
        """Start from the saved memory, or boot when there is none."""

    def console_output(self, instance: Instance, length: int | None) -> str:
        """The last ``length`` lines of the serial console (None: all that is kept)."""

    # a guest that moves, or gets another size where it is; in the order of the steps
    def check_resize(self, instance: Instance, flavor: Flavor) -> None:
        """Raise ResizeError when the disks of the server cannot become those of ``flavor``."""

    def set_aside(self, instance: Instance, network_info: list[VIF], timeout: int, move: str) -> None:
        """The old host: shut the guest down (after ``timeout`` seconds by force) and keep all that is of it under another
        name, for the move with this uuid. No guest of this server is here then, and nothing that an older move has kept."""

    def has_aside(self, instance: Instance, move: str) -> bool:
        """The old host: whether it keeps the guest for this move. A guest whose removal has begun does not count."""

    def offer_disks(self, instance: Instance) -> DiskOffer:
        """The old host: serve the disks that were set aside. Raises OSError."""

    def offers_disks(self, instance_uuid: str) -> bool:
        """The old host: whether the disks are served, or files of that are left."""

    def withdraw_disks(self, instance: Instance) -> None:
        """The old host: serve them no more."""

    def receive_guest(self, instance: Instance, offer: DiskOffer | None, fetch_image: Fetcher, move: str,
                      check: Checker = wanted) -> None:
        """The new host: copy the disks; ``offer`` None: they were set aside on this same host. Raises VirtDriverError,
        ResizeError, OSError or the error of ``check``. ``fetch_image`` may raise ImageNotFound. Files that another move has
        left here are deleted."""

    def finish_move(self, instance: Instance, network_info: list[VIF], fetch_image: Fetcher, power_on: bool,
                    wait_for_network: Waiter | None = None) -> None:
        """The new host: define the received guest, with the sizes of its (new) flavor, and start it if it ran before. Volumes
        are connected and nics plugged already. ``wait_for_network`` is as in ``spawn``; its exception leaves the guest
        paused."""

    def drop_received(self, instance: Instance, network_info: list[VIF], is_local: bool, move: str) -> None:
        """The new host: the move is undone, so remove the guest and the copied files; files of another host on shared storage
        stay. ``is_local``: the old host is this same host, and the files that were set aside stay."""

    def bring_back(self, instance: Instance, network_info: list[VIF], power_on: bool, move: str,
                   wait_for_network: Waiter | None = None) -> None:
        """The old host: make the guest of the files that were set aside for this move, and start it if it ran before.
        ``wait_for_network`` as in ``finish_move``."""

    def drop_aside(self, instance: Instance) -> None:
        """The old host: the move was confirmed, so remove the files that were set aside."""

    def left_behind(self) -> set[str]:
        """uuids of servers with files here that a move has set aside, or has not copied completely, or that an unfinished build
        has left; and of servers without a guest whose secrets of volumes are kept."""

    def drop_left_behind(self, instance_uuid: str) -> None:
        """Remove that: the server has settled elsewhere, or is gone."""

    def console(self, instance: Instance, protocol: str) -> Console:
        """The address of the console of a running guest; ``protocol``: vnc, spice or serial. Raises InstanceNotFound without a
        guest, InstanceInvalidState for a guest that does not run, ConsoleTypeUnavailable for a guest without such a console."""

    def tidy(self) -> None:
        """Called now and then: throw away what is kept only to be fast and was not used for long."""

    def check_admin_password(self, instance: Instance) -> None:
        """Raise NotImplementedByDriver (501), or Conflict (409) for this guest, when ``set_admin_password`` cannot do it."""

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Set the password of the administrator inside a running guest. ``password`` must not be logged."""

    def trigger_crash_dump(self, instance: Instance) -> None:
        """Make the guest's kernel write a dump (an NMI). The only operation whose second run has an effect."""

    def device_addresses(self, instance: Instance) -> dict[str, str]:
        """Where the guest finds its devices: MAC address of a nic, or id of a block device -> the address of a PCI device
        (``0000:00:05.0``), ``controller:bus:target:unit`` of a drive, or ``bus:port`` on USB. Empty when there is no guest."""

    def diagnostics(self, instance: Instance) -> Diagnostics:
        """What is counted of a running guest. Raises VirtDriverError when there is none."""


def load(conf: cfg.ConfigOpts, host: str) -> ComputeDriver:
    """The driver ``[compute] driver`` for one host; raises ConfigError when it does not exist or cannot be imported."""
    name = conf.compute.driver
    try:
        manager: Any = stevedore_driver.DriverManager("nova_lite.virt", name, invoke_on_load=True, invoke_args=(conf, host),
                                                      on_load_failure_callback=_raise)
        return manager.driver
    except (stevedore_driver.NoMatches, ImportError) as error:
        raise exception.ConfigError(reason=f"[compute] driver = {name}: {error}") from error


def _raise(_manager: object, _entry_point: object, error: BaseException) -> None:
    raise error
