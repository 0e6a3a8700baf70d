"""PCI devices of hosts, which servers claim with their room."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# the types are written out again: a migration must not change when models.py does
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """What is missing: a killed run may have made some of it."""
    there = sa.inspect(op.get_bind())
    if "pci_devices" not in {column["name"] for column in there.get_columns("compute_nodes")}:
        op.add_column("compute_nodes", sa.Column("pci_devices", sa.JSON(none_as_null=True)))
    if "pci_devices" not in {column["name"] for column in there.get_columns("allocations")}:
        op.add_column("allocations", sa.Column("pci_devices", sa.Integer, nullable=False, server_default="0"))
    if not there.has_table("pci_devices"):
        op.create_table(
            "pci_devices",
            sa.Column("id", Id, autoincrement=True, nullable=False),
            sa.Column("created_at", Time, nullable=False), sa.Column("updated_at", Time),
            sa.Column("compute_node_id", Id, nullable=False),
            sa.Column("address", sa.String(16), nullable=False),
            sa.Column("vendor_id", sa.String(4), nullable=False),
            sa.Column("product_id", sa.String(4), nullable=False),
            sa.Column("dev_type", sa.String(8), nullable=False),
            sa.Column("numa_node", sa.Integer), sa.Column("parent", sa.String(16)),
            sa.Column("gone", sa.Boolean, nullable=False), sa.Column("consumer", sa.String(36)),
            sa.PrimaryKeyConstraint("id", name="pk_pci_devices"),
            sa.UniqueConstraint("compute_node_id", "address", name="uq_pci_devices_compute_node_id_address"),
            **OPTIONS)
    indexes = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("pci_devices")}
    if "ix_pci_devices_consumer" not in indexes:
        op.create_index("ix_pci_devices_consumer", "pci_devices", ["consumer"])
