"""Moves of servers: resize, cold and live migration, evacuation. Rows of the table ``migrations``."""
from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.db import models
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.base import Record
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration

T = models.migrations


def create(conn: sa.Connection, instance: Instance, migration_type: str, status: str, **values: Any) -> Migration:
    """Write down a move that begins where the server is now; ``values`` are further columns."""
    now = units.utcnow()
    columns = {"uuid": str(uuid.uuid4()), "instance_uuid": instance.uuid, "migration_type": migration_type, "status": status,
               "source_compute": instance.host, "source_node": instance.node, "old_flavor": instance.flavor,
               "new_flavor": instance.flavor, "user_id": instance.user_id, "project_id": instance.project_id,
               "created_at": now, "updated_at": now, **values}
    key = conn.execute(sa.insert(T).values({k: _plain(v) for k, v in columns.items()})).inserted_primary_key
    assert key is not None
    return Migration.from_primitive({**columns, "id": key[0]})


def get(conn: sa.Connection, migration_id: int, lock: bool = False) -> Migration:
    """One move; raises MigrationNotFound."""
    query = sa.select(T).where(T.c.id == migration_id)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise exception.MigrationNotFound(migration_id=migration_id)
    return _record(row)


def find(conn: sa.Connection, instance_uuid: str, statuses: Collection[str] = (), lock: bool = False) -> Migration | None:
    """The newest move of a server with one of the statuses; without any: the newest that has not ended. None: there is none."""
    wanted = T.c.status.in_(sorted(statuses)) if statuses else T.c.status.not_in(objects.ENDED)
    query = sa.select(T).where(T.c.instance_uuid == instance_uuid, wanted).order_by(T.c.id.desc()).limit(1)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    return _record(row) if row is not None else None


def open_of(conn: sa.Connection, instance_uuids: Collection[str], or_broken_off: bool = False) -> list[Migration]:
    """The moves of servers that have not ended, ``or_broken_off``: or that have not ended well."""
    over = objects.ENDED_WELL if or_broken_off else objects.ENDED
    query = sa.select(T).where(T.c.instance_uuid.in_(sorted(instance_uuids)), T.c.status.not_in(over))
    return [_record(row) for row in conn.execute(query.order_by(T.c.id))]


def open_at(conn: sa.Connection, host: str) -> list[Migration]:
    """The moves of living servers from or to a host that have not ended. What is left of other servers' moves is none."""
    servers = models.instances
    query = sa.select(T).join(servers, sa.and_(servers.c.uuid == T.c.instance_uuid, servers.c.deleted == 0)).where(
        T.c.status.not_in(objects.ENDED), sa.or_(T.c.source_compute == host, T.c.dest_compute == host))
    return [_record(row) for row in conn.execute(query.order_by(T.c.id))]


def unconfirmed(conn: sa.Connection, before: datetime.datetime, limit: int = 100) -> list[Migration]:
    """The newest moves of servers that have waited for their user's decision since before a time, oldest first. Moves that were
    replaced by newer ones are left out."""
    servers, newer = models.instances, T.alias()
    types = (objects.RESIZE, objects.MIGRATION)
    waiting = sa.exists().where(servers.c.uuid == T.c.instance_uuid, servers.c.deleted == 0,
                                servers.c.vm_state == states.RESIZED, servers.c.task_state.is_(None))
    is_old = sa.exists().where(newer.c.instance_uuid == T.c.instance_uuid, newer.c.id > T.c.id,
                               newer.c.migration_type.in_(types))
    query = sa.select(T).where(T.c.status == objects.FINISHED, T.c.updated_at < before, T.c.migration_type.in_(types),
                               waiting, ~is_old)
    return [_record(row) for row in conn.execute(query.order_by(T.c.updated_at).limit(limit))]


def update(conn: sa.Connection, migration_id: int, values: Mapping[str, Any]) -> None:
    """Change columns of one move."""
    conn.execute(sa.update(T).where(T.c.id == migration_id).values(
        {k: _plain(v) for k, v in values.items()} | {"updated_at": units.utcnow()}))


def holders(conn: sa.Connection, instance_uuids: Collection[str]) -> list[str]:
    """The uuids of moves that may hold room for these servers."""
    return list(conn.scalars(sa.select(T.c.uuid).where(T.c.instance_uuid.in_(sorted(instance_uuids)))))


def holding(conn: sa.Connection, uuids: Collection[str]) -> set[str]:
    """Those of the uuids that are moves on their way: what they hold is wanted."""
    return set(conn.scalars(sa.select(T.c.uuid).where(T.c.uuid.in_(sorted(uuids)), T.c.status.not_in(objects.ENDED))))


def kept_on(conn: sa.Connection, host: str, instance_uuids: Collection[str]) -> set[str]:
    """Those of the servers that are on their way from or to a host: what is of them there must stay."""
    return set(conn.scalars(sa.select(T.c.instance_uuid).where(
        T.c.instance_uuid.in_(sorted(instance_uuids)), T.c.status.not_in(objects.ENDED),
        sa.or_(T.c.source_compute == host, T.c.dest_compute == host))))


def from_or_to(conn: sa.Connection, host: str, instance_uuids: Collection[str]) -> set[str]:
    """Those of the servers that were moved from or to a host, or were to be, however that ended."""
    return set(conn.scalars(sa.select(T.c.instance_uuid).where(
        T.c.instance_uuid.in_(sorted(instance_uuids)), sa.or_(T.c.source_compute == host, T.c.dest_compute == host))))


class Evacuation(NamedTuple):
    """A server that is being built again on ``host``, because its own was down: no other host may run it. When the new host
    ``has_begun`` with what it found, the guests of other hosts may be removed."""

    server: str
    host: str
    has_begun: bool


def evacuations(conn: sa.Connection, instance_uuids: Collection[str]) -> list[Evacuation]:
    """The evacuations of these servers that have not ended, and whose new host is chosen."""
    if not instance_uuids:
        return []
    query = sa.select(T.c.instance_uuid, T.c.dest_compute, T.c.status).where(
        T.c.instance_uuid.in_(sorted(instance_uuids)), T.c.migration_type == objects.EVACUATION,
        T.c.status.not_in(objects.ENDED), T.c.dest_compute.is_not(None))
    return [Evacuation(server, host, status != objects.ACCEPTED) for server, host, status in conn.execute(query)]


def list_all(conn: sa.Connection, filters: Mapping[str, Any] | None = None, host: str | None = None,
             limit: int | None = None, marker: str | None = None, changes_since: datetime.datetime | None = None,
             changes_before: datetime.datetime | None = None) -> list[Migration]:
    """Moves, newest first. ``filters`` are columns (a list: any of these values); ``host`` is source or destination; ``marker``
    the uuid after which the page starts (MarkerNotFound)."""
    query = sa.select(T)
    for name, value in (filters or {}).items():
        query = query.where(T.c[name].in_(value) if isinstance(value, (list, tuple, set)) else T.c[name] == value)
    if host is not None:
        query = query.where(sa.or_(T.c.source_compute == host, T.c.dest_compute == host))
    if changes_since is not None:
        query = query.where(T.c.updated_at >= changes_since)
    if changes_before is not None:
        query = query.where(T.c.updated_at <= changes_before)
    if marker is not None:
        after = conn.scalar(sa.select(T.c.id).where(T.c.uuid == marker))
        if after is None:
            raise exception.MarkerNotFound(marker=marker)
        query = query.where(T.c.id < after)
    return [_record(row) for row in conn.execute(query.order_by(T.c.id.desc()).limit(limit))]


def _record(row: sa.Row) -> Migration:
    return Migration.from_primitive(dict(row._mapping))


def _plain(value: Any) -> Any:
    return value.to_primitive() if isinstance(value, Record) else value
