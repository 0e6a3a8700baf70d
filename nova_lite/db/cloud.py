"""The one row that says which cloud this database is of. The migration makes it, and nothing changes it."""
from __future__ import annotations

import sqlalchemy as sa

from nova_lite.db import models


def find_id(conn: sa.Connection) -> str | None:
    """The id of the cloud; None when its row was removed."""
    return conn.scalar(sa.select(models.cloud.c.uuid))
