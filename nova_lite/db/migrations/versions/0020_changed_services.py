"""Schedulers find the services that changed in an index."""
import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

NAME, COLUMNS = "ix_services_binary", ["binary", "updated_at"]


def upgrade() -> None:
    """What is missing: a killed run may have made a part."""
    there = {index["name"]: index["column_names"] for index in sa.inspect(op.get_bind()).get_indexes("services")}
    if there.get(NAME) != COLUMNS:
        if NAME in there:
            op.drop_index(NAME, "services")
        op.create_index(NAME, "services", COLUMNS)
