"""Which conductor runs each periodic task. And an index by which the zone of one host is found."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """What is missing: a killed run may have made the table without the index."""
    there = sa.inspect(op.get_bind())
    if not there.has_table("periodic_tasks"):
        op.create_table(
            "periodic_tasks",
            sa.Column("name", sa.String(64), nullable=False),
            sa.Column("owner", sa.String(255)),
            sa.Column("lease_until", Time, nullable=False),
            sa.Column("last_run_at", Time),
            sa.PrimaryKeyConstraint("name", name="pk_periodic_tasks"),
            **OPTIONS)
    if "ix_aggregate_hosts_host" not in {index["name"] for index in there.get_indexes("aggregate_hosts")}:
        op.create_index("ix_aggregate_hosts_host", "aggregate_hosts", ["host"])
