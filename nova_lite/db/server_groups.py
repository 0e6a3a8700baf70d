"""Server groups: which servers are to share a host, or not to."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from nova_lite import exception, units
from nova_lite.db import models, quotas

T = models.server_groups
MEMBERS = models.server_group_members


def _with_members(conn: sa.Connection, rows: list[sa.Row]) -> list[dict[str, Any]]:
    """Groups with ``members``, the uuids of their living servers in the order of their birth."""
    groups = {row.uuid: {**row._mapping, "members": []} for row in rows}
    if groups:
        servers = models.instances
        query = sa.select(MEMBERS.c.group_uuid, MEMBERS.c.instance_uuid).select_from(
            MEMBERS.join(servers, servers.c.uuid == MEMBERS.c.instance_uuid)).where(
            MEMBERS.c.group_uuid.in_(groups), servers.c.deleted == 0).order_by(servers.c.id)
        for group, server in conn.execute(query):
            groups[group]["members"].append(server)
    return list(groups.values())


def list_page(conn: sa.Connection, project_id: str | None, limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
    """The groups of a project, of all projects for None, each with ``members``."""
    query = sa.select(T).order_by(T.c.id)
    if project_id is not None:
        query = query.where(T.c.project_id == project_id)
    # an offset needs a limit on MySQL and SQLite
    rows = conn.execute(query.limit(2 ** 31 if limit is None else limit).offset(offset)).all()
    return _with_members(conn, list(rows))


def get(conn: sa.Connection, uuid: str) -> dict[str, Any]:
    """One group with ``members``; raises ServerGroupNotFound."""
    rows = conn.execute(sa.select(T).where(T.c.uuid == uuid)).all()
    if not rows:
        raise exception.ServerGroupNotFound(group_uuid=uuid)
    return _with_members(conn, list(rows))[0]


def create(conn: sa.Connection, conf: cfg.ConfigOpts, values: Mapping[str, Any]) -> dict[str, Any]:
    """A new group; raises QuotaLimitExceeded."""
    quotas.check_server_groups(conn, conf, values["project_id"], values["user_id"])
    conn.execute(sa.insert(T).values(created_at=units.utcnow(), **values))
    return get(conn, values["uuid"])


def delete(conn: sa.Connection, uuid: str) -> None:
    """Forget a group; its servers stay where they are."""
    if not conn.execute(sa.delete(T).where(T.c.uuid == uuid)).rowcount:
        raise exception.ServerGroupNotFound(group_uuid=uuid)
    conn.execute(sa.delete(MEMBERS).where(MEMBERS.c.group_uuid == uuid))


def add_members(conn: sa.Connection, uuid: str, instance_uuids: list[str]) -> None:
    """Put servers into a group."""
    conn.execute(sa.insert(MEMBERS), [{"group_uuid": uuid, "instance_uuid": server} for server in instance_uuids])


def of_instances(conn: sa.Connection, instance_uuids: list[str]) -> dict[str, str]:
    """The group's uuid by server, for the servers that are in one."""
    query = sa.select(MEMBERS.c.instance_uuid, MEMBERS.c.group_uuid).where(MEMBERS.c.instance_uuid.in_(instance_uuids))
    return {row.instance_uuid: row.group_uuid for row in conn.execute(query)}
