"""The embedded network's rows, as a compute host reads and writes them: through the conductor."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nova_lite.context import admin_context
from nova_lite.rpc.conductor import ConductorAPI


class RpcPortStore:
    """See :class:`nova_lite.network.base.PortStore`."""

    groups = None

    def __init__(self, conductor: ConductorAPI) -> None:
        self._conductor = conductor

    def list_networks(self, project_id: str | None) -> list[dict[str, Any]]:
        """Networks that the project may use."""
        return self._conductor.list_networks(admin_context(), project_id)

    def check_requests(self, project_id: str, requests: list[dict[str, Any]], count: int) -> None:
        """Nothing: the API has checked the requests. Here ``allocate_ports`` raises for a wrong request."""

    def allocate_ports(self, instance_uuid: str, project_id: str, host: str,
                       requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ports for a server."""
        return self._conductor.allocate_ports(admin_context(), instance_uuid, project_id, host, requests)

    def release_ports(self, instance_uuid: str) -> None:
        """Give them back."""
        self._conductor.release_ports(admin_context(), instance_uuid)

    def release_port(self, instance_uuid: str, port_id: str | None, key: str | None) -> None:
        """Give one back."""
        self._conductor.release_port(admin_context(), instance_uuid, port_id, key)

    def move_ports(self, instance_uuid: str, host: str) -> None:
        """Bind all ports of a server to another host."""
        self._conductor.move_ports(admin_context(), instance_uuid, host)

    def list_server_ports(self, instance_uuid: str) -> list[dict[str, Any]]:
        """All ports of a server."""
        return self._conductor.list_server_ports(admin_context(), instance_uuid)

    def list_host_ports(self, host: str) -> list[dict[str, Any]]:
        """All ports of a host."""
        return self._conductor.list_host_ports(admin_context(), host)

    def rules_for(self, group_ids: Sequence[str]) -> dict[str, Any]:
        """The rules of security groups."""
        return self._conductor.rules_for(admin_context(), group_ids)
