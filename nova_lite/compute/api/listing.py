"""Lists of servers: what the filters of a caller mean, and the rows that they leave."""
from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_utils import strutils

from nova_lite import exception, units
from nova_lite.compute.api.base import Base, check_visible
from nova_lite.context import RequestContext
from nova_lite.db import instance_list, server_groups, services
from nova_lite.db.instance_list import Query, Row
from nova_lite.objects import states

TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
_PUBLIC: dict[str, tuple[str, ...]] = {
    "2.1": ("reservation_id", "name", "status", "image", "flavor", "ip", "changes-since", "all_tenants"), "2.5": ("ip6",),
    "2.26": TAG_FILTERS, "2.66": ("changes-before",), "2.73": ("locked",),
    "2.83": ("availability_zone", "config_drive", "key_name", "created_at", "launched_at", "terminated_at", "power_state",
             "task_state", "vm_state", "progress", "user_id"), "2.90": ("hostname",)}
_COLUMNS = {"name": "display_name", "description": "display_description", "image": "image_ref", "flavor": "flavor_ref",
            "tenant_id": "project_id"}
_BOOLEANS = {"config_drive", "auto_disk_config"}
_NUMBERS = {"power_state", "progress", "launch_index"}
_TIMES = {"created_at", "launched_at", "terminated_at"}
_POWER = {"nostate": 0, "running": 1, "paused": 3, "shutdown": 4, "crashed": 6, "suspended": 7}
ADMIN_SORT_KEYS = {"host", "node"}


@dataclass
class ListRequest:
    """The query of a caller. ``filters`` are the given values by name, the last one of several; ``statuses`` all values of
    status. ``everything``: any column may be a filter; ``since`` compares with the microversion."""

    filters: dict[str, str]
    statuses: list[str] = field(default_factory=list)
    sort: list[tuple[str, str]] = field(default_factory=list)
    limit: int = 1000
    marker: str | None = None
    everything: bool = False
    all_tenants: bool = False
    since: Callable[[str], bool] = lambda version: True


@dataclass
class Details:
    """Rows of servers with what is kept elsewhere: tags by server, states of hosts by name, the group by server."""

    rows: list[Row]
    tags: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)


class Listing(Base):
    """GET /servers and its relatives, with the same few statements for one server and for a thousand."""

    def list_servers(self, context: RequestContext, request: ListRequest, columns: Sequence[sa.Column[Any]],
                     tags: bool = False, hosts: bool = False) -> Details:
        """The servers of a query. Raises Invalid for a wrong filter, Forbidden for a filter of admins."""
        query = make_query(context, request)
        if query is None:
            return Details([])
        with self.db.read() as connection:
            found = Details(instance_list.rows(connection, query, columns))
            self._add(connection, found, tags, hosts, False)
        return found

    def show(self, context: RequestContext, uuid: str, columns: Sequence[sa.Column[Any]], tags: bool = False,
             hosts: bool = False, groups: bool = False) -> Details:
        """One server that is not deleted and that the caller may see; raises InstanceNotFound."""
        with self.db.read() as connection:
            found = Details(instance_list.rows(connection, Query(exact={"uuid": uuid}, limit=1), columns))
            if not found.rows:
                raise exception.InstanceNotFound(instance_id=uuid)
            check_visible(context, found.rows[0]["project_id"], uuid)
            self._add(connection, found, tags, hosts, groups)
        return found

    def _add(self, connection: sa.Connection, found: Details, tags: bool, hosts: bool, groups: bool) -> None:
        uuids = [row["uuid"] for row in found.rows]
        if tags:
            found.tags = instance_list.tags_of(connection, uuids)
        if hosts and any(row["host"] for row in found.rows):
            down_time = self.conf.compute.service_down_time
            named = services.of_hosts(connection, {row["host"] for row in found.rows})
            found.hosts = {service["host"]: _host_status(service, down_time) for service in named}
        if groups:
            found.groups = server_groups.of_instances(connection, uuids)


def _host_status(service: Mapping[str, Any], down_time: float) -> str:
    if service["forced_down"]:
        return "DOWN"
    if service["disabled"]:
        return "MAINTENANCE"
    return "UP" if services.is_up(service, down_time) else "UNKNOWN"


def public_filters(since: Callable[[str], bool]) -> set[str]:
    """The filters that everybody may use."""
    return {name for version, names in _PUBLIC.items() if since(version) for name in names}


def make_query(context: RequestContext, request: ListRequest) -> Query | None:
    """What to ask the database; None: nothing can fit. Raises Invalid or Forbidden."""
    filters = dict(request.filters)
    if not request.everything:
        allowed = public_filters(request.since)
        filters = {name: value for name, value in filters.items() if name in allowed}
    query = Query(limit=request.limit, marker=request.marker, sort=_sort(context, request))
    if request.statuses:
        query.states = [pair for status in request.statuses for pair in states.states_of(status)]
        if not query.states:
            if request.since("2.38"):
                raise exception.Invalid("Invalid status value")
            return None
    _set_times(query, filters)
    _set_deleted(context, query, filters)
    _set_project(context, query, filters, request.all_tenants)
    if request.since("2.26"):
        query.tags = {name: _split_tags(filters.pop(name)) for name in TAG_FILTERS if name in filters}
    if "ip" in filters:
        query.ip[4] = filters.pop("ip")
    if "ip6" in filters and request.since("2.5"):
        query.ip[6] = filters.pop("ip6")
    if "locked" in filters and request.since("2.73"):
        query.exact["locked"] = _boolean("locked", filters.pop("locked"))
    fits = True
    for name, value in filters.items():
        fits = _set_column(query, _COLUMNS.get(name, name), value) and fits
    return query if fits else None


def _sort(context: RequestContext, request: ListRequest) -> list[tuple[str, str]]:
    """The keys that say something at the request's version."""
    known = instance_list.SORT_COLUMNS - (set() if request.since("2.73") else {"locked"})
    for key, _ in request.sort:
        if key in ADMIN_SORT_KEYS and not context.is_admin:
            raise exception.Forbidden(f"Only administrators can sort servers by {key}")
    return [(key, direction) for key, direction in request.sort if key in known]


def _set_times(query: Query, filters: dict[str, str]) -> None:
    """Whole seconds are compared, as ``updated`` shows them; the database has microseconds."""
    since, before = (_time(name, filters.pop(name)) if name in filters else None
                     for name in ("changes-since", "changes-before"))
    if since and before and since > before:
        raise exception.Invalid("The value of changes-since must be less than or equal to changes-before.")
    if since:
        query.changes_since = _later(since, datetime.timedelta(microseconds=-since.microsecond % 1000000))
    if before:
        query.changes_before = before.replace(microsecond=999999)


def _set_deleted(context: RequestContext, query: Query, filters: dict[str, str]) -> None:
    deleted = filters.pop("deleted", None)
    soft_deleted = filters.pop("soft_deleted", None)
    if deleted is not None:
        query.deleted = strutils.bool_from_string(deleted)
    elif query.changes_since is not None or query.changes_before is not None:
        query.deleted = None          # a query for changes includes deleted servers
    if filters.get("vm_state") == states.DELETED or query.states == [(states.DELETED, None)]:
        if not context.is_admin:
            raise exception.Forbidden("Only administrators may list deleted instances")
        query.deleted = True
    asked = filters.get("vm_state") == states.SOFT_DELETED or (states.SOFT_DELETED, None) in (query.states or ())
    # by default they count as deleted; a query that names their status gets them
    query.soft_deleted = strutils.bool_from_string(soft_deleted) if soft_deleted is not None else bool(query.deleted) or asked


def _set_project(context: RequestContext, query: Query, filters: dict[str, str], all_tenants: bool) -> None:
    filters.pop("all_tenants", None)
    tenant = filters.pop("tenant_id", None)
    project = filters.pop("project_id", None)
    if not all_tenants:
        query.exact["project_id"] = context.project_id
    elif project or tenant:
        query.exact["project_id"] = project or tenant


def _set_column(query: Query, column: str, value: str) -> bool:
    """Compare a column; False when nothing can be equal to ``value``. What is no column of ours is ignored."""
    if column in _BOOLEANS:
        query.exact[column] = strutils.bool_from_string(value)
    elif column in _NUMBERS:
        number = _POWER.get(value.lower()) if column == "power_state" else None
        if number is None:
            if not value.isascii() or not value.isdigit() or len(value) > 9:
                return False
            number = int(value)
        query.exact[column] = number
    elif column in _TIMES:
        start = _time(column, value)
        # a time in the API has no fraction, one in the database has
        width = datetime.timedelta(seconds=0 if start.microsecond else 1)
        query.between[column] = (start, _later(start, width))
    elif column in instance_list.EXACT:
        query.exact[column] = value
    elif column in instance_list.PATTERN:
        query.patterns[column] = value
    return True


def _later(time: datetime.datetime, width: datetime.timedelta) -> datetime.datetime:
    """Within the calendar: its last second has no next one."""
    return time + min(width, datetime.datetime.max - time)


def _split_tags(text: str) -> list[str]:
    return [tag for tag in text.split(",") if tag]


def _time(name: str, text: str) -> datetime.datetime:
    try:
        return units.parse_time(text)
    except ValueError as error:
        raise exception.InvalidInput(reason=f"Invalid time in {name}: {text}") from error


def _boolean(name: str, text: str) -> bool:
    try:
        return strutils.bool_from_string(text, strict=True)
    except ValueError as error:
        raise exception.InvalidInput(reason=f"{name}: {error}") from error


def sort_pairs(keys: Collection[str], directions: Sequence[str]) -> list[tuple[str, str]]:
    """Keys with their directions: descending by default, the first direction for keys without one."""
    if len(directions) > max(len(keys), 1):
        raise exception.Invalid("Sort direction size exceeds sort key size")
    default = directions[0] if directions else "desc"
    names = list(keys) or ["created_at"]
    return [(name, directions[i] if i < len(directions) else default) for i, name in enumerate(names)]
