"""Compares the ports of a host's servers with those of a minute ago, to find lost events of the Network service.

The service is asked once per host and round, whatever the number of servers. For a server whose ports are new or have changed,
the record is read; the service is asked again only when the record differs. A port that is marked as leaving, though its server
does not move, is left over from a live migration that was interrupted: Neutron's agent would not wire it at the next start of
the guest. It is bound to this host again.

Every few seconds it looks for nics that are on no bridge, and puts them back. Neutron's agent for Open vSwitch may take a nic
from its bridge seconds after the server has left the host. A server that has come back by then has no network.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.external_events import CHANGED, DELETED
from nova_lite.compute.work import Host, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import PortState

LOG = log.getLogger(__name__)


class Tell(Protocol):
    """Does what an event about a server would do. ``ports``: the present data of all its ports."""

    def __call__(self, instance_uuid: str, event: str, port_id: str | None,
                 ports: Mapping[str, PortState] | None = None, /) -> None: ...


class NicComparison:
    """For one host. ``later`` queues a function for a server."""

    def __init__(self, host: Host, tell: Tell, later: Callable[[str, Callable[[bool], None]], None]) -> None:
        self._host, self._tell, self._later = host, tell, later
        self._seen: Mapping[str, Mapping[str, PortState]] = {}
        self._suspects: set[str] = set()
        self._queued: set[str] = set()      # that wait in their queue

    def suspect(self, instance_uuid: str) -> None:
        """No host accepts this server: an interrupted check may have left bindings, which the ports do not show."""
        self._suspects.add(instance_uuid)

    def run(self) -> None:
        """One round. The first round after the start of the daemon checks every server."""
        context, host = admin_context(), self._host
        try:
            now = host.network.host_ports(context, host.name)
            gone = {port: server for server, ports in self._seen.items() for port in ports if port not in now.get(server, ())}
            # a port that left this host, or its server, was not deleted: the other hosts handle it
            there = host.network.port_states(context, sorted(gone)) if gone else {}
        except exception.NovaLiteError as error:
            LOG.warning("the ports of this host were not compared; the next round does it: %s", error)
            return
        before, self._seen = self._seen, now
        for port, server in gone.items():
            if port not in there:
                self._tell(server, DELETED, port)
        for server, ports in now.items():
            if ports != before.get(server):
                self._tell(server, CHANGED, None, ports)
            if server in self._suspects or any(port.leaving for port in ports.values()):
                self._repair(server, self._rebind)
        self._suspects.intersection_update(now)

    def plug_again(self) -> None:
        """Put back the nics that are on no bridge."""
        for server in sorted(self._host.driver.unplugged()):
            self._repair(server, self._plug)

    def _repair(self, instance_uuid: str, repair: Callable[[Instance], None]) -> None:
        """Repair the nics of a server, in the server's queue. After a failure, or while an operation works on the server, the
        next round tries again."""
        if instance_uuid not in self._queued:
            self._queued.add(instance_uuid)
            self._later(instance_uuid, partial(self._run, instance_uuid, repair))

    def _run(self, instance_uuid: str, repair: Callable[[Instance], None], _waited: bool = False) -> None:
        extra = {"instance_uuid": instance_uuid}
        self._queued.discard(instance_uuid)
        try:
            instance = Instance.from_primitive(self._host.conductor.get_instance(admin_context(), instance_uuid))
            if instance.host == self._host.name and instance.task_state is None:
                repair(instance)
        except exception.InstanceNotFound:
            LOG.debug("the server is gone", extra=extra)
        except Exception as error:
            LOG.error("its nics were not repaired: %s", error, extra=extra, exc_info=needs_stack(error))

    def _rebind(self, instance: Instance) -> None:
        self._host.network.move(admin_context(), instance, self._host.name)
        self._suspects.discard(instance.uuid)
        LOG.info("its ports stay here, whatever a live migration has left", extra={"instance_uuid": instance.uuid})

    def _plug(self, instance: Instance) -> None:
        if instance.uuid not in self._host.driver.unplugged():
            return      # the operation before this one has made the nic again
        self._host.driver.plug(instance, instance.network_info)
        LOG.warning("a nic had been taken from its bridge, and was put back", extra={"instance_uuid": instance.uuid})
