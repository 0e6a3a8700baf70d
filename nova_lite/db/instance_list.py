"""Lists of servers: filters, order and paging, as raw rows of the columns that the caller names.

A list of 100 servers is one statement for the servers and one for their tags, whatever is shown of them. The statement first
finds the numbers of the servers on the page, for which an index is enough (models.py), and then reads the rows of these only.
The rows are sorted by the page's own columns: when MariaDB sorts by columns of the rows, it writes all columns to a file first.
A filter by address is one statement more: :mod:`addresses`.
"""
from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import exc

from nova_lite import exception
from nova_lite.db import addresses, models, paging, patterns, time_limit
from nova_lite.objects import states

LOG = log.getLogger(__name__)
I = models.instances  # noqa: E741
Row = dict[str, Any]

# names of the API and the columns behind them; what is not here is called as its column
SORT_COLUMNS = {
    "access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive", "created_at",
    "display_description", "display_name", "host", "hostname", "image_ref", "key_name", "launch_index", "launched_at",
    "locked", "locked_by", "node", "power_state", "progress", "project_id", "root_device_name", "task_state",
    "terminated_at", "updated_at", "user_id", "uuid", "vm_state", "instance_type_id"}
_ALIASES = {"instance_type_id": "flavor_ref"}
EXACT = {"project_id", "user_id", "image_ref", "flavor_ref", "vm_state", "task_state", "uuid", "host", "node", "locked",
         "power_state", "progress", "launch_index", "config_drive", "auto_disk_config", "created_at", "launched_at",
         "terminated_at", "locked_by"}
PATTERN = {"display_name", "display_description", "hostname", "reservation_id", "key_name", "availability_zone",
           "root_device_name", "access_ip_v4", "access_ip_v6"}
_BATCH = 1000
PATTERN_SECONDS = 5         # the most that a statement with a user's expression may take on a server


@dataclass
class Query:
    """What to list. ``exact`` compares columns with a value or a list of values, ``patterns`` with a regular expression,
    ``between`` times with a first and a last moment.

    ``states`` are pairs of :func:`states.states_of` joined by "or". ``deleted``: True only deleted servers, False only living
    ones, None both. ``soft_deleted``: those that may still be restored belong to the deleted as well as to the living.
    ``tags`` maps tags, tags-any, not-tags and not-tags-any to lists. ``ip`` maps 4 and 6 to expressions.
    """

    exact: dict[str, Any] = field(default_factory=dict)
    patterns: dict[str, str] = field(default_factory=dict)
    between: dict[str, tuple[datetime.datetime, datetime.datetime]] = field(default_factory=dict)
    states: list[tuple[str, list[str] | None]] | None = None
    deleted: bool | None = False
    soft_deleted: bool = True
    changes_since: datetime.datetime | None = None
    changes_before: datetime.datetime | None = None
    tags: dict[str, list[str]] = field(default_factory=dict)
    ip: dict[int, str] = field(default_factory=dict)
    sort: list[tuple[str, str]] = field(default_factory=list)
    limit: int = 1000
    marker: str | None = None


def rows(connection: sa.Connection, query: Query, columns: Sequence[sa.Column[Any]]) -> list[Row]:
    """The servers of ``query``, with the wanted columns, in its order. Raises MarkerNotFound or InvalidInput."""
    if query.limit <= 0:
        return []
    keys, dialect = _keys(query.sort), connection.dialect.name
    where = _conditions(query, "mariadb" if time_limit.is_mariadb(connection) else dialect)
    statement, is_limited = sa.select(*dict.fromkeys([*columns, I.c.uuid])), bool(query.patterns)
    if isinstance(query.exact.get("uuid"), str) and query.marker is None and not query.ip:
        return _run(connection, statement.where(*where), is_limited)
    after = None if query.marker is None else _marker_values(connection, query, query.marker, keys)
    if query.ip:
        found = _with_addresses(connection, query, where, keys, after)
        return _run(connection, statement.where(I.c.id.in_(found)).order_by(*paging.order_by(keys, dialect)), False)
    on_page = sa.select(*(column for column, _ in keys)).where(*where)
    page = paging.page(on_page, keys, dialect, query.limit, after).subquery("page")
    order = paging.order_by([(page.c[column.name], direction) for column, direction in keys], dialect)
    return _run(connection, statement.join_from(I, page, page.c.id == I.c.id).order_by(*order), is_limited)


def tags_of(connection: sa.Connection, uuids: Iterable[str]) -> dict[str, list[str]]:
    """The sorted tags of several servers, by one statement."""
    table = models.instance_tags
    found: dict[str, list[str]] = {}
    wanted = list(uuids)
    if not wanted:
        return found
    for uuid, tag in connection.execute(sa.select(table.c.instance_uuid, table.c.tag).where(
            table.c.instance_uuid.in_(wanted)).order_by(table.c.tag)):
        found.setdefault(uuid, []).append(tag)
    return found


def _run(connection: sa.Connection, statement: sa.Select[Any], is_limited: bool) -> list[Row]:
    try:
        result = time_limit.execute(connection, statement, PATTERN_SECONDS) if is_limited else connection.execute(statement)
    except exc.DBAPIError as error:
        if time_limit.is_over(error):
            raise exception.InvalidInput(reason="the filters take the database more than "
                                                f"{PATTERN_SECONDS} seconds: ask for less") from error
        # an expression that RE2 understands and the database does not: "1139 Got error ... from regexp"
        if "regular expression" in str(error.orig).lower() or "regexp" in str(error.orig).lower():
            LOG.info("The database refuses a user's regular expression: %s", error.orig)
            raise exception.InvalidInput(reason="the database cannot search by this regular expression") from error
        raise
    keys = list(result.keys())
    found = [dict(zip(keys, row, strict=True)) for row in result]
    if time_limit.has_given_up(connection, result):
        raise exception.InvalidInput(reason="the regular expression takes the database too many steps for one of the names")
    return found


def _conditions(query: Query, dialect: str) -> list[sa.ColumnElement[bool]]:
    where: list[sa.ColumnElement[bool]] = []
    for name, value in query.exact.items():
        where.append(_equals(I.c[_ALIASES.get(name, name)], value))
    for name, pattern in query.patterns.items():
        where.append(_matches(I.c[name], pattern, dialect))
    for name, (first, last) in query.between.items():
        where += [I.c[name] >= first, I.c[name] <= last]
    if query.states is not None:
        where.append(sa.or_(sa.false(), *(_in_state(*pair) for pair in query.states)))
    if query.deleted:
        gone = I.c.deleted != 0
        where.append(sa.or_(gone, I.c.vm_state == states.SOFT_DELETED) if query.soft_deleted else gone)
    elif query.deleted is not None:
        where.append(I.c.deleted == 0)
        if not query.soft_deleted:
            where.append(I.c.vm_state != states.SOFT_DELETED)
    if query.changes_since is not None:
        where.append(I.c.updated_at >= query.changes_since)
    if query.changes_before is not None:
        where.append(I.c.updated_at <= query.changes_before)
    return where + _tag_conditions(query.tags)


def _equals(column: sa.Column[Any], value: Any) -> sa.ColumnElement[bool]:
    if isinstance(value, (list, tuple, set)):
        known = [v for v in value if v is not None]
        same = column.in_(known)
        return sa.or_(same, column.is_(None)) if len(known) < len(value) else same
    return paging.equals(column, value)


def _matches(column: sa.Column[Any], pattern: str, dialect: str) -> sa.ColumnElement[bool]:
    """LIKE is cheaper than an expression, and finds "^name" in an index."""
    is_start, is_end = pattern.startswith("^"), pattern.endswith("$")
    text = pattern[is_start:len(pattern) - is_end]
    if patterns.is_plain(text):
        escaped = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
        return column.like("%" * (not is_start) + escaped + "%" * (not is_end), escape="/")
    patterns.compile_linear(pattern)
    return column.regexp_match(time_limit.FEW_STEPS + pattern if dialect == "mariadb" else pattern)


def _in_state(vm_state: str, task_states: list[str] | None) -> sa.ColumnElement[bool]:
    here = I.c.vm_state == vm_state
    if task_states is not None:
        return sa.and_(here, I.c.task_state.in_(task_states))
    others = states.other_tasks(vm_state)
    if not others:
        return here
    return sa.and_(here, sa.or_(I.c.task_state.is_(None), I.c.task_state.not_in(others)))


def _tag_conditions(tags: dict[str, list[str]]) -> list[sa.ColumnElement[bool]]:
    table = models.instance_tags

    def has_any(names: list[str]) -> sa.ColumnElement[bool]:
        return I.c.uuid.in_(sa.select(table.c.instance_uuid).where(table.c.tag.in_(names)))

    def has_all(names: list[str]) -> sa.ColumnElement[bool]:
        return sa.and_(*(has_any([name]) for name in names))

    makers = {"tags": has_all, "tags-any": has_any, "not-tags": lambda names: sa.not_(has_all(names)),
              "not-tags-any": lambda names: sa.not_(has_any(names))}
    return [makers[kind](names) for kind, names in tags.items() if names]


# order and paging -----------------------------------------------------------------------------------------------------
def _keys(sort: list[tuple[str, str]]) -> paging.Keys:
    """Ended by the number, so that no two servers are equal."""
    keys = [(I.c[_ALIASES.get(name, name)], direction.lower()) for name, direction in sort]
    default = keys[0][1] if keys else "desc"
    for column in (I.c.created_at, I.c.id):
        if all(column is not known for known, _ in keys):
            keys.append((column, default))
    return keys


def _marker_values(connection: sa.Connection, query: Query, marker: str, keys: paging.Keys) -> list[Any]:
    where = [I.c.uuid == marker]
    if isinstance(query.exact.get("project_id"), str):
        where.append(I.c.project_id == query.exact["project_id"])
    row = connection.execute(sa.select(*(column for column, _ in keys)).where(*where)).first()
    if row is None:
        raise exception.MarkerNotFound(marker=marker)
    return list(row)


# addresses ------------------------------------------------------------------------------------------------------------
def _with_addresses(connection: sa.Connection, query: Query, where: Sequence[sa.ColumnElement[bool]],
                    keys: paging.Keys, after: Sequence[Any] | None) -> list[int]:
    """The numbers of the servers that have an address in which one of the expressions, that of its IP version, is found."""
    expressions = {version: patterns.compile_linear(text) for version, text in query.ip.items()}
    parts = [addresses.like(text) for text in query.ip.values()]
    if all(parts):
        where = [*where, sa.or_(I.c.addresses == addresses.MANY, *(I.c.addresses.like(part) for part in parts))]
    columns = list(dict.fromkeys([I.c.id, I.c.addresses, *(column for column, _ in keys)]))
    found: list[int] = []
    while True:
        page = paging.page(sa.select(*columns).where(*where), keys, connection.dialect.name, _BATCH, after)
        batch = _run(connection, page, bool(query.patterns))
        nics = _addresses_of(connection, batch)
        found += [number for number, known in nics.items() if any(
            (version := 6 if ":" in address else 4) in expressions and expressions[version].search(address)
            for address in known)]
        if len(batch) < _BATCH or len(found) >= query.limit:
            return found[:query.limit]
        after = [batch[-1][column.name] for column, _ in keys]


def _addresses_of(connection: sa.Connection, batch: Sequence[Row]) -> dict[int, list[str]]:
    """The addresses of servers by their number, in the order of ``batch``."""
    found = {row["id"]: addresses.split(row["addresses"]) for row in batch}
    many = [row["id"] for row in batch if row["addresses"] == addresses.MANY]
    if many:
        for number, nics in connection.execute(sa.select(I.c.id, I.c.network_info).where(I.c.id.in_(many))):
            found[number] = addresses.of(nics)
    return found
