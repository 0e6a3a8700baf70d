"""Lists of living servers leave out those in soft-delete: the indexes of lists say the state too."""
import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

INDEXES = {
    "ix_instances_list": ["deleted", "created_at", "id", "uuid", "display_name", "addresses", "vm_state"],
    "ix_instances_project_list": ["project_id", "deleted", "created_at", "id", "uuid", "display_name", "addresses", "vm_state"],
    "ix_instances_display_name": ["deleted", "display_name", "created_at", "id", "vm_state"],
    "ix_instances_host": ["deleted", "host", "created_at", "id", "vm_state"],
    "ix_instances_updated_at": ["updated_at", "deleted", "created_at", "id", "vm_state"],
}


def upgrade() -> None:
    """What is missing: a killed run may have made a part."""
    there = {index["name"]: index["column_names"] for index in sa.inspect(op.get_bind()).get_indexes("instances")}
    for name, columns in INDEXES.items():
        if there.get(name) != columns:
            if name in there:
                op.drop_index(name, "instances")
            op.create_index(name, "instances", columns)
