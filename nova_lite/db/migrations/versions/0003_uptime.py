"""Compute nodes say how long their host runs."""
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, unless a killed run did so before."""
    if "uptime" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("compute_nodes")}:
        op.add_column("compute_nodes", sa.Column("uptime", sa.String(255)))
