"""A database with hosts in it, for the tests of claims and scheduler."""
import os
import uuid
from pathlib import Path

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.db import core, hosts, models
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.scheduling import RequestSpec
from tests.unit.db.databases import make_tables

# SQLite always; MariaDB and PostgreSQL too where somebody gives an empty database of theirs
URLS = ["sqlite", *os.environ.get("NOVA_LITE_TEST_DATABASES", "").split()]


class Hosts:
    """Compute nodes and services, as the conductor writes them."""

    def __init__(self, url: str, directory: Path, **options):
        url = f"sqlite:///{directory}/nova.sqlite" if url == "sqlite" else url
        file = directory / "nova-lite.conf"
        file.write_text("[DEFAULT]\ntransport_url = in-process://\n")
        self.conf = nova_conf.load([], config_files=[str(file)], database__connection=url, database__max_pool_size=20,
                                   **options)
        self.db = core.Database(self.conf)
        if self.db.engine.dialect.name == "sqlite":
            make_tables(url)
        else:
            models.metadata.drop_all(self.db.engine)
            models.metadata.create_all(self.db.engine)

    def close(self):
        self.db.dispose()

    def add(self, host, vcpus=16, memory_mb=65536, local_gb=1000, ratio=1.0, node=None, **inventory):
        values = {"hypervisor_hostname": node or host, "hypervisor_type": "QEMU", "hypervisor_version": 7002000,
                  "vcpus": vcpus, "memory_mb": memory_mb, "local_gb": local_gb,
                  "supported_instances": [["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]], **inventory}
        node_id = self.db.write(hosts.upsert_node, host, values, {"cpu": ratio, "ram": 1.0, "disk": 1.0})
        self.db.write(self._service, host)
        return node_id

    def _service(self, conn, host):
        services = models.services
        if conn.scalar(sa.select(services.c.id).where(services.c.host == host)) is None:
            now = units.utcnow()
            conn.execute(sa.insert(services).values(uuid=str(uuid.uuid4()), host=host, binary="nova-compute", created_at=now,
                                                    updated_at=now, last_seen_at=now))

    def run(self, statement):
        """Execute one statement and commit."""
        return self.db.write(lambda conn: conn.execute(statement).rowcount)

    def service(self, host, **values):
        self.run(sa.update(models.services).where(models.services.c.host == host)
                 .values(updated_at=units.utcnow(), **values))

    def group(self, policy, members, **rules):
        group = {"uuid": str(uuid.uuid4()), "policy": policy, "rules": rules}
        self.run(sa.insert(models.server_groups).values(created_at=units.utcnow(), project_id="p", user_id="u", name="g",
                                                        **group))
        for member in members:
            self.run(sa.insert(models.server_group_members).values(group_uuid=group["uuid"], instance_uuid=member))
        return group

    def used(self):
        """host -> (vcpus_used, memory_mb_used, local_gb_used, instances_used)."""
        table = models.compute_nodes
        with self.db.read() as conn:
            return {r[0]: tuple(r[1:]) for r in conn.execute(sa.select(
                table.c.host, table.c.vcpus_used, table.c.memory_mb_used, table.c.local_gb_used, table.c.instances_used))}

    def allocated(self):
        """host -> the same four numbers, summed up from the allocations."""
        held, nodes = models.allocations, models.compute_nodes
        with self.db.read() as conn:
            return {r[0]: tuple(int(n) for n in r[1:]) for r in conn.execute(sa.select(
                nodes.c.host, *(sa.func.coalesce(sa.func.sum(held.c[n]), 0) for n in ("vcpus", "memory_mb", "disk_gb")),
                sa.func.count(held.c.id)).outerjoin(held, held.c.compute_node_id == nodes.c.id).group_by(nodes.c.host))}


def uuids(count):
    return [str(uuid.uuid4()) for _ in range(count)]


def spec(vcpus=1, memory_mb=1024, root_gb=10, extra_specs=None, **fields):
    return RequestSpec(flavor=Flavor(flavorid="1", name="small", vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb,
                                     extra_specs=extra_specs or {}), project_id="p", **fields)
