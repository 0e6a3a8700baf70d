"""The sweeper finds servers in a transient state by an index, however many servers there are."""
import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

INDEXES = {"ix_instances_task_state": ["deleted", "task_state"], "ix_instances_vm_state": ["deleted", "vm_state"]}


def upgrade() -> None:
    """What is missing: a killed run may have made one of them."""
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("instances")}
    for name, columns in INDEXES.items():
        if name not in there:
            op.create_index(name, "instances", columns)
