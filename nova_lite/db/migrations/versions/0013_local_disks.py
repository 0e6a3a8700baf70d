"""Local disks forget the bus and the file system that earlier versions took and did not honour: their guests have others."""
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

BATCH = 500
SERVERS = sa.table("instances", sa.column("id", sa.BigInteger), sa.column("block_devices", sa.JSON(none_as_null=True)))


def upgrade() -> None:
    """Batch by batch. No service runs meanwhile, so a run that was killed is run again."""
    conn, last = op.get_bind(), 0
    columns, number = (SERVERS.c.id, SERVERS.c.block_devices), SERVERS.c.id
    while rows := conn.execute(sa.select(*columns).where(number > last).order_by(number).limit(BATCH)).all():
        for row in rows:
            kept = [_without_what_had_no_effect(device) for device in row.block_devices or ()]
            if kept != (row.block_devices or []):
                conn.execute(sa.update(SERVERS).where(number == row.id).values(block_devices=kept))
        last = rows[-1].id


def _without_what_had_no_effect(device: dict[str, Any]) -> dict[str, Any]:
    if device.get("destination_type") != "local":
        return device
    return {**device, "disk_bus": None, "guest_format": "swap" if device.get("guest_format") == "swap" else None}
