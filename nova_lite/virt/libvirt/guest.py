"""The operations on one domain of libvirt. Each step can be run twice."""
from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.objects import states
from nova_lite.virt.libvirt import paused_copy
from nova_lite.virt.libvirt.connection import Connection, ConnectionLost

LOG = log.getLogger(__name__)

T = TypeVar("T")

# libvirt's virDomainState -> power_state; blocked and "being shut down" still run
POWER_STATES = {0: states.NOSTATE, 1: states.RUNNING, 2: states.RUNNING, 3: states.POWER_PAUSED, 4: states.RUNNING,
                5: states.SHUTDOWN, 6: states.CRASHED, 7: states.POWER_SUSPENDED}
LOOKS = retry.every(0.5)        # reads of the state of a job
ASK_AGAIN = 10.0        # a guest that is just booting misses the power button
PULLS = retry.Schedule((1.0, 1.0))      # tries to end a process


class Guest:
    """The domain with the uuid of a server, which may not exist."""

    def __init__(self, connection: Connection, uuid: str) -> None:
        self._connection = connection
        self.lib, self.clock = connection.libvirt, connection.clock
        self.uuid = uuid

    @property
    def uri(self) -> str:
        """Of its libvirt."""
        return self._connection.uri

    def power_state(self) -> int | None:
        """None: libvirt does not have the domain."""
        return self.do(lambda domain: POWER_STATES.get(domain.state()[0], states.NOSTATE))

    def is_active(self) -> bool:
        """Running, paused or so: there is a process."""
        return bool(self.do(lambda domain: domain.isActive()))

    def xml(self) -> str:
        """The present XML, without secrets; empty when libvirt does not have the domain."""
        return self.do(lambda domain: domain.XMLDesc(0)) or ""

    def define(self, xml: str) -> None:
        """Write the persistent configuration, over an older one. It is not checked against libvirt's schema, which is read
        again each time (10 ms): the tests of ``domain_xml`` do that."""
        self._connection.run(lambda connection: connection.defineXML(xml) and None)

    def start(self, paused: bool = False) -> None:
        """Start it (from its saved memory when there is one) unless it is active already; ``paused``: up to its first
        instruction. Raises ConnectionLost when libvirtd ends meanwhile: it has forgotten the passphrases of the guest's disks
        then."""
        flags = self.lib.VIR_DOMAIN_START_PAUSED if paused else 0
        self.settle()
        # a large memory takes long to read, which blocks the shared connection
        reads_memory = bool(self.do(lambda domain: domain.hasManagedSaveImage(0)))
        self.do(self._unless(self._has_started, lambda domain: domain.createWithFlags(flags)), must_exist=True, once=True,
                lasts=reads_memory)

    def _has_started(self, domain: Any) -> bool:
        """A guest that a killed libvirtd had only begun to start is ended by the next libvirtd, after a moment. One question:
        between two of them, a start that another process began may fail."""
        lib = self.lib
        state = tuple(domain.state()[:2])
        return state[0] != lib.VIR_DOMAIN_SHUTOFF and state != (lib.VIR_DOMAIN_PAUSED, lib.VIR_DOMAIN_PAUSED_STARTING_UP)

    def has_started(self) -> bool:
        """There is a process, and it was not only begun to be started."""
        return bool(self.do(self._has_started))

    def forget_saved_memory(self) -> None:
        """Throw a managed save away: the next start boots."""
        self.do(lambda domain: domain.managedSaveRemove(0) if domain.hasManagedSaveImage(0) else None)

    def unplug(self) -> None:
        """End the process at once. One that waits for dead storage does not end within the time that libvirt gives it, so
        libvirt is asked several times. Raises VirtDriverError when the process is still there then."""
        pull = self._unless(lambda domain: not domain.isActive(), lambda domain: domain.destroy())
        tries = itertools.count()

        def end() -> None:
            try:
                # once it has taken long, it keeps no other call from the connection that all share
                self.do(pull, lasts=next(tries) > 0)
            except ConnectionLost:
                raise
            except exception.VirtDriverError:
                if self.is_active():
                    raise

        def tell(error: Exception, _pause: float) -> None:
            LOG.warning("The guest's process does not end: %s", error, extra={"instance_uuid": self.uuid})

        retry.on_error(end, lambda error: isinstance(error, exception.VirtDriverError) and not isinstance(
            error, ConnectionLost), PULLS, self.clock, before_pause=tell)

    def turn_off(self) -> None:
        """The same, and its next start boots."""
        self.unplug()
        self.forget_saved_memory()

    def shut_down(self, timeout: float) -> bool:
        """Press the power button and wait; True when the guest is off within ``timeout`` seconds."""
        deadline = self.clock.monotonic() + timeout
        pressed = float("-inf")
        while (state := self.power_state()) == states.RUNNING:
            now = self.clock.monotonic()
            if now >= deadline:
                return False
            if now - pressed >= ASK_AGAIN:
                pressed = now
                self._press_power_button()
            self.clock.sleep(min(0.25, max(0.0, deadline - now)))
        return state not in (states.POWER_PAUSED, states.POWER_SUSPENDED)

    def _press_power_button(self) -> None:
        """QEMU may refuse this while it waits for dead storage; that is no error, since the guest is ended by force
        afterwards."""
        button = self.lib.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        try:
            self.do(self._unless(lambda domain: not domain.isActive(), lambda domain: domain.shutdownFlags(button)))
        except ConnectionLost:
            raise
        except exception.VirtDriverError as error:
            LOG.warning("The guest's power button does nothing: %s", error, extra={"instance_uuid": self.uuid})

    def pause(self) -> None:
        """Stop its CPUs."""
        paused = self.lib.VIR_DOMAIN_PAUSED
        self.do(self._unless(lambda domain: domain.state()[0] == paused, lambda domain: domain.suspend()), must_exist=True)

    def unpause(self) -> None:
        """Let its CPUs run, if they are stopped."""
        paused = self.lib.VIR_DOMAIN_PAUSED
        self.do(self._unless(lambda domain: domain.state()[0] != paused, lambda domain: domain.resume()), must_exist=True)
        self.do(lambda domain: paused_copy.forget(self.lib, domain))

    def note_paused_copy(self) -> None:
        """See paused_copy.py: before a copy of it is begun while it is paused."""
        self.do(lambda domain: paused_copy.note(self.lib, domain), must_exist=True)

    def was_copied_paused(self) -> bool:
        """Whether it was copied while it was paused, and has not run since: see paused_copy.py."""
        return bool(self.do(lambda domain: paused_copy.is_noted(self.lib, domain)))

    def save(self) -> None:
        """Save the memory to disk and end the process. The guest runs again when it starts, even if it is paused now. Raises
        VirtDriverError for a guest that ``was_copied_paused``, whose memory would be lost."""
        if self.was_copied_paused():
            raise exception.DriverRefusal(what="Saving the guest", reason=paused_copy.REASON)
        running = self.lib.VIR_DOMAIN_SAVE_RUNNING
        self.settle()
        self.do(self._unless(lambda domain: not domain.isActive(), lambda domain: domain.managedSave(running)), must_exist=True,
                lasts=True)

    def settle(self) -> None:
        """Wait until libvirt has finished a save or a start that a killed process began. Until then libvirt lets no other call
        change the guest (such a call waits for half a minute)."""
        retry.poll(lambda: self.do(self._is_between), operator.not_, LOOKS, self.clock)

    def _is_between(self, domain: Any) -> bool:
        lib = self.lib
        state, reason = domain.state()[:2]
        # the latter also while its memory is read
        between = (lib.VIR_DOMAIN_PAUSED_SAVE, lib.VIR_DOMAIN_PAUSED_STARTING_UP)
        return bool(state == lib.VIR_DOMAIN_PAUSED and reason in between)

    def undefine(self) -> None:
        """Remove the configuration with saved memory and the memory of its TPM. The firmware's variables stay: they are one of
        the guest's files, which others may have taken over."""
        lib = self.lib
        least = lib.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | lib.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        most = least | lib.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | lib.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM

        def undefine(domain: Any) -> None:
            try:
                domain.undefineFlags(most)
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_INVALID_ARG:
                    raise
                domain.undefineFlags(least)     # a hypervisor without checkpoints or firmware variables

        self.do(undefine)

    def set_password(self, user: str, password: str) -> None:
        """Through the guest agent; raises VirtDriverError when that does not answer."""
        self.do(lambda domain: domain.setUserPassword(user, password, 0) and None, must_exist=True)

    def inject_nmi(self) -> None:
        """Inject an NMI: the kernel writes a dump."""
        self.do(lambda domain: domain.injectNMI(0) and None, must_exist=True, once=True)

    def statistics(self) -> dict[str, Any]:
        """What libvirt counts, under the names of virConnectGetAllDomainStats; raises VirtDriverError without a domain."""
        lib = self.lib
        groups = (lib.VIR_DOMAIN_STATS_STATE | lib.VIR_DOMAIN_STATS_VCPU | lib.VIR_DOMAIN_STATS_BALLOON
                  | lib.VIR_DOMAIN_STATS_BLOCK | lib.VIR_DOMAIN_STATS_INTERFACE)
        found = self.do(lambda domain: domain.connect().domainListGetStats([domain], groups), must_exist=True)
        return dict(found[0][1]) if found else {}

    def _unless(self, done: Callable[[Any], bool], step: Callable[[Any], object]) -> Callable[[Any], None]:
        """``step``, unless it is done; nor is it an error when it gets done by others while we ask for it (the guest itself,
        or a call of a process that was killed meanwhile, which libvirt finishes all the same)."""
        lib = self.lib

        def call(domain: Any) -> None:
            if done(domain):
                return
            try:
                step(domain)
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_OPERATION_INVALID or not done(domain):
                    raise

        return call

    def do(self, function: Callable[[Any], T], must_exist: bool = False, once: bool = False, lasts: bool = False) -> T | None:
        """``function(virDomain)``; None when there is no such domain, unless it must exist. ``once``: it is not run again when
        libvirtd ends meanwhile, which raises ConnectionLost. ``lasts``: it may take minutes."""
        lib, uuid = self.lib, self.uuid

        def call(connection: Any) -> T | None:
            try:
                return function(connection.lookupByUUIDString(uuid))
            except lib.libvirtError as error:
                if error.get_error_code() == lib.VIR_ERR_NO_DOMAIN and not must_exist:
                    return None
                raise

        return self._connection.run_lasting(call, once) if lasts else self._connection.run(call, once)


def all_power_states(connection: Connection) -> dict[str, int]:
    """uuid -> power_state of every domain, by one call."""
    flag = connection.libvirt.VIR_DOMAIN_STATS_STATE

    def read(c: Any) -> dict[str, int]:
        return {domain.UUIDString(): POWER_STATES.get(stats.get("state.state", 0), states.NOSTATE)
                for domain, stats in c.getAllDomainStats(flag)}

    return connection.run(read)
