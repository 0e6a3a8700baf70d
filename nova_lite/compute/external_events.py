"""The events of other services about this host's servers, and the builds and moves that wait for them. A lost event only costs
time: a waiting build also reads the states of the ports every few seconds.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.base import NetworkAPI
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.driver import Waiter

LOG = log.getLogger(__name__)
FIRST_LOOK, POLL_SECONDS = 15.0, 5.0     # without an event Neutron is asked after so long, and then again and again
CHANGED, PLUGGED, UNPLUGGED, DELETED = ("network-changed", "network-vif-plugged", "network-vif-unplugged",
                                        "network-vif-deleted")
VOLUME_EXTENDED, POWER_UPDATE = "volume-extended", "power-update"
COMPLETED, FAILED, IN_PROGRESS = "completed", "failed", "in-progress"
_ACTIVE, _ERROR = "ACTIVE", "ERROR"


class Listener:
    """The events that one build has received about its ports."""

    def __init__(self, network: NetworkAPI, timeout: float, fatal: bool) -> None:
        self._network, self._timeout, self._fatal = network, timeout, fatal
        self._heard: set[str] = set()       # ports that are wired
        self._failures: dict[str, str] = {}
        self._interrupted = False
        self._changed = threading.Condition()

    def waiter(self, context: RequestContext, instance: Instance, vifs: Sequence[VIF]) -> Waiter | None:
        """Call it when the guest's nics are there; None: all are wired already. It raises BuildAborted when one is not wired
        in time or never will be, UnexpectedTaskState when the server is deleted meanwhile."""
        ports = {vif.id for vif in vifs if not vif.active}
        if not ports or not self._timeout:
            return None
        return lambda: self._wait(context, instance, ports)

    def wait_at_destination(self, instance: Instance, ports: Collection[str], check: Callable[[], object],
                            remind: Callable[[], object]) -> None:
        """Wait, before a running guest comes to this host, until Neutron reports that its ports are wired here. The states of
        the ports are those of the source, so they are not used. ``check`` is called every few seconds; its exception ends the
        wait. ``remind`` makes Neutron notify its agent again. Raises MigrationError when a port is not wired in time, unless
        that is not fatal."""
        wanted = set(ports) if self._timeout else set()
        began = reminded = time.monotonic()
        while not self._is_told(wanted, POLL_SECONDS) and time.monotonic() - began < self._timeout:
            check()
            if time.monotonic() - reminded >= FIRST_LOOK:
                reminded = time.monotonic()
                remind()
        if self._interrupted:
            check()
        if wanted <= self._heard:
            LOG.info("the network was ready after %.1f s", time.monotonic() - began, extra={"instance_uuid": instance.uuid})
            return
        reasons = [self._failures[port] for port in sorted(wanted & self._failures.keys())]
        reason = "; ".join(reasons) or _late(self._timeout, wanted - self._heard)
        if self._fatal:
            raise exception.MigrationError(reason=reason)
        LOG.warning("%s; the guest moves nevertheless (vif_plugging_is_fatal = false)", reason,
                    extra={"instance_uuid": instance.uuid})

    def _is_told(self, ports: set[str], seconds: float) -> bool:
        """Whether all ports are wired, one has failed, or the wait is interrupted, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._interrupted or ports <= self._heard or bool(ports & self._failures.keys()), seconds)

    def tell(self, name: str, status: str, port_id: str) -> None:
        """An event of the network."""
        if status == IN_PROGRESS:
            return
        with self._changed:
            if status == FAILED or name == DELETED:
                self._failures[port_id] = f"Neutron says {name} {status} for port {port_id}"
            elif name == PLUGGED:
                self._heard.add(port_id)
            self._changed.notify_all()

    def interrupt(self) -> None:
        """End the wait: the server is being deleted."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def _wait(self, context: RequestContext, instance: Instance, ports: set[str]) -> None:
        began = time.monotonic()
        deadline, pause = began + self._timeout, FIRST_LOOK
        while True:
            self._is_told(ports, max(0.0, min(pause, deadline - time.monotonic())))
            pause = POLL_SECONDS
            if self._interrupted:
                raise exception.UnexpectedTaskState(instance_id=instance.uuid, expected="spawning", actual="deleting")
            if not ports <= self._heard and not ports & self._failures.keys():
                self._ask(context, instance, sorted(ports - self._heard))
            for failed in sorted(ports & self._failures.keys()):
                self._fail(instance, self._failures[failed])
                return
            if ports <= self._heard:
                LOG.info("the network was ready after %.1f s", time.monotonic() - began, extra={"instance_uuid": instance.uuid})
                return
            if time.monotonic() >= deadline:
                self._fail(instance, _late(self._timeout, ports - self._heard))
                return

    def _ask(self, context: RequestContext, instance: Instance, left: Sequence[str]) -> None:
        try:
            found = self._network.port_states(context, left)
        except exception.NovaLiteError as error:    # the event may come all the same
            LOG.warning("the states of the ports could not be read: %s", error, extra={"instance_uuid": instance.uuid})
            return
        with self._changed:
            for port_id in left:
                state = found.get(port_id)
                if state == _ACTIVE:
                    self._heard.add(port_id)
                elif state is None:
                    self._failures[port_id] = f"port {port_id} was deleted in Neutron"
                elif state == _ERROR:
                    self._failures[port_id] = f"Neutron has port {port_id} in state {state}"

    def _fail(self, instance: Instance, reason: str) -> None:
        if self._fatal:
            raise exception.BuildAborted(instance_id=instance.uuid, reason=reason)
        LOG.warning("%s; the guest starts all the same (vif_plugging_is_fatal = false)", reason,
                    extra={"instance_uuid": instance.uuid})


def _late(timeout: float, ports: Collection[str]) -> str:
    return f"Neutron did not report within {timeout} s that port {', '.join(sorted(ports))} is wired"


class ExternalEvents:
    """The builds of one host that listen."""

    def __init__(self, conf: cfg.ConfigOpts, network: NetworkAPI) -> None:
        self._conf, self._network = conf.network, network
        self._lock = threading.Lock()
        self._listeners: dict[str, Listener] = {}

    @contextmanager
    def listen(self, instance_uuid: str) -> Iterator[Listener]:
        """From before the ports are made until the guest runs: no event comes too early."""
        made = Listener(self._network, self._conf.vif_plugging_timeout, self._conf.vif_plugging_is_fatal)
        with self._lock:
            self._listeners[instance_uuid] = made
        try:
            yield made
        finally:
            with self._lock:
                self._listeners.pop(instance_uuid, None)

    def tell(self, instance_uuid: str, name: str, status: str, port_id: str | None) -> None:
        """An event of the network; only a build listens to it."""
        listener = self._of(instance_uuid)
        if listener is not None and port_id:
            listener.tell(name, status, port_id)

    def interrupt(self, instance_uuid: str) -> None:
        """The server is to be deleted: its build need not wait any longer."""
        listener = self._of(instance_uuid)
        if listener is not None:
            listener.interrupt()

    def _of(self, instance_uuid: str) -> Listener | None:
        with self._lock:
            return self._listeners.get(instance_uuid)
