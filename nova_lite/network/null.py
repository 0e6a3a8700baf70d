"""No network: guests without nics."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network import default_group
from nova_lite.network.base import FloatingIPsAPI, GroupsAPI, PortStore, Requests, Wanted
from nova_lite.network.default_group import DefaultGroup
from nova_lite.network.no_floating_ips import NoFloatingIPs
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, NetworkRequest, PortState


class NullNetwork:
    """``network.base.NetworkAPI`` without any network: auto and none are fine, a named one is not there."""

    def __init__(self, conf: cfg.ConfigOpts, store: PortStore | None) -> None:
        self.groups: GroupsAPI = DefaultGroup()
        self.floating_ips: FloatingIPsAPI = NoFloatingIPs()

    def validate(self, context: RequestContext, requests: Requests, count: int,
                 security_groups: Sequence[str] = ("default",), may_use_external: bool = False,
                 server: Instance | None = None) -> Wanted:
        """See NetworkAPI."""
        default_group.names(server.project_id if server else context.project_id or "", security_groups)
        if not requests or requests in ("auto", "none"):
            return Wanted(requests)
        for request in requests:
            if not isinstance(request, NetworkRequest):
                raise exception.InvalidInput(reason=f"networks: {requests!r} is neither auto nor none")
            if request.port_id:
                raise exception.PortNotFound(port_id=request.port_id)
            if request.network_id:
                raise exception.NetworkNotFound(network_id=request.network_id)
        return Wanted(requests)

    def list_networks(self, context: RequestContext) -> list[dict[str, Any]]:
        """None."""
        return []

    def allocate(self, context: RequestContext, instance: Instance, requests: Requests, host: str) -> list[VIF]:
        """No nic."""
        return []

    def deallocate(self, context: RequestContext, instance: Instance) -> None:
        """Nothing was taken."""

    def attach(self, context: RequestContext, instance: Instance, request: NetworkRequest, host: str) -> VIF:
        """There is nothing to attach to."""
        raise exception.NetworkNotFound(network_id=request.network_id or "")

    def detach(self, context: RequestContext, instance: Instance, vif: VIF) -> None:
        """Nothing was taken."""

    def abandon(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> None:
        """Nothing was taken."""

    def add_address(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """There is none to be had."""
        raise exception.Invalid("There is no network here.")

    def remove_address(self, context: RequestContext, instance: Instance, address: str) -> None:
        """There is none to spare."""
        raise exception.Invalid("There is no network here.")

    def refresh(self, context: RequestContext, instance: Instance) -> list[VIF]:
        """No nic."""
        return []

    def move(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """No nic."""
        return []

    def expect(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """No nic."""
        return []

    def announce(self, context: RequestContext, instance: Instance, host: str) -> None:
        """No nic."""

    def forget(self, context: RequestContext, instance: Instance, host: str) -> None:
        """Nothing was expected."""

    def host_ports(self, context: RequestContext, host: str) -> Mapping[str, Mapping[str, PortState]]:
        """Nothing."""
        return {}

    def port_states(self, context: RequestContext, port_ids: Sequence[str]) -> dict[str, str]:
        """No port."""
        return {}

    def servers_with_ports(self, context: RequestContext, uuids: Sequence[str]) -> set[str]:
        """No port."""
        return set()

    def check_host(self) -> None:
        """Nothing is needed."""

    def init_host(self, host: str) -> None:
        """Nothing to make."""

    def refresh_filters(self) -> None:
        """Nothing to filter."""

    def plug(self, instance: Instance, vif: VIF) -> None:
        """Nothing to make."""

    def unplug(self, instance: Instance, vif: VIF) -> None:
        """Nothing to remove."""
