"""The domains of guests: made from the records of their servers, started, and removed with all that belongs to them.

The files of a guest are made before its domain, and the domain is defined again from the server's record at each start. So each
operation can be run again after a crash at any point, and does not depend on an earlier run.
"""
from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.driver import Checker, Fetcher, GuestFiles
from nova_lite.virt.libvirt import config_drive, domain_xml, guest_config, starts
from nova_lite.virt.libvirt.config import GuestConfig
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.device_addresses import addresses_of
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_config import HostFacts
from nova_lite.virt.libvirt.host import Host
from nova_lite.virt.libvirt.moves import Moves
from nova_lite.virt.libvirt.ownership import Standing
from nova_lite.virt.libvirt.taps import Taps
from nova_lite.virt.libvirt.tpm_state import TpmStates
from nova_lite.virt.libvirt.volume_host import VolumeHost

LOG = log.getLogger(__name__)


class Domains:
    """The domains of one host. The caller has marked the events as caused by the driver. ``host``: its features."""

    def __init__(self, conf: cfg.ConfigOpts, name: str, connection: Connection, disks: DiskMaker, moves: Moves,
                 volumes: VolumeHost, taps: Taps, tpms: TpmStates, host: Callable[[], Host],
                 forget_console: Callable[[str], None]) -> None:
        self._conf, self._name, self._root, self._connection = conf, name, instances_root(conf), connection
        self._disks, self._moves, self._volumes, self._taps, self._tpms = disks, moves, volumes, taps, tpms
        self._host, self._forget_console = host, forget_console

    def make(self, instance: Instance, vifs: list[VIF], guest_files: GuestFiles, fetch_image: Fetcher) -> None:
        """Up to the guest's first instruction."""
        if self._guest(instance).has_started():  # it waited when the process died: it waits on
            return
        files = self._files(instance)
        self._moves.spawns(instance)
        self._xml(instance, vifs)       # checked before anything is fetched
        began = time.monotonic()
        self._disks.make(instance, files, fetch_image)
        if instance.config_drive:
            documents = guest_files.metadata
            if guest_files.metadata_with is not None:
                self.define(instance, vifs)        # libvirt gives each device its address now
                documents = guest_files.metadata_with(self.addresses(instance))
            config_drive.make(files.config_drive, documents)
        made = time.monotonic()
        self.start(instance, vifs, paused=True)
        LOG.info("the disks were made in %.1f s, the domain was started in %.1f s", made - began, time.monotonic() - made,
                 extra={"instance_uuid": instance.uuid})

    def ensure_running(self, instance: Instance, vifs: list[VIF], check: Checker) -> None:
        """Run the first instruction of a new guest. A guest that is not wanted any more is removed."""
        guest = self._guest(instance)
        try:
            check()
            try:
                guest.unpause()
            except exception.VirtDriverError:
                if guest.is_active():
                    raise
            if not guest.is_active():
                self.start(instance, vifs)      # libvirt was still at the start of a run that was killed, and that failed
        except exception.VirtDriverError as error:
            self.undo(instance, vifs)
            raise starts.build_error(instance, error) from error
        except (exception.Interrupted, Exception):
            LOG.warning("The new guest is not wanted any more", extra={"instance_uuid": instance.uuid})
            self.undo(instance, vifs)
            raise

    def _xml(self, instance: Instance, vifs: list[VIF]) -> str:
        return domain_xml.build(self.config(instance, vifs))

    def config(self, instance: Instance, vifs: list[VIF]) -> GuestConfig:
        """The domain as it will be defined, bound to what its host has."""
        name = instance.domain_name(self._conf.compute.instance_name_template)
        files, host = self._files(instance), self._host()
        self._disks.check(instance, files)
        cells = host.bindings.bind(instance, files, host.cells)
        return guest_config.make(instance, name, vifs, files, self.facts(files), cells, instance.pci_addresses(self._name))

    def facts(self, files: GuestDirectory) -> HostFacts:
        """The facts of this host for this guest, whose disks may have another format than new ones."""
        return dataclasses.replace(self._host().facts, disk_format=self._disks.format_of(files))

    def start(self, instance: Instance, vifs: list[VIF], paused: bool = False) -> None:
        """From its own disks: whatever ended its rescue (a restore, or a hard reboot when it had failed), that is over."""
        if not self._guest(instance).has_started():
            self._moves.return_if_alone(instance)
            self.define(instance, vifs)
            self.boot(instance, paused)
        self._disks.remove_rescue(self._files(instance))

    def boot(self, instance: Instance, paused: bool = False) -> None:
        """Start the defined domain. The disks of a guest with saved memory were checked before it was saved."""
        self._disks.check(instance, self._files(instance))
        self._volumes.unlocked(instance, lambda: self._guest(instance).start(paused))

    def define(self, instance: Instance, vifs: list[VIF]) -> None:
        """The domain as the server's record says it, to be started next."""
        self._volumes.unlock(instance)
        xml = self._xml(instance, vifs)
        self._taps.make(instance, vifs)
        self._tpms.restore(instance.uuid, self._files(instance))    # last: see tpm_state.py
        self._guest(instance).define(xml)

    def remove(self, instance: Instance, vifs: list[VIF], keep: Sequence[pathlib.Path] = ()) -> None:
        """The domain with all that it has here, but the files ``keep``, and those that are another host's by now."""
        is_mine = self._moves.may_remove(instance, self._guest(instance).power_state() is not None)
        if is_mine:
            self._moves.removes(instance)
        self.end(instance, vifs)
        self._forget_console(instance.uuid)
        self._disks.remove(instance.uuid, [path.name for path in keep], Standing.of(instance, self._name))
        if is_mine:     # else it is another host's, with the same directory
            self._moves.remove(instance.uuid, keep)
        self._moves.drop_aside(instance.uuid)

    def end(self, instance: Instance, vifs: list[VIF]) -> None:
        """The domain with its taps; the files stay."""
        guest = self._guest(instance)
        guest.unplug()
        guest.undefine()
        self._tpms.remove(instance.uuid)
        self._taps.remove(vifs)

    def undo(self, instance: Instance, vifs: list[VIF]) -> None:
        """After a failed start; a failure here is only logged. The files of a server that has run stay: a rebuild has kept them
        on purpose, and other callers remove them."""
        undo = self.remove if instance.launched_at is None else self.end
        try:
            undo(instance, vifs)
        except (exception.VirtDriverError, OSError):
            LOG.exception("Could not clean up after a failed build", extra={"instance_uuid": instance.uuid})

    def addresses(self, instance: Instance) -> dict[str, str]:
        """Of the devices, read from the domain."""
        xml = self._guest(instance).xml()
        return addresses_of(xml, instance) if xml else {}

    def _guest(self, instance: Instance) -> Guest:
        return Guest(self._connection, instance.uuid)

    def _files(self, instance: Instance) -> GuestDirectory:
        return GuestDirectory(self._root, instance.uuid)
