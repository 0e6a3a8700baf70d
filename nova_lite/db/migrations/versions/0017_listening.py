"""Services of conductors say in which time they received the reports of compute hosts."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """A killed run may have made one of the columns."""
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("services")}
    for column in (sa.Column("listening_since", Time), sa.Column("listened_until", Time)):
        if column.name not in there:
            op.add_column("services", column)
