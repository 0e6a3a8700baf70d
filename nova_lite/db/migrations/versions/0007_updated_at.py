"""Servers have updated_at from the first, so that lists of changes find it by an index; indexes for tags and ports."""
import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

INDEXES = (("ix_instances_project_updated", "instances", ["project_id", "updated_at"]),
           ("ix_instance_tags_tag", "instance_tags", ["tag"]),
           ("ix_ports_address", "ports", ["address"]), ("ix_ports_host", "ports", ["host"]))


def upgrade() -> None:
    """Make the indexes that a killed run has not made, and fill what has no time."""
    for name, table, columns in INDEXES:
        if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
            op.create_index(name, table, columns)
    servers = sa.table("instances", sa.column("created_at"), sa.column("updated_at"))
    op.execute(sa.update(servers).where(servers.c.updated_at.is_(None)).values(updated_at=servers.c.created_at))
