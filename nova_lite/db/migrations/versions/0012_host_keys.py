"""Which keys compute hosts have, and the nonces of signed messages."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """What is missing: a killed run may have made one of the tables, or one without its index."""
    there = sa.inspect(op.get_bind())
    if not there.has_table("host_keys"):
        op.create_table(
            "host_keys",
            sa.Column("host", sa.String(255), nullable=False),
            sa.Column("generation", sa.Integer, nullable=False, autoincrement=False),
            sa.Column("created_at", Time, nullable=False),
            sa.Column("revoked_at", Time),
            sa.PrimaryKeyConstraint("host", "generation", name="pk_host_keys"),
            **OPTIONS)
    if not there.has_table("rpc_nonces"):
        op.create_table(
            "rpc_nonces",
            sa.Column("nonce", sa.String(64), nullable=False),
            sa.Column("expires_at", sa.BigInteger, nullable=False),
            sa.PrimaryKeyConstraint("nonce", name="pk_rpc_nonces"),
            **OPTIONS)
        there = sa.inspect(op.get_bind())
    if "ix_rpc_nonces_expires_at" not in {index["name"] for index in there.get_indexes("rpc_nonces")}:
        op.create_index("ix_rpc_nonces_expires_at", "rpc_nonces", ["expires_at"])
