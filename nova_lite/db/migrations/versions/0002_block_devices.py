"""Servers have block devices; ratios are kept in double precision on MySQL, too."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DOUBLES = {"compute_nodes": ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
           "flavors": ("rxtx_factor",)}


def upgrade() -> None:
    """Add the column, unless a killed run did so before. The other kinds of database hold doubles already."""
    bind = op.get_bind()
    if "block_devices" not in {column["name"] for column in sa.inspect(bind).get_columns("instances")}:
        op.add_column("instances", sa.Column("block_devices", sa.JSON(none_as_null=True)))
    if bind.dialect.name in ("mysql", "mariadb"):
        for table, columns in DOUBLES.items():
            for column in columns:
                op.alter_column(table, column, type_=mysql.DOUBLE(), existing_type=sa.Float, nullable=False)
