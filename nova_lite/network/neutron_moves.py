"""Ports of a server that moves to another host. A running one needs them on two hosts at once: Neutron has a second binding for
that, which is inactive until the guest has arrived."""
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


class PortMoves:
    """All calls are made as the service user; each can be made twice."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def expect(self, context: RequestContext, ports: Sequence[Json], host: str) -> list[Json]:
        """The ports as they will be on ``host``, where each gets an inactive binding. Raises VirtDriverError for one that
        Neutron cannot bind there, and NeutronRefusal where it does not know bindings (the extension binding-extended)."""
        return [{**port, **self._expected(context, port, host)} if port.get(HOST) != host else port for port in ports]

    def _expected(self, context: RequestContext, port: Json, host: str) -> Json:
        known = [b for b in self._api.bindings(context, port["id"]) if b["host"] == host]
        binding = known[0] if known else self._api.add_binding(context, port["id"], host, port.get("binding:vnic_type"))
        return {"binding:vif_type": binding.get("vif_type"), "binding:vif_details": binding.get("vif_details")}

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
                now = next(iter(self._api.list(context, "ports", id=port["id"])), None)
            else:
                now = self._api.update_port(context, port["id"], {HOST: host})
        except exception.PortNotFound:
            now = None
        if now is not None and now.get("binding:vif_type") == FAILED:
            raise not_bound(port["id"], host)
        return now

    def forget(self, context: RequestContext, ports: Sequence[Json], host: str) -> None:
        """What ``expect`` has made is not needed; the binding of where the guest is stays."""
        for port in ports:
            if port.get(HOST) != host:
                self._api.delete_binding(context, port["id"], host)


def of_instance(ports: Sequence[Json], instance: Instance) -> list[Json]:
    """The ports of the server's nics, in their order; ports that are gone are left out."""
    found = {p["id"]: p for p in ports}
    return [found[vif.id] for vif in instance.network_info if vif.id in found]
