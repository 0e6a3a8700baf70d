"""What other services tell of a host's servers, and the builds that wait for it.

A build registers before its guest has nics, so that no event comes too early. An event that is lost costs nothing but time:
who waits also asks for the ports' states every few seconds.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
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
POLL_SECONDS = 5.0
CHANGED, PLUGGED, UNPLUGGED, DELETED = ("network-changed", "network-vif-plugged", "network-vif-unplugged",
                                        "network-vif-deleted")
VOLUME_EXTENDED, POWER_UPDATE = "volume-extended", "power-update"
COMPLETED, FAILED, IN_PROGRESS = "completed", "failed", "in-progress"
_ACTIVE, _ERROR = "ACTIVE", "ERROR"


class _Wait:
    """The ports of one build that are not wired yet."""

    def __init__(self, port_ids: Collection[str]) -> None:
        self.left = set(port_ids)
        self.failure = ""
        self.interrupted = False
        self.changed = threading.Condition()


class ExternalEvents:
    """The registry of one host's builds that wait for their network."""

    def __init__(self, conf: cfg.ConfigOpts, network: NetworkAPI) -> None:
        self._timeout, self._fatal = conf.network.vif_plugging_timeout, conf.network.vif_plugging_is_fatal
        self._network = network
        self._lock = threading.Lock()
        self._waits: dict[str, _Wait] = {}

    @contextmanager
    def awaited(self, context: RequestContext, instance: Instance, vifs: Sequence[VIF]) -> Iterator[Waiter | None]:
        """Listen for the nics that are not active yet. Inside, call the waiter when they are there (None: nothing to wait
        for); it raises BuildAborted when they are not wired in time or never will be, UnexpectedTaskState when the server is
        deleted meanwhile."""
        ports = [vif.id for vif in vifs if not vif.active]
        if not ports or not self._timeout:
            yield None
            return
        wait = _Wait(ports)
        with self._lock:
            self._waits[instance.uuid] = wait
        try:
            yield lambda: self._wait(context, instance, wait)
        finally:
            with self._lock:
                self._waits.pop(instance.uuid, None)

    def tell(self, instance_uuid: str, name: str, status: str, port_id: str | None) -> None:
        """An event of the network; only a build that waits for this port listens."""
        wait = self._of(instance_uuid)
        if wait is None or port_id not in wait.left or status == IN_PROGRESS:
            return
        with wait.changed:
            if status == FAILED or name == DELETED:
                wait.failure = f"Neutron says {name} {status} for port {port_id}"
            elif name == PLUGGED:
                wait.left.discard(port_id)
            wait.changed.notify_all()

    def interrupt(self, instance_uuid: str) -> None:
        """The server is to be deleted: its build need not wait any longer."""
        wait = self._of(instance_uuid)
        if wait is not None:
            with wait.changed:
                wait.interrupted = True
                wait.changed.notify_all()

    def _of(self, instance_uuid: str) -> _Wait | None:
        with self._lock:
            return self._waits.get(instance_uuid)

    def _wait(self, context: RequestContext, instance: Instance, wait: _Wait) -> None:
        began = time.monotonic()
        deadline = began + self._timeout
        while True:
            with wait.changed:
                wait.changed.wait_for(lambda: not wait.left or wait.failure or wait.interrupted,
                                      max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))
                left = sorted(wait.left)
            if wait.interrupted:
                raise exception.UnexpectedTaskState(instance_id=instance.uuid, expected="spawning", actual="deleting")
            if left and not wait.failure:
                self._ask(context, instance, wait, left)
            if wait.failure:
                self._fail(instance, wait.failure)
                return
            if not wait.left:
                LOG.info("the network was ready after %.1f s", time.monotonic() - began, extra={"instance_uuid": instance.uuid})
                return
            if time.monotonic() >= deadline:
                self._fail(instance, f"Neutron did not say within {self._timeout} s that port {', '.join(left)} is wired")
                return

    def _ask(self, context: RequestContext, instance: Instance, wait: _Wait, left: Sequence[str]) -> None:
        try:
            found = self._network.port_states(context, left)
        except exception.NovaLiteError as error:    # the event may come all the same
            LOG.warning("the ports' states are not known: %s", error, extra={"instance_uuid": instance.uuid})
            return
        with wait.changed:
            for port_id in left:
                state = found.get(port_id)
                if state == _ACTIVE:
                    wait.left.discard(port_id)
                elif state is None:
                    wait.failure = f"port {port_id} was deleted in Neutron"
                elif state == _ERROR:
                    wait.failure = f"Neutron has port {port_id} in state {state}"

    def _fail(self, instance: Instance, reason: str) -> None:
        if self._fatal:
            raise exception.BuildAborted(instance_id=instance.uuid, reason=reason)
        LOG.warning("%s; the guest starts all the same (vif_plugging_is_fatal = false)", reason,
                    extra={"instance_uuid": instance.uuid})
