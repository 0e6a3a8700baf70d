"""Ports of a server that moves to another host. A running one needs them on two hosts at once: Neutron has a second binding for
that, which is inactive until the guest has arrived.

A port that is on its way names its new host in the profile of its active binding (``migrating_to``): so the agent there wires
it before the guest comes. After the move the agent must hear of the port once more, when the other binding is gone: as long as
there is one, the agent takes the port for one that leaves (neutron/agent/rpc.py, CacheBackedPluginApi.get_device_details).
"""
from __future__ import annotations

from collections.abc import Sequence

from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, not_bound
from nova_lite.network.neutron_ports import HOST
from nova_lite.network.neutron_views import FAILED
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
_PROFILE, _MIGRATING_TO = "binding:profile", "migrating_to"


class PortMoves:
    """All calls are made as the service user; each can be made twice."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def expect(self, context: RequestContext, ports: Sequence[Json], host: str) -> list[Json]:
        """The ports as they will be on ``host``, not wired there yet. Each gets an inactive binding to it. Raises
        VirtDriverError for one that Neutron cannot bind there, and NeutronRefusal where it does not know bindings (the
        extension binding-extended)."""
        return [{**port, **self._expected(context, port, host)} if port.get(HOST) != host else port for port in ports]

    def _expected(self, context: RequestContext, port: Json, host: str) -> Json:
        known = [b for b in self._api.bindings(context, port["id"]) if b["host"] == host]
        binding = known[0] if known else self._api.add_binding(context, port["id"], host, port.get("binding:vnic_type"))
        return {"binding:vif_type": binding.get("vif_type"), "binding:vif_details": binding.get("vif_details"),
                "status": "DOWN"}

    def announce(self, context: RequestContext, ports: Sequence[Json], host: str) -> None:
        """Let the agent of ``host`` wire the ports, which wait for it there. Called again it lets the agent hear again: an
        update without a change would not be told."""
        for port in ports:
            if port.get(HOST) != host:
                if _MIGRATING_TO in _profile(port):
                    self._api.update_port(context, port["id"], {_PROFILE: _settled(port)})
                self._api.update_port(context, port["id"], {_PROFILE: {**_profile(port), _MIGRATING_TO: host}})

    def move(self, context: RequestContext, ports: Sequence[Json], host: str) -> list[Json]:
        """Each port is bound to ``host`` and nowhere else, by its waiting binding if it has one; a port that is deleted
        meanwhile is left out. Raises VirtDriverError."""
        found = [port if port.get(HOST) == host and port.get("binding:vif_type") != FAILED else self._moved(context, port, host)
                 for port in ports]
        return [port for port in found if port is not None]

    def _moved(self, context: RequestContext, port: Json, host: str) -> Json | None:
        source = port.get(HOST) or ""
        try:
            # a binding to this host that has failed is not moved, but tried again
            if source != host and self._api.activate_binding(context, port["id"], host):
                self._api.drop_waiting(context, port["id"])     # of its source, and what checks of other hosts have left
                # the new binding has a profile of its own, in which no move is named
                now = self._api.update_port(context, port["id"], {_PROFILE: _settled(port)})
            else:
                was_leaving = _MIGRATING_TO in _profile(port)       # by a live migration that was cut off
                if was_leaving:
                    self._api.drop_waiting(context, port["id"])
                now = self._api.update_port(context, port["id"], {
                    HOST: host, **({_PROFILE: _settled(port)} if was_leaving else {})})
        except exception.PortNotFound:
            now = None
        if now is not None and now.get("binding:vif_type") == FAILED:
            raise not_bound(port["id"], host)
        return now

    def forget(self, context: RequestContext, ports: Sequence[Json], host: str) -> None:
        """What ``expect`` and ``announce`` have made is not needed; the binding of where the guest is stays."""
        for port in ports:
            if port.get(HOST) == host:
                continue
            if self._api.delete_binding(context, port["id"], host) or _profile(port).get(_MIGRATING_TO) == host:
                self._tell(context, port)

    def _tell(self, context: RequestContext, port: Json) -> None:
        """The agents hear of the port as it is now."""
        try:
            self._api.update_port(context, port["id"], {_PROFILE: _settled(port)})
        except exception.PortNotFound:
            LOG.debug("port %s was deleted", port["id"])


def _profile(port: Json) -> Json:
    return port.get(_PROFILE) or {}


def _settled(port: Json) -> Json:
    """The profile of a port that is not on its way."""
    return {name: value for name, value in _profile(port).items() if name != _MIGRATING_TO}


def of_instance(ports: Sequence[Json], instance: Instance) -> list[Json]:
    """The ports of the server's nics, in their order; ports that are gone are left out."""
    found = {p["id"]: p for p in ports}
    return [found[vif.id] for vif in instance.network_info if vif.id in found]
