"""What servers have used in a time: the rows that bills are made of, deleted servers included."""
from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, paging

T = models.instances
_COLUMNS = (T.c.uuid, T.c.project_id, T.c.display_name, T.c.vm_state, T.c.launched_at, T.c.terminated_at, T.c.flavor)
_EARLIEST = datetime.datetime(1970, 1, 1)      # MySQL knows no times of the first thousand years


def servers(conn: sa.Connection, begin: datetime.datetime, end: datetime.datetime, project_id: str | None = None,
            limit: int | None = None, marker: str | None = None) -> list[dict[str, Any]]:
    """The servers that ran at some time between ``begin`` and ``end`` (UTC), by project and uuid; those after the server
    ``marker`` only. Raises MarkerNotFound."""
    ran = sa.and_(T.c.launched_at < max(end, _EARLIEST),
                  sa.or_(T.c.terminated_at.is_(None), T.c.terminated_at > max(begin, _EARLIEST)))
    page, keys = sa.select(T.c.id).where(ran), [(T.c.project_id, "asc"), (T.c.uuid, "asc")]
    if project_id is not None:
        page, keys = page.where(T.c.project_id == project_id), keys[1:]
    after = None
    if marker is not None:
        row = conn.execute(sa.select(*(column for column, _ in keys)).where(T.c.uuid == marker)).first()
        if row is None:
            raise exception.MarkerNotFound(marker=marker)
        after = list(row)
    # an index has all that the page depends on; the rows of the page only are read
    found = paging.page(page, keys, conn.dialect.name, limit, after).subquery("page")
    query = sa.select(*_COLUMNS).join_from(T, found, found.c.id == T.c.id)
    return [dict(row._mapping) for row in conn.execute(query.order_by(*paging.order_by(keys, conn.dialect.name)))]
