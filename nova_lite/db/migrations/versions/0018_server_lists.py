"""Pages of lists, usage and the counts of quotas are found in indexes alone; addresses of servers as a text in one."""
import sqlalchemy as sa
from alembic import op

from nova_lite.db import addresses

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

INDEXES = {
    "instances": {
        "ix_instances_list": ["deleted", "created_at", "id", "uuid", "display_name", "addresses"],
        "ix_instances_project_list": ["project_id", "deleted", "created_at", "id", "uuid", "display_name", "addresses"],
        "ix_instances_display_name": ["deleted", "display_name", "created_at", "id"],
        "ix_instances_host": ["deleted", "host", "created_at", "id"],
        "ix_instances_vm_state": ["deleted", "vm_state", "created_at", "id"],
        "ix_instances_updated_at": ["updated_at", "deleted", "created_at", "id"],
        "ix_instances_usage": ["project_id", "uuid", "launched_at", "terminated_at"],
        "ix_instances_quotas": ["project_id", "deleted", "user_id", "vcpus", "memory_mb"],
    },
    "migrations": {"ix_migrations_source": ["source_compute"], "ix_migrations_dest": ["dest_compute"]},
}
REPLACED = {"instances": ["ix_instances_deleted", "ix_instances_project_id"], "migrations": []}
AT_ONCE = 1000


def upgrade() -> None:
    """What is missing: a killed run may have made a part."""
    if "addresses" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("instances")}:
        op.add_column("instances", sa.Column("addresses", sa.String(160), nullable=False, server_default=addresses.MANY))
    _fill()
    for table, wanted in INDEXES.items():
        there = {index["name"]: index["column_names"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        for name, columns in wanted.items():
            if there.get(name) == columns:
                continue
            if name in there:
                op.drop_index(name, table)
            op.create_index(name, table, columns)
        for name in REPLACED[table]:
            if name in there:
                op.drop_index(name, table)


def _fill() -> None:
    table = sa.table("instances", sa.column("id"), sa.column("network_info", sa.JSON), sa.column("addresses"))
    last, bind = 0, op.get_bind()
    while rows := bind.execute(sa.select(table.c.id, table.c.network_info).where(
            table.c.id > last, table.c.addresses == addresses.MANY).order_by(table.c.id).limit(AT_ONCE)).all():
        bind.execute(sa.update(table).where(table.c.id == sa.bindparam("number")).values(addresses=sa.bindparam("text")),
                     [{"number": row.id, "text": addresses.text(row.network_info)} for row in rows])
        last = rows[-1].id
