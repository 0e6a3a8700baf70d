"""The libvirt driver: KVM and QEMU guests of one host. A facade; each part has a file of its own."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.console import Console
from nova_lite.objects.diagnostics import Diagnostics
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.objects.share import ShareAttachment
from nova_lite.runtime import concurrency
from nova_lite.virt import host_uptime
from nova_lite.virt.driver import Checker, DiskCopy, Fetcher, GuestFiles, Inventory, PowerCallback, Waiter, wanted
from nova_lite.virt.libvirt import (
    config_drive,
    console,
    diagnostics,
    domain_xml,
    guest_config,
    older_marks,
    rescue,
    snapshot,
    starts,
    swap,
)
from nova_lite.virt.libvirt.connection import Connection, again
from nova_lite.virt.libvirt.domains import Domains
from nova_lite.virt.libvirt.events import Watcher
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest import Guest, all_power_states
from nova_lite.virt.libvirt.guest_disks import GuestDisks
from nova_lite.virt.libvirt.guest_nics import GuestNics
from nova_lite.virt.libvirt.host import Host
from nova_lite.virt.libvirt.live_migration import LiveMigrations
from nova_lite.virt.libvirt.moves import Moves
from nova_lite.virt.libvirt.quiesce import freeze, thaw
from nova_lite.virt.libvirt.rbd_disks import disks_of
from nova_lite.virt.libvirt.serial_server import SerialServer
from nova_lite.virt.libvirt.taps import Taps
from nova_lite.virt.libvirt.tpm_state import TpmStates
from nova_lite.virt.libvirt.volume_host import VolumeHost

LOG = log.getLogger(__name__)


class LibvirtDriver:
    """Entry point ``libvirt`` of nova_lite.virt."""

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self._conf, self._name = conf, host
        self._root = instances_root(conf)
        self._connection = connection = Connection(conf.libvirt.connection_uri)
        self._disks = disks_of(conf, host)
        self._moves = Moves(conf, host, self._disks)
        self._tpms = TpmStates(conf.libvirt.connection_uri)
        self._volumes = VolumeHost(conf, host, self._connection)
        self._serial: SerialServer | None = None
        self._taps = Taps(host, conf.network.netns)
        self._domains = Domains(conf, host, connection, self._disks, self._moves, self._volumes, self._taps, self._tpms,
                                self._ready, self._forget_console)
        self.live = LiveMigrations(conf, host, connection, self._disks, self._volumes, self._taps, self._ready, self._working,
                                   self._domains.remove)
        self._host: Host | None = None
        self._watcher: Watcher | None = None

    def init_host(self, on_power_change: PowerCallback) -> None:
        """Connect to libvirt, learn what the host can do, and listen to its events."""
        self._connection.open()
        self._host = Host(self._conf, self._connection, self._disks)
        self._moves.tidy()
        older_marks.convert(self._root)
        self._disks.note_formats(self._name, self._connection)
        snapshot.tidy(self._root, self._name, self._connection, self._disks.drop_copy)
        self._watcher = Watcher(self._connection, on_power_change)
        if self._conf.serial_console.enabled:
            self._serial = SerialServer(self._conf.console.server_listen, self._conf.serial_console.server_port,
                                        lambda uuid: console.pty(Guest(self._connection, uuid)))

    def stop_host(self) -> None:
        """Disconnect from libvirt; the guests run on."""
        if self._serial is not None:
            self._serial.stop()
        if self._watcher is not None:
            self._watcher.stop()
        self._connection.close()

    def inventory(self) -> Inventory:
        """What the host offers now."""
        return self._ready().inventory()

    def uptime(self) -> str | None:
        """As the command of that name says it."""
        return host_uptime.line()

    def power_states(self) -> dict[str, int]:
        """uuid -> power_state of all domains of this libvirt."""
        return all_power_states(self._connection)

    def power_state(self, instance: Instance) -> int | None:
        """power_state of one guest; None: libvirt does not have the guest."""
        return self._guest(instance).power_state()

    def spawn(self, instance: Instance, network_info: list[VIF], files: GuestFiles, fetch_image: Fetcher,
              wait_for_network: Waiter | None = None, check: Checker = wanted) -> None:
        """Make files and domain and start it; a failure undoes all. The guest is paused until its network is ready and
        ``check`` has been called: libvirt has made its taps by then, so that they can be wired."""
        with self._working(instance, states.RUNNING):
            if wait_for_network is None and self.power_state(instance) == states.RUNNING:
                self._moves.spawned(instance)       # by an earlier run
                return
            try:
                self._domains.make(instance, network_info, files, fetch_image)
                if wait_for_network is not None:
                    wait_for_network()
            except Exception as error:
                LOG.error("Build failed: %s", error, extra={"instance_uuid": instance.uuid})
                self._domains.undo(instance, network_info)
                raise starts.build_error(instance, error) from error
            self._domains.ensure_running(instance, network_info, check)
            self._moves.spawned(instance)

    def check_spawn(self, instance: Instance, network_info: list[VIF]) -> None:
        """By its configuration, bound to nothing."""
        facts, devices = self._ready().facts, instance.pci_addresses(self._name)
        guest_config.check(instance, network_info, self._files(instance), facts, devices)

    def cache_image(self, image: ImageMeta, fetch_image: Fetcher) -> None:
        """Into ``_base``, as a build does it."""
        self._disks.cache(image, fetch_image)

    def clear(self, instance: Instance, network_info: list[VIF], keep_ephemeral: bool) -> None:
        """As destroy, but the ephemeral disks may stay."""
        with self._working(instance, None):
            files = self._files(instance)
            self._moves.take(instance.uuid)
            self._domains.remove(instance, network_info, keep=[files.binding, *(files.ephemerals if keep_ephemeral else ())])

    def destroy(self, instance: Instance, network_info: list[VIF]) -> None:
        """End the guest and remove domain, saved memory, files and taps."""
        with self._working(instance, None):
            self._domains.remove(instance, network_info)

    def power_on(self, instance: Instance, network_info: list[VIF]) -> None:
        """Define and start the guest, unless it is active."""
        with self._working(instance, states.RUNNING):
            self._moves.claim(instance.uuid)
            self._domains.start(instance, network_info)

    def power_off(self, instance: Instance, timeout: int) -> None:
        """The power button, and after ``timeout`` seconds the plug. Saved memory is thrown away: off is off."""
        with self._working(instance, states.SHUTDOWN):
            guest = self._guest(instance)
            if timeout and not guest.shut_down(timeout):
                LOG.info("Guest did not shut down within %d seconds", timeout, extra={"instance_uuid": instance.uuid})
            guest.turn_off()
            self._taps.remove(instance.network_info)

    def reboot(self, instance: Instance, network_info: list[VIF], hard: bool, timeout: int) -> None:
        """Soft: shut down through the guest and start. Hard, or when it does not answer: pull the plug and start."""
        with self._working(instance, states.RUNNING):
            guest = self._guest(instance)
            self._moves.claim(instance.uuid)
            if not hard and not guest.shut_down(timeout):
                LOG.warning("No soft reboot within %d s: rebooting hard", timeout, extra={"instance_uuid": instance.uuid})
            guest.turn_off()
            self._domains.start(instance, network_info)

    def rescue(self, instance: Instance, network_info: list[VIF], image: ImageMeta, files: GuestFiles,
               fetch_image: Fetcher) -> None:
        """The domain is defined with the rescue disk for this time; ``unrescue`` defines it as it was."""
        with self._working(instance, states.RUNNING):
            guest, paths = self._guest(instance), self._files(instance)
            facts = self._domains.facts(paths)
            config = rescue.rescued(self._domains.config(instance, network_info), instance, image, paths, facts)
            self._volumes.unlock(instance)
            paths.make()
            self._disks.make_rescue(instance, image, paths, fetch_image)
            if instance.config_drive:
                config_drive.make(paths.rescue_config_drive, files.metadata)
            guest.turn_off()
            self._taps.make(instance, network_info)
            guest.define(domain_xml.build(config))
            self._domains.boot(instance)

    def is_rescued(self, instance: Instance) -> bool:
        """By the disks of its domain."""
        guest = self._guest(instance)
        return guest.has_started() and rescue.is_rescued(guest.xml(), self._files(instance))

    def unrescue(self, instance: Instance, network_info: list[VIF]) -> None:
        """Pull the plug of the rescue, start from the own disk. A guest that a killed run has started from there runs on."""
        with self._working(instance, states.RUNNING):
            guest = self._guest(instance)
            if rescue.is_rescued(guest.xml(), self._files(instance)):
                guest.unplug()
            self._domains.start(instance, network_info)

    def volume_connector(self) -> dict[str, Any]:
        """Who this host is to a storage backend."""
        return self._volumes.connector()

    def connect_volume(self, instance: Instance, device: BlockDevice, connection_info: dict[str, Any]) -> dict[str, Any]:
        """Keep its secrets in libvirt; the connection_info without them."""
        return self._volumes.connect(instance, device, connection_info)

    def disconnect_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Forget its secrets."""
        self._volumes.disconnect(instance, device)

    def attach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Live where the guest runs, and in its configuration."""
        disks, xml = GuestDisks(self._guest(instance)), domain_xml.build_disk(guest_config.volume(instance, device))
        self._volumes.unlocked(instance, lambda: disks.attach(xml, device.serial))
        self._volumes.remove_unused_volume_secret(instance, device)

    def detach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Ask the guest, several times when it does not answer."""
        GuestDisks(self._guest(instance)).detach(device.serial)

    def swap_volume(self, instance: Instance, old: BlockDevice, new: BlockDevice, note: Callable[[BlockDevice], None]) -> None:
        """By QEMU's mirror job."""
        swap.swap(self._guest(instance), old, new, domain_xml.build_disk(guest_config.volume(instance, new)), note)

    def snapshot_volume(self, instance: Instance, device: BlockDevice, info: dict[str, Any]) -> None:
        """All volumes that can be attached are raw, and make their snapshots at their back end."""
        raise exception.NotImplementedByDriver(what="snapshots of volumes by the hypervisor")

    merge_volume_snapshot = snapshot_volume

    def extend_volume(self, instance: Instance, device: BlockDevice, size: int) -> None:
        """A running guest sees the new size."""
        GuestDisks(self._guest(instance)).resize(device.serial, size)

    def mount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """Not supported: guests get no files of the host, so the host does not report the trait for it."""
        raise exception.NotImplementedByDriver(what="shares of files")

    def unmount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """Nothing was mounted."""

    def attach_interface(self, instance: Instance, vif: VIF) -> None:
        """Live where the guest runs, and in its configuration."""
        nics, xml = GuestNics(self._guest(instance)), domain_xml.build_nic(guest_config.nic(instance, vif))
        if nics.guest.is_active():      # else its start makes it
            self._taps.make(instance, [vif])
        again(lambda: nics.attach(xml, vif.mac_address), self._connection.clock)

    def detach_interface(self, instance: Instance, vif: VIF) -> None:
        """Ask the guest, several times when it does not answer."""
        GuestNics(self._guest(instance)).detach(vif.mac_address)
        self._taps.remove([vif])

    def snapshot(self, instance: Instance, check: Checker = wanted) -> contextlib.AbstractContextManager[DiskCopy]:
        """By a backup job of QEMU where the guest runs, else by qemu-img; in a pool by a snapshot of its own."""
        return self._disks.copied(instance, self._guest(instance), self._files(instance), check)

    def quiesce(self, instance: Instance) -> None:
        """By the agent in the guest."""
        freeze(self._guest(instance), self._files(instance), instance)

    def unquiesce(self, instance: Instance) -> None:
        """The same."""
        thaw(self._guest(instance), self._files(instance))

    def check_resize(self, instance: Instance, flavor: Flavor) -> None:
        """Disks only grow."""
        self._moves.check(instance, flavor)

    def set_aside(self, instance: Instance, network_info: list[VIF], timeout: int, move: str) -> None:
        """Shut down, undefined, and its directory renamed."""
        if self._moves.has_aside(instance, move):
            return
        self.power_off(instance, timeout)
        with self._working(instance, None):
            self._tpms.save(instance.uuid, self._files(instance))
            self._domains.end(instance, network_info)
            self._moves.set_aside(instance, move)

    def has_aside(self, instance: Instance, move: str) -> bool:
        """By the record in the renamed directory."""
        return self._moves.has_aside(instance, move)

    def offer_disks(self, instance: Instance) -> DiskOffer:
        """By QEMU's storage daemon."""
        return self._moves.offer(instance)

    def offers_disks(self, instance_uuid: str) -> bool:
        """By the files of the storage daemon."""
        return self._moves.offers(instance_uuid)

    def withdraw_disks(self, instance: Instance) -> None:
        """The storage daemon ends."""
        self._moves.withdraw(instance)

    def receive_guest(self, instance: Instance, offer: DiskOffer | None, fetch_image: Fetcher, move: str,
                      check: Checker = wanted) -> None:
        """By qemu-img, from the storage daemon of the other host."""
        self._moves.receive(instance, offer, fetch_image, move, check)

    def finish_move(self, instance: Instance, network_info: list[VIF], fetch_image: Fetcher, power_on: bool,
                    wait_for_network: Waiter | None = None) -> None:
        """Disks are made to fit, the domain is defined."""
        with self._working(instance, states.RUNNING if power_on else states.SHUTDOWN):
            guest = self._guest(instance)
            if not guest.is_active():
                self._moves.fit(instance, fetch_image)
                self._domains.define(instance, network_info)
            self._moves.settled(instance)
            if power_on:
                starts.run(guest, functools.partial(self._domains.boot, instance), wait_for_network)

    def drop_received(self, instance: Instance, network_info: list[VIF], is_local: bool, move: str) -> None:
        """Domain and directory; on the host that it came from only where it was set aside before."""
        if is_local and not self._moves.has_aside(instance, move):
            return
        with self._working(instance, None):
            self._domains.end(instance, network_info)
            self._moves.drop_received(instance, move)

    def bring_back(self, instance: Instance, network_info: list[VIF], power_on: bool, move: str,
                   wait_for_network: Waiter | None = None) -> None:
        """Its directory gets its name again, and the guest is defined as the server's record says."""
        with self._working(instance, states.RUNNING if power_on else states.SHUTDOWN):
            if self._moves.has_aside(instance, move):
                self._domains.end(instance, network_info)
            self._moves.bring_back(instance, move)
            self._moves.return_if_alone(instance)
            guest = self._guest(instance)
            if not guest.is_active():
                self._domains.define(instance, network_info)
            if power_on:
                starts.run(guest, functools.partial(self._domains.boot, instance), wait_for_network)

    def drop_aside(self, instance: Instance) -> None:
        """Its files; the domain was undefined long ago."""
        self._moves.drop_aside(instance.uuid)

    def unplugged(self) -> set[str]:
        """Those with a tap that Open vSwitch does not have."""
        return self._taps.unplugged()

    def plug(self, instance: Instance, network_info: list[VIF]) -> None:
        """The taps of a guest that runs; without a guest there are none."""
        if self.power_state(instance) not in (None, states.SHUTDOWN):
            self._taps.make(instance, network_info)

    def left_behind(self) -> set[str]:
        """By the records in the directories, and by secrets and taps of servers that have no guest here."""
        return self._moves.left_behind() | (self._volumes.kept_for() | self._taps.kept_for()) - set(self.power_states())

    def drop_left_behind(self, instance_uuid: str) -> None:
        """The directories go, last."""
        self._volumes.forget_all(instance_uuid)
        if Guest(self._connection, instance_uuid).power_state() is None:
            self._tpms.remove(instance_uuid)
            self._taps.forget(instance_uuid)
        self._moves.drop_left_behind(instance_uuid)

    def pause(self, instance: Instance) -> None:
        """Stop the CPUs."""
        with self._working(instance, states.POWER_PAUSED):
            self._guest(instance).pause()

    def unpause(self, instance: Instance) -> None:
        """Let the CPUs run."""
        with self._working(instance, states.RUNNING):
            guest = self._guest(instance)
            if not guest.is_active():
                raise exception.DriverRefusal(what="Unpausing the guest", reason="it does not run, start the server")
            guest.unpause()
            self.unquiesce(instance)

    def suspend(self, instance: Instance) -> None:
        """Managed save."""
        with self._working(instance, states.SHUTDOWN):
            self._guest(instance).save()

    def resume(self, instance: Instance, network_info: list[VIF]) -> None:
        """Start from the saved memory, or boot."""
        with self._working(instance, states.RUNNING):
            if self.power_state(instance) is None:
                self._domains.start(instance, network_info)
            self._taps.make(instance, network_info)     # the host may have restarted meanwhile
            self._domains.boot(instance)
            self._guest(instance).unpause()
            self.unquiesce(instance)        # memory that was saved with file systems frozen

    def console_output(self, instance: Instance, length: int | None) -> str:
        """The end of the console log; since the guest's last start."""
        return concurrency.native(console.tail, self._files(instance).console_log, length)

    def console(self, instance: Instance, protocol: str) -> Console:
        """As the domain that runs says it."""
        address = self._conf.console.server_proxyclient_address
        return console.find(self._guest(instance), instance, protocol, address, self._serial)

    def tidy(self) -> None:
        """Remove base images that no guest uses any more, and what interrupted removals have left."""
        self._moves.tidy()
        self._disks.tidy()

    def check_admin_password(self, instance: Instance) -> None:
        """The guest agent does it, if the image says that it is there."""
        guest_config.check_agent(instance)

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Of the image's os_admin_user, else of root or (os_type=windows) Administrator."""
        self.check_admin_password(instance)
        self._guest(instance).set_password(guest_config.admin_user(instance), password)

    def trigger_crash_dump(self, instance: Instance) -> None:
        """A non-maskable interrupt."""
        self._guest(instance).inject_nmi()

    def device_addresses(self, instance: Instance) -> dict[str, str]:
        """Read from the domain."""
        return self._domains.addresses(instance)

    def diagnostics(self, instance: Instance) -> Diagnostics:
        """libvirt's statistics of the domain, all by one call."""
        return diagnostics.make(self._guest(instance).statistics(), instance, self._ready().facts.virt_type)

    # ---------------------------------------------------------------------------------------------------------------

    def _ready(self) -> Host:
        if self._host is None:
            raise exception.VirtDriverError(what="libvirt driver", reason="init_host was not called")
        return self._host

    def _forget_console(self, instance_uuid: str) -> None:
        if self._serial is not None:
            self._serial.forget(instance_uuid)

    def _guest(self, instance: Instance) -> Guest:
        return Guest(self._connection, instance.uuid)

    def _files(self, instance: Instance) -> GuestDirectory:
        return GuestDirectory(self._root, instance.uuid)

    @contextlib.contextmanager
    def _working(self, instance: Instance, expected: int | None) -> Iterator[None]:
        """Events of the guest are of our own making now. Where it does not run after all, its volumes are locked."""
        self._ready()
        with self._watcher.busy(instance.uuid, expected) if self._watcher else contextlib.nullcontext():
            try:
                yield
            finally:
                self._volumes.remove_unused_secrets(instance)
