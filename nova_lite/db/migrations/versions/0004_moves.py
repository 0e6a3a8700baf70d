"""Servers move: the table of their migrations."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Make the table, unless a killed run did so before; its indexes come with it, each by itself."""
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("migrations"):
        op.create_table(
            "migrations",
            sa.Column("id", Id, primary_key=True, autoincrement=True),
            sa.Column("created_at", Time, nullable=False),
            sa.Column("updated_at", Time),
            sa.Column("uuid", sa.String(36), nullable=False),
            sa.Column("instance_uuid", sa.String(36), nullable=False),
            sa.Column("migration_type", sa.String(32), nullable=False),
            sa.Column("status", sa.String(32), nullable=False),
            *(sa.Column(name, sa.String(255))
              for name in ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")),
            *(sa.Column(name, sa.JSON(none_as_null=True)) for name in ("old_flavor", "new_flavor", "facts")),
            *(sa.Column(f"{what}_{part}", sa.BigInteger)
              for what in ("memory", "disk") for part in ("total", "processed", "remaining")),
            sa.Column("user_id", sa.String(255)),
            sa.Column("project_id", sa.String(255)),
            sa.UniqueConstraint("uuid", name="uq_migrations_uuid"))
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("migrations")}
    for name, columns in (("ix_migrations_instance_uuid", ["instance_uuid"]),
                          ("ix_migrations_status", ["status", "updated_at"]),
                          ("ix_migrations_created_at", ["created_at"])):
        if name not in there:
            op.create_index(name, "migrations", columns)
