"""Tokens of consoles."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLE = "console_auth_tokens"
# the types are written out again: a migration must not change when models.py does
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Make the table and its indexes, unless a killed run did so before."""
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(TABLE):
        _make_table()
    known = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(TABLE)}
    for column in ("instance_uuid", "expires_at"):
        if f"ix_{TABLE}_{column}" not in known:
            op.create_index(f"ix_{TABLE}_{column}", TABLE, [column])


def _make_table() -> None:
    op.create_table(
        TABLE, sa.Column("id", Id, primary_key=True, autoincrement=True), sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time), sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False), sa.Column("compute_host", sa.String(255), nullable=False),
        sa.Column("console_type", sa.String(32), nullable=False), sa.Column("host", sa.String(255), nullable=False),
        sa.Column("port", sa.Integer, nullable=False), sa.Column("tls_port", sa.Integer),
        sa.Column("internal_access_path", sa.String(255)), sa.Column("expires_at", Time, nullable=False),
        sa.UniqueConstraint("token_hash", name=f"uq_{TABLE}_token_hash"),
        mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")
