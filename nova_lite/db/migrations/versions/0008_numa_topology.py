"""Hosts tell their NUMA nodes."""
import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, unless a killed run did so before."""
    if "numa_topology" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("compute_nodes")}:
        op.add_column("compute_nodes", sa.Column("numa_topology", sa.JSON(none_as_null=True)))
