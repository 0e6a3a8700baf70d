"""Pages of a list: what follows the marker in the order asked for. NULL is the smallest value."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

Keys = Sequence[tuple[sa.ColumnElement, str]]
"""Pairs of (column, "asc" or "desc"). The last column is unique."""


def page(query: sa.Select, keys: Keys, dialect: str, limit: int | None = None,
         marker: Sequence[Any] | None = None) -> sa.Select:
    """Order ``query`` by ``keys``, and cut it. ``dialect`` is the name of the database's.

    ``marker``: the values of the keys in the row after which the page begins.
    """
    if marker is not None:
        query = query.where(*_after(keys, marker))
    query = query.order_by(*order_by(keys, dialect))
    return query if limit is None else query.limit(limit)


def order_by(keys: Keys, dialect: str) -> list[sa.ColumnElement]:
    """MariaDB, MySQL and SQLite sort NULL first, and have no words for it; PostgreSQL sorts it last."""
    expressions: list[sa.ColumnElement] = []
    for column, direction in keys:
        one = column.desc() if direction == "desc" else column.asc()
        if dialect == "postgresql" and getattr(column, "nullable", True):
            one = one.nulls_last() if direction == "desc" else one.nulls_first()
        expressions.append(one)
    return expressions


def equals(column: sa.ColumnElement, value: Any) -> sa.ColumnElement[bool]:
    """``value`` None stands for NULL."""
    return column.is_(None) if value is None else column == value


def _after(keys: Keys, values: Sequence[Any]) -> list[sa.ColumnElement[bool]]:
    """The rows behind ``values``: (a after A) or (a = A and b after B) or ... That a is not before A is said once more: the
    databases do not find the beginning of the page in an index otherwise."""
    ways: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for (column, direction), value in zip(keys, values, strict=True):
        ways.append(sa.and_(*equal, _beyond(column, direction, value)))
        equal.append(equals(column, value))
    return [*_not_before(*keys[0], values[0]), sa.or_(*ways)]


def _not_before(column: sa.ColumnElement, direction: str, value: Any) -> list[sa.ColumnElement[bool]]:
    if isinstance(value, bool):
        return []
    if direction == "desc":
        return [column.is_(None) if value is None else _or_null(column, column <= value)]
    return [] if value is None else [column >= value]


def _beyond(column: sa.ColumnElement, direction: str, value: Any) -> sa.ColumnElement[bool]:
    if isinstance(value, bool):
        number = sa.case((column.is_(True), 1), else_=0)
        return number < int(value) if direction == "desc" else number > int(value)
    if direction == "desc":
        return sa.false() if value is None else _or_null(column, column < value)
    return column.is_not(None) if value is None else column > value


def _or_null(column: sa.ColumnElement, compared: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.or_(compared, column.is_(None)) if getattr(column, "nullable", True) else compared
