"""Ports of a server that moves to another host. A running server needs them on two hosts at once: Neutron has a second binding
for that, which is inactive until the guest has arrived.

A port that moves names its new host in the profile of its active binding (``migrating_to``): so the agent there wires it before
the guest arrives. After the move, when the other binding is gone, the agent must be notified of the port once more: while there
are two bindings, the agent regards the port as one that leaves (neutron/agent/rpc.py, CacheBackedPluginApi.get_device_details).
"""
from __future__ import annotations

from collections.abc import Sequence

from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, not_bound
from nova_lite.network.neutron_ports import HOST
from nova_lite.network.neutron_views import FAILED, MIGRATING_TO, PROFILE, REMINDERS, settled
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)


class PortMoves:
    """All calls are made as the service user; each can be made twice."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def expect(self, context: RequestContext, ports: Sequence[Json], host: str) -> list[Json]:
        """The ports as they will be on ``host``, not wired there yet. Each gets an inactive binding to it. Raises
        VirtDriverError for a port that Neutron cannot bind there, and NeutronRefusal where it does not have bindings (the
        extension binding-extended)."""
        return [{**port, **self._expected(context, port, host)} if port.get(HOST) != host else port for port in ports]

    def _expected(self, context: RequestContext, port: Json, host: str) -> Json:
        known = [b for b in self._api.bindings(context, port["id"]) if b["host"] == host]
        binding = known[0] if known else self._api.add_binding(
            context, port["id"], host, port.get("binding:vnic_type"), settled(port))
        return {"binding:vif_type": binding.get("vif_type"), "binding:vif_details": binding.get("vif_details"),
                "status": "DOWN"}

    def announce(self, context: RequestContext, ports: Sequence[Json], host: str) -> None:
        """Let the agent of ``host`` wire the ports, which are about to arrive. A second call notifies the agent again; since
        agents are notified of changes only, the profile has a counter. It names the host all the time, else the agent of the
        old host would regard the port as one that stays, and report it as wired."""
        for port in ports:
            if port.get(HOST) == host:
                continue
            profile = port.get(PROFILE) or {}
            again = {REMINDERS: int(profile.get(REMINDERS, 0)) + 1} if profile.get(MIGRATING_TO) == host else {}
            self._api.update_port(context, port["id"], {PROFILE: {**profile, MIGRATING_TO: host, **again}})

    def move(self, context: RequestContext, ports: Sequence[Json], host: str) -> list[Json]:
        """Bind each port to ``host`` and to no other host, by its inactive binding if it has one, and notify the agents. They
        are notified also when the port was bound there before: an earlier run may have been interrupted. A port that is deleted
        meanwhile is left out. Raises VirtDriverError."""
        found = [self._moved(context, port, host) for port in ports]
        return [port for port in found if port is not None]

    def _moved(self, context: RequestContext, port: Json, host: str) -> Json | None:
        try:
            if port.get(HOST) != host:
                self._api.activate_binding(context, port["id"], host)
            self._api.drop_waiting(context, port["id"])     # of its source, and what checks of other hosts have left
            # a binding that was activated is the port's by now, and has a profile of its own; one to this host that has failed,
            # or that there was not, is tried now
            now = self._api.update_port(context, port["id"], {HOST: host, PROFILE: settled(port)})
        except exception.PortNotFound:
            return None
        if now.get("binding:vif_type") == FAILED:
            raise not_bound(port["id"], host)
        return now

    def forget(self, context: RequestContext, ports: Sequence[Json], host: str) -> None:
        """What ``expect`` and ``announce`` have made is not needed; the binding of where the guest is stays."""
        for port in ports:
            if port.get(HOST) == host:
                continue
            is_told = (port.get(PROFILE) or {}).get(MIGRATING_TO) == host
            if self._api.delete_binding(context, port["id"], host) or is_told:
                self._tell(context, port)

    def _tell(self, context: RequestContext, port: Json) -> None:
        """Notify the agents of the present state of the port."""
        try:
            self._api.update_port(context, port["id"], {PROFILE: settled(port)})
        except exception.PortNotFound:
            LOG.debug("port %s was deleted", port["id"])


def of_instance(ports: Sequence[Json], instance: Instance) -> list[Json]:
    """The ports of the server's nics, in their order; ports that are gone are left out."""
    found = {p["id"]: p for p in ports}
    return [found[vif.id] for vif in instance.network_info if vif.id in found]
