"""Floating IPs in Neutron."""
from __future__ import annotations

from collections.abc import Sequence

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, by_key
from nova_lite.objects.network import FloatingIP

_POOL = ["id", "name"]


class FloatingIPs:
    """All calls use the token of the caller; a list costs three calls, however long it is."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def pools(self, context: RequestContext) -> list[str]:
        """See FloatingIPsAPI: the external networks."""
        return [network["name"] or network["id"] for network in self._external(context)]

    def list_all(self, context: RequestContext) -> list[FloatingIP]:
        """See FloatingIPsAPI."""
        return self._made(context, self._api.list(context, "floatingips", project_id=context.project_id))

    def get(self, context: RequestContext, floating_id: str) -> FloatingIP:
        """See FloatingIPsAPI."""
        return self._made(context, [self._api.get(context, "floatingips", floating_id)])[0]

    def find(self, context: RequestContext, address: str) -> FloatingIP:
        """See FloatingIPsAPI. Raises Conflict when two networks have the address."""
        found = self._api.list(context, "floatingips", floating_ip_address=address)
        if not found:
            raise exception.NotFound(f"floating IP not found: {address}")
        if len(found) > 1:
            raise exception.Conflict(f"Multiple floating IPs are found for address {address}.")
        return self._made(context, found)[0]

    def create(self, context: RequestContext, pool: str | None) -> FloatingIP:
        """See FloatingIPsAPI."""
        networks = self._external(context)
        chosen = [n for n in networks if pool is None or pool == n["id"]] or [n for n in networks if pool == n["name"]]
        if len(chosen) != 1:
            raise exception.NotFound(f"Floating IP pool not found: {pool}" if pool or not chosen
                                     else "Floating IP pool not found: there are several, so that one has to be named.")
        made = self._api.create(context, "floatingips", {"floating_network_id": chosen[0]["id"]})
        return self._made(context, [made])[0]

    def delete(self, context: RequestContext, floating_id: str) -> None:
        """See FloatingIPsAPI."""
        self._api.delete(context, "floatingips", floating_id)

    def associate(self, context: RequestContext, floating_id: str, port_id: str | None, fixed_address: str | None) -> None:
        """See FloatingIPsAPI."""
        values = {"port_id": port_id, **({"fixed_ip_address": fixed_address} if fixed_address else {})}
        self._api.update(context, "floatingips", floating_id, values)

    def _external(self, context: RequestContext) -> Sequence[Json]:
        return self._api.list(context, "networks", fields=_POOL, **{"router:external": True})

    def _made(self, context: RequestContext, rows: Sequence[Json]) -> list[FloatingIP]:
        networks = by_key(self._api.by_ids(context, "networks", {row["floating_network_id"] for row in rows}, fields=_POOL),
                          "id")
        ports = by_key(self._api.by_ids(context, "ports", {row["port_id"] for row in rows if row.get("port_id")},
                                        fields=["id", "device_id"]), "id")
        return [_floating(row, networks.get(row["floating_network_id"]), ports.get(row.get("port_id") or "")) for row in rows]


def _floating(row: Json, network: Json | None, port: Json | None) -> FloatingIP:
    pool = (network["name"] if network else "") or row["floating_network_id"]
    return FloatingIP(row["id"], row["floating_ip_address"], pool, row.get("fixed_ip_address"), row.get("port_id"),
                      (port["device_id"] if port else "") or None)
