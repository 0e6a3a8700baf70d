"""Compares the ports of a host's servers with those of a minute ago: news of the network that were lost are found by it.

The network is asked once per host and round, whatever the number of servers. A server whose ports are new or have changed since
the round before is looked at: its record is read, and the network is asked again only when the record says something else.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.external_events import CHANGED, DELETED
from nova_lite.compute.work import Host
from nova_lite.context import admin_context
from nova_lite.objects.network import PortNews

LOG = log.getLogger(__name__)


class Tell(Protocol):
    """Does what the event of a server would have done. ``ports``: what the network says of all its ports."""

    def __call__(self, instance_uuid: str, event: str, port_id: str | None,
                 ports: Mapping[str, PortNews] | None = None, /) -> None: ...


class NicComparison:
    """For one host."""

    def __init__(self, host: Host, tell: Tell) -> None:
        self._host, self._tell = host, tell
        self._seen: Mapping[str, Mapping[str, PortNews]] = {}

    def run(self) -> None:
        """One round. The first one after the start of the daemon looks at each server."""
        context, host = admin_context(), self._host
        try:
            now = host.network.host_ports(context, host.name)
            gone = {port: server for server, ports in self._seen.items() for port in ports if port not in now.get(server, ())}
            # a port that left this host, or its server, was not deleted: the server's other hosts look after it
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
