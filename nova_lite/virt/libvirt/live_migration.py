"""Live migration between two libvirt hosts: the libvirt of the source calls that of the destination (peer to peer).

So a copy continues when nova-lite-compute is killed, and the next daemon asks libvirt for the result. With block migration the
disks are made at the destination over the same base images, and only the guest's own data is sent. A disk without the server's
image as its base (after an unshelve) is sent completely.
"""
from __future__ import annotations

import contextlib
import logging
import math
import pathlib
import secrets
import time
from collections.abc import Callable
from typing import Any

from lxml import etree
from oslo_config import cfg
from oslo_log import log

from nova_lite import durable, exception
from nova_lite.objects import states
from nova_lite.objects.guest_moves import DiskOffer, Plan, SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.copy_slots import CopySlots
from nova_lite.virt.driver import Checker, Fetcher, wanted
from nova_lite.virt.libvirt import (
    console,
    domain_xml,
    guest_config,
    migration_check,
    migration_job,
    migration_xml,
    paused_copy,
    post_copy,
)
from nova_lite.virt.libvirt.connection import Connection, ConnectionLost
from nova_lite.virt.libvirt.disk_offer import DiskServer, key_of, pull
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.host import Host
from nova_lite.virt.libvirt.ownership import Standing, rule
from nova_lite.virt.libvirt.taps import Taps, is_made_here
from nova_lite.virt.libvirt.volume_host import VolumeHost
from nova_lite.virt.live import ABORT, BROKEN, FORCE_COMPLETE, GIVE_UP, REST_SECONDS, SPLIT, WHOLE, Report, Waits

LOG = log.getLogger(__name__)
_LOOK_SECONDS = 0.5
_REPORT_SECONDS = 1.0
_MEND_SECONDS = 5.0             # between attempts to take up a copy that broke
_UNDEFINE_SECONDS = 10.0        # between the end of the source's guest and that of its domain


class LiveMigrations:
    """See :class:`nova_lite.virt.live.LiveMigrations`. ``working`` marks events as caused by this driver."""

    def __init__(self, conf: cfg.ConfigOpts, name: str, connection: Connection, disks: DiskMaker, volumes: VolumeHost,
                 taps: Taps, host: Callable[[], Host],
                 working: Callable[..., contextlib.AbstractContextManager[None]],
                 remove: Callable[[Instance, list[VIF]], None]) -> None:
        self._conf, self._name, self._connection, self._disks, self._volumes = conf, name, connection, disks, volumes
        self._taps, self._host, self._working, self._remove = taps, host, working, remove
        self._root = instances_root(conf)
        self._address = conf.libvirt.migration_address or conf.my_ip
        self._copies = CopySlots()

    # before -------------------------------------------------------------------------------------------------------------
    def facts(self, instance: Instance) -> SourceFacts:
        """See LiveMigrations."""
        files, guest, inventory = self._files(instance), self._guest(instance), self._host().inventory()
        self._check_can_leave(guest)
        migration_check.check_disks(self._disks, instance, files)
        xml = etree.fromstring(self._xml(guest))
        kind, cpu = xml.find("os/type"), xml.find("cpu")
        token = secrets.token_hex(16)
        files.make()
        with durable.written_whole(files.path / migration_check.TOKEN) as part:
            part.write_text(token)
        return SourceFacts(
            hypervisor_type=inventory.hypervisor_type, hypervisor_version=inventory.hypervisor_version,
            power_state=guest.power_state() or states.NOSTATE, arch=kind.get("arch", "") if kind is not None else "",
            machine=kind.get("machine", "") if kind is not None else "", virt_type=xml.get("type", ""),
            cpu=etree.tostring(cpu, encoding="unicode") if cpu is not None else "",
            disks=self._disks.facts(instance, files), pool=self._disks.identity, root=str(self._root), token=token)

    def forget(self, instance_uuid: str, token: str) -> None:
        """See LiveMigrations."""
        migration_check.forget(GuestDirectory(self._root, instance_uuid), token)

    @staticmethod
    def _check_can_leave(guest: Guest) -> None:
        if guest.was_copied_paused():
            raise exception.MigrationPreCheckError(reason=paused_copy.REASON)

    def check(self, instance: Instance, there: SourceFacts, block: bool | None, over_commit: bool) -> Plan:
        """See LiveMigrations."""
        if self._guest(instance).power_state() is not None:
            raise exception.MigrationPreCheckError(reason=f"host {self._name} has a guest {instance.uuid} already")
        host = self._host()
        shared = migration_check.is_shared(self._files(instance), there)
        migration_check.check_host(self._connection, host.inventory(), there)
        blocks = migration_check.check_storage(instance, self._root, there, shared, block, over_commit,
                                               self._disks.identity)
        uri = (self._conf.libvirt.live_migration_uri or "qemu+tcp://%s/system").replace("[%s]", "%s")
        uri = uri.replace("%s", _bracketed(self._address))
        return Plan(host=self._name, block=blocks, shared=shared, uri=uri, address=self._address,
                    power_state=there.power_state, disks=there.disks if blocks else [], source_root=there.root,
                    root=str(self._root), listen=host.facts.listen, post_copy=self._takes_post_copy(instance, there))

    def _takes_post_copy(self, instance: Instance, there: SourceFacts) -> bool:
        """One that its user has paused changes nothing while it is copied."""
        if not self._conf.libvirt.live_migration_permit_post_copy or there.power_state != states.RUNNING:
            return False
        reason = post_copy.refusal(self._connection, self._host().capabilities)
        if reason:
            LOG.warning("the guest cannot come by post-copy: %s", reason, extra={"instance_uuid": instance.uuid})
        return not reason

    def offer(self, instance: Instance, plan: Plan) -> DiskOffer | None:
        """The config drive, since libvirt copies no read-only disk, and the console log."""
        files = self._files(instance)
        names = [path.name for path in _carried(files) if path.exists() and path.stat().st_size]
        if plan.shared or not names:
            return None
        return DiskServer(files.path, self._address).offer(names, self._disks.format_of(files), files.base)

    def prepare(self, instance: Instance, network_info: list[VIF], plan: Plan, offer: DiskOffer | None,
                fetch_image: Fetcher, check: Checker = wanted) -> Plan:
        """See LiveMigrations."""
        files = self._files(instance)
        if not plan.shared:
            migration_check.refuse_shared(files, self._name)
            # taps of an earlier run stay: Neutron's agent has wired them
            self._remove(instance, [vif for vif in network_info if not is_made_here(vif)])
            files.begin(Record(instance.uuid, self._name, State.ARRIVING))      # no other host's is here
        self._taps.make(instance, network_info)     # first: they are wired while the disks are made
        self._volumes.unlock(instance)
        if plan.block:
            self._disks.make_like(instance, files, plan.disks, fetch_image)
        if offer is not None:
            with key_of(offer, files.path) as keys:
                for path in (path for path in _carried(files) if path.name in offer.disks):
                    with durable.written_whole(path) as part:
                        pull(offer, path.name, keys, part, check)
                        if path == files.console_log:
                            console.trim(part)
        plan.nics = {v.mac_address: domain_xml.build_nic(guest_config.nic(instance, v)) for v in network_info
                     if v.type != "null"}
        plan.waits_for = [v.id for v in network_info if is_made_here(v) and not v.active]
        plan.volumes = {d.serial: domain_xml.build_disk(guest_config.volume(instance, d))
                        for d in instance.volumes if d.connection_info}
        return plan

    def wire(self, instance: Instance, network_info: list[VIF]) -> None:
        """See LiveMigrations."""
        self._taps.make_anew(instance, network_info)

    # the copy -----------------------------------------------------------------------------------------------------------
    def has_begun(self, instance: Instance) -> bool:
        """See LiveMigrations."""
        guest = self._guest(instance)
        return self._is_on_its_way(instance) and not migration_job.statistics(guest) and not self._is_gone(guest)

    def begin_anew(self, instance: Instance) -> None:
        """See LiveMigrations."""
        if self._is_on_its_way(instance):
            self._files(instance).note(state=State.HERE)

    def _is_on_its_way(self, instance: Instance) -> bool:
        """By the record. The record of a guest that has just arrived may still say that it arrives."""
        record = self._files(instance).record
        return record.host == self._name and record.state in (State.LEAVING, State.ARRIVING)

    def slot(self, instance: Instance, ask: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """See LiveMigrations. A copy that has outlived a daemon needs no slot."""
        guest = self._guest(instance)
        at_once = self.post_copy(instance) != WHOLE or bool(migration_job.statistics(guest)) or self._is_gone(guest)
        return self._copies.slot(ask, at_once=at_once)

    def post_copy(self, instance: Instance) -> str:
        """See LiveMigrations. The record keeps it for a guest whose process has ended."""
        found = post_copy.of(self._guest(instance))
        return SPLIT if found == WHOLE and self._files(instance).record.post_copy else found

    def copy(self, instance: Instance, plan: Plan, report: Report, waits: Waits) -> str | None:
        """See LiveMigrations."""
        guest = self._guest(instance)
        with self._working(instance, None):
            if self._has_left(guest):
                return None
            call = None
            if not migration_job.statistics(guest) and self.post_copy(instance) == WHOLE:
                self._check_can_leave(guest)
                if guest.power_state() == states.POWER_PAUSED:
                    guest.note_paused_copy()
                self._disks.release_ownership(instance.uuid)
                if not plan.shared:
                    self._files(instance).note(state=State.LEAVING, host=self._name, move="")
                LOG.info("moving to %s: %s", plan.address, "with its disks" if plan.block else "memory only",
                         extra={"instance_uuid": instance.uuid})
                call = migration_job.Call(lambda: self._migrate(guest, plan))
            aborted = self._watch(guest, instance, call, report, plan)
            deadline = time.monotonic() + REST_SECONDS
            while not self._has_left(guest):
                if self.post_copy(instance) == WHOLE:
                    break
                if call is not None and call.flowed:
                    deadline = time.monotonic() + REST_SECONDS
                lost = self._recover(guest, instance, plan, call.error if call is not None else None, report, waits, deadline)
                if lost:
                    return lost
                call = migration_job.Call(lambda: self._migrate(guest, plan, mend=True))
                self._watch(guest, instance, call, report, plan, deadline)
            else:
                return None
        if aborted:
            raise exception.LiveMigrationAborted(instance_id=instance.uuid)
        error = call.error if call is not None else None
        raise exception.VirtDriverError(what="Live migration", reason=str(error or "libvirt ended it")) from error

    def _recover(self, guest: Guest, instance: Instance, plan: Plan, error: exception.NovaLiteError | None, report: Report,
                 waits: Waits, deadline: float) -> str:
        """Before a broken post-copy is resumed: a pause, or the reason why one half of the guest is lost. Then the other host
        has the rest: its disks as last written, or the whole guest."""
        lost = ""
        if post_copy.is_hopeless(error, guest.lib) or not guest.is_active() or (error is not None and not waits()):
            lost = "one half of it is gone"
        elif time.monotonic() > deadline:
            lost = f"it could not be taken up for {REST_SECONDS / 3600:g} hours"
        else:
            LOG.warning("the copy will be resumed: %s", error or "its end was not waited for",
                        extra={"instance_uuid": instance.uuid})
            lost = self._pause(guest, report)
        if lost:
            lost = f"the copy broke after the guest had gone on at its new host, and {lost}"       # its user reads this
            LOG.error("%s: unless it is whole at %s its memory is lost: %s", lost, plan.address, error or "no error",
                      extra={"instance_uuid": instance.uuid})
            guest.unplug()
        return lost

    def _pause(self, guest: Guest, report: Report) -> str:
        """Why the rest is lost; empty: the pause is over."""
        until = time.monotonic() + _MEND_SECONDS
        while True:
            if report(migration_job.progress(migration_job.statistics(guest), in_post_copy=True)) == GIVE_UP:
                return "its new host was declared down, or it is being deleted"
            if time.monotonic() >= until:
                return ""
            time.sleep(_REPORT_SECONDS)

    def _migrate(self, guest: Guest, plan: Plan, mend: bool = False) -> None:
        lib, options = guest.lib, self._conf.libvirt
        migration_check.check_uri(plan.uri)
        xml = self._xml(guest)
        there = migration_xml.build(xml, plan)
        parameters: dict[str, Any] = {
            lib.VIR_MIGRATE_PARAM_URI: f"tcp://{_bracketed(plan.address)}", lib.VIR_MIGRATE_PARAM_LISTEN_ADDRESS: plan.address,
            lib.VIR_MIGRATE_PARAM_DEST_XML: there, lib.VIR_MIGRATE_PARAM_PERSIST_XML: there}
        flags = (lib.VIR_MIGRATE_LIVE | lib.VIR_MIGRATE_PEER2PEER | lib.VIR_MIGRATE_PERSIST_DEST
                 | lib.VIR_MIGRATE_UNDEFINE_SOURCE)
        targets = migration_xml.copied(xml, plan) if plan.block else []
        if targets:
            whole = any(disk.get("whole") for disk in plan.disks)
            flags |= lib.VIR_MIGRATE_NON_SHARED_DISK if whole else lib.VIR_MIGRATE_NON_SHARED_INC
            parameters[lib.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = targets
        elif plan.shared:
            flags |= lib.VIR_MIGRATE_UNSAFE      # the directory is known to be shared, so the cache mode does not matter
        if plan.post_copy and (options.live_migration_permit_post_copy or mend):
            flags |= lib.VIR_MIGRATE_POSTCOPY | (lib.VIR_MIGRATE_POSTCOPY_RESUME if mend else 0)
        elif options.live_migration_permit_auto_converge:
            flags |= lib.VIR_MIGRATE_AUTO_CONVERGE
        if options.live_migration_with_native_tls:
            flags |= lib.VIR_MIGRATE_TLS
        guest.do(lambda domain: domain.migrateToURI3(plan.uri, parameters, flags), must_exist=True, once=True, lasts=True)

    def _watch(self, guest: Guest, instance: Instance, call: migration_job.Call | None, report: Report, plan: Plan,
               deadline: float = math.inf) -> bool:
        """Until the copy has ended, or is broken; True when it was aborted, on request or because it takes too long. An attempt
        to take it up may hang: then until it is given up, or ``deadline``."""
        done, tried, reported = set[str](), set[str](), 0.0
        while True:
            has_ended = call is None or call.ended     # before the job is read: a call ends after its job
            job, memory = migration_job.statistics(guest), post_copy.of(guest) if plan.post_copy else WHOLE
            if memory != WHOLE:
                self._note_post_copy(instance, plan)
            if memory == BROKEN and BROKEN not in tried:
                LOG.error("the copy broke after the guest had begun to run at %s: it is stopped on both hosts", plan.address,
                          extra={"instance_uuid": instance.uuid})
                tried.add(BROKEN)
            if memory == SPLIT and call is not None:
                call.flowed = True
            # libvirt may continue a copy though the connection of its caller was lost
            goes_on = job and memory != BROKEN and (call is None or isinstance(call.error, ConnectionLost))
            if has_ended and not goes_on:
                return ABORT in done
            wanted = None
            if time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                wanted = report(migration_job.progress(job, in_post_copy=memory != WHOLE))
                if memory == BROKEN and (wanted == GIVE_UP or time.monotonic() > deadline):
                    return False
                if wanted != ABORT and migration_job.is_overdue(job, self._conf.libvirt.live_migration_completion_timeout):
                    wanted = self._conf.libvirt.live_migration_timeout_action
            # a guest that has gone on there cannot come back
            asked = wanted in (ABORT, FORCE_COMPLETE) and wanted not in done and job and memory == WHOLE
            if asked and wanted:
                if self._intervene(guest, instance, wanted, plan, again=wanted in tried) or wanted == ABORT:
                    done.add(wanted)
                tried.add(wanted)
            if call is None:
                time.sleep(_LOOK_SECONDS)
            else:
                call.pause(_LOOK_SECONDS)

    def _note_post_copy(self, instance: Instance, plan: Plan) -> None:
        """Unless the destination, which may have the same directory, has made the guest its own in the meantime."""
        files = self._files(instance)
        record = files.record
        if not record.post_copy and record.host in ("", self._name):
            LOG.info("live migration: the guest runs on at %s", plan.address, extra={"instance_uuid": instance.uuid})
            files.note(post_copy=True)

    def _intervene(self, guest: Guest, instance: Instance, wanted: str, plan: Plan, again: bool) -> bool:
        """False when it was refused: disks are copied first, before there can be a post-copy, or it may just have ended."""
        LOG.log(logging.DEBUG if again else logging.INFO, "live migration: %s", wanted, extra={"instance_uuid": instance.uuid})
        try:
            if wanted == ABORT:
                guest.do(lambda domain: domain.abortJob())
            elif plan.post_copy and self._conf.libvirt.live_migration_permit_post_copy:
                guest.do(lambda domain: domain.migrateStartPostCopy(0))
            else:
                guest.pause()       # a stopped guest changes nothing any more; it continues at the destination
        except exception.VirtDriverError as error:
            LOG.log(logging.DEBUG if again else logging.WARNING, "live migration: %s: %s", wanted, error,
                    extra={"instance_uuid": instance.uuid})
            return False
        return True

    def _has_left(self, guest: Guest) -> bool:
        """Whether the guest is at the destination: libvirt removes the domain a moment after its process has ended."""
        deadline = time.monotonic() + _UNDEFINE_SECONDS
        while self._is_gone(guest):
            if guest.power_state() is None:
                return True
            if time.monotonic() > deadline:
                guest.undefine()
            time.sleep(0.1)
        return False

    @staticmethod
    def _is_gone(guest: Guest) -> bool:
        state = guest.do(lambda domain: domain.state())
        return state is None or tuple(state[:2]) == (guest.lib.VIR_DOMAIN_SHUTOFF, guest.lib.VIR_DOMAIN_SHUTOFF_MIGRATED)

    def waits(self, instance: Instance) -> bool:
        """See LiveMigrations."""
        guest = self._guest(instance)
        return guest.is_active() and (post_copy.of(guest) != WHOLE or guest.power_state() != states.RUNNING)

    # evacuation ---------------------------------------------------------------------------------------------------------
    def adopt(self, instance: Instance) -> None:
        """See LiveMigrations."""
        files = self._files(instance)
        self._disks.adopt(instance.uuid)
        server = Standing.of(instance, self._name, self._guest(instance).power_state() is not None)
        if not files.path.exists():
            files.begin(Record(instance.uuid, self._name, State.ARRIVING))
        elif rule(files.record, self._name).adopts(server):
            files.note(state=State.ADOPTED, host="", move="")

    def adopted(self, instance: Instance) -> None:
        """See LiveMigrations."""
        files = self._files(instance)
        self._disks.adopted(instance.uuid)
        was_found = files.record.state is State.ADOPTED
        files.note(state=State.ADOPTED if was_found else State.HERE, host=self._name, move="", post_copy=False)

    # after --------------------------------------------------------------------------------------------------------------
    def has_come(self, instance: Instance) -> bool:
        """See LiveMigrations."""
        return self._arrival(instance) is True

    def wait(self, instance: Instance, pause: Callable[[], object]) -> bool:
        """See LiveMigrations."""
        while (here := self._arrival(instance)) is None:
            pause()
        return here

    def _arrival(self, instance: Instance) -> bool | None:
        """Whether the guest is here, running or paused by its user; None: it is on its way."""
        guest = self._guest(instance)
        lib, state = guest.lib, guest.do(lambda domain: domain.state())
        if state is None:
            return False
        incoming = (lib.VIR_DOMAIN_PAUSED_MIGRATION, lib.VIR_DOMAIN_PAUSED_STARTING_UP)
        if (state[0] == lib.VIR_DOMAIN_PAUSED and state[1] in incoming) or post_copy.of(guest) != WHOLE:
            return None
        return state[0] in (lib.VIR_DOMAIN_RUNNING, lib.VIR_DOMAIN_PAUSED)

    def arrive(self, instance: Instance, network_info: list[VIF], plan: Plan) -> int:
        """See LiveMigrations."""
        files, guest = self._files(instance), self._guest(instance)
        if post_copy.of(guest) == BROKEN:       # and the source has given it up
            guest.unplug()
        if files.record.post_copy:
            files.note(post_copy=False)
        state = guest.power_state()
        if state not in (states.RUNNING, states.POWER_PAUSED):
            raise exception.DriverRefusal(what="Live migration", reason="the guest has left its host, but did not come to the "
                                                                        "new one")
        if state == states.POWER_PAUSED:
            guest.note_paused_copy()        # what paused it during the copy was perhaps not its user
        (files.path / migration_check.TOKEN).unlink(missing_ok=True)
        self._disks.own(instance.uuid)
        files.note(state=State.HERE, host=self._name, move="", post_copy=False)
        return state

    def leave(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """See LiveMigrations."""
        self._withdraw(instance, plan)
        self._disks.give(instance.uuid, plan.host)
        if plan.shared:
            self._guest(instance).undefine()
            self._taps.remove(network_info)
        else:
            self._remove(instance, network_info)
        self._volumes.remove_unused_secrets(instance)

    def give_up(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """See LiveMigrations."""
        with self._working(instance, None):
            if plan.shared:
                guest = self._guest(instance)
                guest.unplug()
                guest.undefine()
                self._taps.remove(network_info)
            else:
                self._remove(instance, network_info)

    def stay(self, instance: Instance, plan: Plan) -> None:
        """See LiveMigrations."""
        self._withdraw(instance, plan)
        files, guest = self._files(instance), self._guest(instance)
        self._disks.own(instance.uuid)
        self.begin_anew(instance)
        (files.path / migration_check.TOKEN).unlink(missing_ok=True)
        if plan.power_state == states.RUNNING and guest.power_state() == states.POWER_PAUSED:
            guest.unpause()

    def _withdraw(self, instance: Instance, plan: Plan) -> None:
        if not plan.shared:
            DiskServer(self._files(instance).path, self._address).stop()

    def _guest(self, instance: Instance) -> Guest:
        return Guest(self._connection, instance.uuid)

    def _files(self, instance: Instance) -> GuestDirectory:
        return GuestDirectory(self._root, instance.uuid)

    @staticmethod
    def _xml(guest: Guest) -> str:
        flags = guest.lib.VIR_DOMAIN_XML_MIGRATABLE | guest.lib.VIR_DOMAIN_XML_SECURE
        return str(guest.do(lambda domain: domain.XMLDesc(flags), must_exist=True))


def _carried(files: GuestDirectory) -> tuple[pathlib.Path, pathlib.Path]:
    """The files that the hypervisors do not copy."""
    return files.config_drive, files.console_log


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
