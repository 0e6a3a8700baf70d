"""What the tests of servers share: a cloud with an image, a network and a host, and bodies that work there."""
from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa

from nova_lite.context import RequestContext
from nova_lite.db import instances, models, networks, sealed
from tests.unit.api.compute.conftest import Client, Cloud

# a version at which each view or body changes, and the newest
VERSIONS = ("2.1", "2.3", "2.9", "2.16", "2.19", "2.26", "2.37", "2.42", "2.47", "2.52", "2.57", "2.63", "2.71", "2.73", "2.74",
            "2.75", "2.90", "2.94", "2.96", "2.98", "2.100", "2.104")


class Servers:
    """A cloud that can take servers; nothing works on them, so they stay as the test sets them."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        context = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
        images = cloud.services.image
        made = images.create(context, {"name": "tiny", "visibility": "public", "properties": {"os_distro": "debian"}})
        self.image = images.upload(context, made.id, [b"x" * 512]).id
        self.flavor = cloud.add_flavor("m1.tiny", extra_specs={"hw:x": "1"}).flavorid
        self.network = cloud.db.write(networks.create_network, "net1", "192.0.2.0/24")["uuid"]
        cloud.add_service("host1")
        cloud.add_node("host1")

    def body(self, **values: Any) -> dict[str, Any]:
        """A body for POST /servers that is valid below 2.37."""
        return {"server": {"name": "vm", "imageRef": self.image, "flavorRef": self.flavor, **values}}

    def create(self, client: Client, **values: Any) -> str:
        """A server by the API, whatever the client's version; its uuid."""
        return client.at("2.1").post("/servers", self.body(**values), 202)["server"]["id"]

    def active(self, client: Client, **values: Any) -> str:
        """A server that its host has built."""
        uuid_ = self.create(client, **values)
        self.set(uuid_, vm_state="active", task_state=None, power_state=1, host="host1", node="host1",
                 launched_at=sa.func.now(), availability_zone="nova", network_info=[self.vif()])
        return uuid_

    def vif(self, address: str = "192.0.2.5") -> dict[str, Any]:
        """A nic as the network caches it."""
        version = 6 if ":" in address else 4
        return {"id": str(uuid.uuid4()), "network_id": self.network, "network_name": "private", "type": "bridge",
                "mac_address": "fa:16:3e:00:00:01", "devname": "tap1", "details": {},
                "fixed_ips": [{"address": address, "version": version, "cidr": "192.0.2.0/24", "floating_ips": []}]}

    def set(self, server: str, **values: Any) -> None:
        """Columns of a server, as a worker would set them."""
        self.cloud.db.write(lambda c: c.execute(
            sa.update(models.instances).where(models.instances.c.uuid == server).values(**instances.to_columns(values))))

    def row(self, server: str) -> dict[str, Any]:
        """The whole row."""
        with self.cloud.db.read() as connection:
            return dict(connection.execute(sa.select(models.instances).where(
                models.instances.c.uuid == server)).mappings().one())

    def actions(self, server: str) -> list[dict[str, Any]]:
        """The rows of its actions, oldest first, with the secrets that their workers get."""
        table = models.instance_actions
        with self.cloud.db.read() as connection:
            return [{**row, "arguments": sealed.unseal(connection, row["arguments"])} for row in connection.execute(
                sa.select(table).where(table.c.instance_uuid == server).order_by(table.c.id)).mappings()]
