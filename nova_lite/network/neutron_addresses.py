"""More addresses for the ports of a server in Neutron, and fewer."""
from __future__ import annotations

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, NeutronRefusal
from nova_lite.objects.instance import Instance

_FIELDS = ["id", "network_id", "fixed_ips", "revision_number"]


class Addresses:
    """Ports are found as those of the server, and changed as the service user, whom Neutron lets change bound ports."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def add(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """One more address of the first subnet with a free one, for the server's first nic on the network."""
        ports = [p for p in self._ports(context, instance) if p["network_id"] == network_id]
        if not ports:
            raise exception.Invalid(f"Instance {instance.uuid} has no nic on network {network_id}.")
        refused: Exception = exception.NoMoreFixedIps(net=network_id)
        for subnet in self._api.list(context, "subnets", network_id=network_id, fields=["id"]):
            try:
                self._set(context, ports[0], [*ports[0]["fixed_ips"], {"subnet_id": subnet["id"]}])
                return
            except (exception.NoMoreFixedIps, NeutronRefusal) as error:
                refused = error
        raise exception.Invalid(str(refused)) from refused

    def remove(self, context: RequestContext, instance: Instance, address: str) -> None:
        """The address goes; the nic stays."""
        for port in self._ports(context, instance):
            left = [a for a in port["fixed_ips"] if a["ip_address"] != address]
            if len(left) < len(port["fixed_ips"]):
                self._set(context, port, left)
                return
        raise exception.FixedIpNotFoundForInstance(instance_uuid=instance.uuid, ip=address)

    def _ports(self, context: RequestContext, instance: Instance) -> list[Json]:
        order = [vif.id for vif in instance.network_info]
        found = [p for p in self._api.list(context, "ports", device_id=instance.uuid, fields=_FIELDS) if p["id"] in order]
        return sorted(found, key=lambda port: order.index(port["id"]))

    def _set(self, context: RequestContext, port: Json, addresses: list[Json]) -> None:
        self._api.update_port(context, port["id"], {"fixed_ips": addresses}, port.get("revision_number"))
