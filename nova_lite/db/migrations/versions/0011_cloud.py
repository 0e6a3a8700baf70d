"""The id of the cloud, by which services tell their own broker from another cloud's."""
import datetime
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """What is missing: a killed run may have made the table and not the row."""
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("cloud"):
        op.create_table(
            "cloud",
            sa.Column("uuid", sa.String(36), nullable=False),
            sa.Column("created_at", Time, nullable=False),
            sa.PrimaryKeyConstraint("uuid", name="pk_cloud"),
            **OPTIONS)
    table = sa.table("cloud", sa.column("uuid", sa.String), sa.column("created_at", sa.DateTime))
    if connection.scalar(sa.select(sa.func.count()).select_from(table)) == 0:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        connection.execute(sa.insert(table).values(uuid=str(uuid.uuid4()), created_at=now))
