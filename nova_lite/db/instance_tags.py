"""The tags of a server."""
from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models

MAX_TAGS = 50
_T = models.instance_tags


def get(connection: sa.Connection, uuid: str) -> list[str]:
    """The tags of one server, sorted."""
    return list(connection.execute(sa.select(_T.c.tag).where(_T.c.instance_uuid == uuid).order_by(_T.c.tag)).scalars())


def add(connection: sa.Connection, uuid: str, tag: str) -> bool:
    """Give a server a tag; False when it has it already."""
    values = {"instance_uuid": uuid, "tag": tag}
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # a MiB that other databases do not need

        statement: sa.Insert = postgresql.insert(_T).values(values).on_conflict_do_nothing()
    else:
        statement = sa.insert(_T).values(values).prefix_with("OR IGNORE", dialect="sqlite").prefix_with(
            "IGNORE", dialect="mysql")
    added = connection.execute(statement).rowcount == 1
    if added:
        _touch(connection, uuid)
    return added


def replace(connection: sa.Connection, uuid: str, tags: Iterable[str]) -> list[str]:
    """Make ``tags`` the only tags of a server; returns them sorted."""
    wanted = sorted(set(tags))
    connection.execute(sa.delete(_T).where(_T.c.instance_uuid == uuid))
    if wanted:
        connection.execute(sa.insert(_T), [{"instance_uuid": uuid, "tag": tag} for tag in wanted])
    _touch(connection, uuid)
    return wanted


def remove(connection: sa.Connection, uuid: str, tag: str) -> bool:
    """Take a tag from a server; False when it does not have it."""
    removed = connection.execute(sa.delete(_T).where(_T.c.instance_uuid == uuid, _T.c.tag == tag)).rowcount == 1
    if removed:
        _touch(connection, uuid)
    return removed


def _touch(connection: sa.Connection, uuid: str) -> None:
    connection.execute(sa.update(models.instances).where(models.instances.c.uuid == uuid).values(
        updated_at=units.utcnow()))
