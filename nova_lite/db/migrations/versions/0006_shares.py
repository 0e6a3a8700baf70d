"""Servers have shares of files."""
import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, unless a killed run did so before."""
    if "shares" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("instances")}:
        op.add_column("instances", sa.Column("shares", sa.JSON(none_as_null=True)))
