"""Pages of a list: what follows the marker in the order asked for."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa


def page(query: sa.Select, keys: Sequence[tuple[sa.ColumnElement, str]], limit: int | None = None,
         marker: Sequence[Any] | None = None) -> sa.Select:
    """Order ``query`` by ``keys``, pairs of (column, "asc" or "desc") of which the last is unique, and cut it.

    ``marker``: the values of the keys in the row after which the page begins. NULL sorts before everything.
    """
    for column, direction in keys:
        if getattr(column, "nullable", True):       # databases disagree on where NULL belongs
            rank = sa.case((column.is_(None), 0), else_=1)
            query = query.order_by(rank.desc() if direction == "desc" else rank)
        query = query.order_by(column.desc() if direction == "desc" else column)
    if marker is not None:
        equal: list[sa.ColumnElement[bool]] = []
        after: list[sa.ColumnElement[bool]] = []
        for (column, direction), value in zip(keys, marker, strict=True):
            after.append(sa.and_(*equal, _beyond(column, direction, value)))
            equal.append(column.is_(None) if value is None else column == value)
        query = query.where(sa.or_(*after))
    return query if limit is None else query.limit(limit)


def _beyond(column: sa.ColumnElement, direction: str, value: Any) -> sa.ColumnElement[bool]:
    if direction == "desc":
        return sa.false() if value is None else sa.or_(column < value, column.is_(None))
    return column.is_not(None) if value is None else column > value
