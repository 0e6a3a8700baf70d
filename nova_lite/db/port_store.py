"""The embedded network's rows, as the API and the conductor read and write them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nova_lite.db import networks, port_groups
from nova_lite.db.core import Database
from nova_lite.db.group_changes import GroupChanges, Tell, tell_nobody
from nova_lite.db.server_security_groups import DatabaseGroups


class DatabasePortStore:
    """``network.base.PortStore`` where there is a database."""

    def __init__(self, db: Database, tell: Tell = tell_nobody) -> None:
        self.db = db
        self.groups = DatabaseGroups(GroupChanges(db, tell))

    def list_networks(self, project_id: str | None) -> list[dict[str, Any]]:
        with self.db.read() as c:
            return networks.list_networks(c, project_id)

    def check_requests(self, project_id: str, requests: list[dict[str, Any]], count: int) -> None:
        with self.db.read() as c:
            networks.check_requests(c, project_id, requests, count)

    def allocate_ports(self, instance_uuid: str, project_id: str, host: str,
                       requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return self.db.write(networks.allocate_ports, instance_uuid, project_id, host, requests)

    def release_ports(self, instance_uuid: str) -> None:
        self.db.write(networks.release_ports, instance_uuid)

    def release_port(self, instance_uuid: str, port_id: str | None, key: str | None) -> None:
        self.db.write(networks.release_port, instance_uuid, port_id, key)

    def move_ports(self, instance_uuid: str, host: str) -> None:
        self.db.write(networks.move_ports, instance_uuid, host)

    def list_server_ports(self, instance_uuid: str) -> list[dict[str, Any]]:
        with self.db.read() as c:
            return networks.list_server_ports(c, instance_uuid)

    def list_host_ports(self, host: str) -> list[dict[str, Any]]:
        with self.db.read() as c:
            return networks.list_host_ports(c, host)

    def rules_for(self, group_ids: Sequence[str]) -> dict[str, Any]:
        with self.db.read() as c:
            return port_groups.rules_for(c, group_ids)
