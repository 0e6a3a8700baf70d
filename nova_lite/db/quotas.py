"""Quotas: the limits of a project or user, what is used of them, and checks that cannot be overtaken.

A limit is, in this order, the override of the user in the project, of the project, of the class "default", or the option of
``[quota]``; -1 is no limit. With ``[quota] driver = keystone`` it is what Keystone last said of the project, or of every
project, else 0; users and classes have none of their own then. Usage is counted from the living rows, never stored. Whoever
creates something that counts calls the check in the same transaction: it locks the project's row of ``quota_locks`` first, so
that creators are serialised.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import exc

from nova_lite import exception
from nova_lite.db import models
from nova_lite.objects import states

T = models.quotas
KEYSTONE = "keystone"       # the driver, and how the rows begin that are copies of Keystone's limits
CONFIGURED = ("instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members")
INJECTED = {"injected_files": 5, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255}
RESOURCES = (*CONFIGURED, *INJECTED)
_CLASS = "class:"         # the prefix of a class name, in the column of projects
PER_USER_COUNTED = ("instances", "cores", "ram", "server_groups")


def _class_key(class_name: str) -> str:
    return "" if class_name == "default" else f"{_CLASS}{class_name}"


def defaults(conn: sa.Connection, conf: cfg.ConfigOpts, class_name: str = "default") -> dict[str, int]:
    """The limits of a class; "default" is the one of every project without an override."""
    return limits_for(conn, conf, _class_key(class_name))


def limits_for(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str = "") -> dict[str, int]:
    """All limits by resource, for a project or (``user_id``) for one user of it."""
    return _limits(conn, conf, project_id, user_id)[1]


def _limits(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """The limits of a project, and those of a user in it: without an override of the user they are equal."""
    if conf.quota.driver == KEYSTONE:
        mirrored = _mirrored(conn, project_id)
        return mirrored, mirrored
    of_project = {name: getattr(conf.quota, name) for name in CONFIGURED} | INJECTED
    # a class of another name does not follow the default one, as in Nova
    projects = {project_id} if project_id.startswith(_CLASS) else {"", project_id}
    query = sa.select(T.c.project_id, T.c.user_id, T.c.resource, T.c.hard_limit).where(
        T.c.project_id.in_(projects), T.c.user_id.in_({"", user_id}))
    rows = sorted(conn.execute(query).all(), key=lambda row: (row.user_id != "", row.project_id != ""))
    of_project |= {row.resource: row.hard_limit for row in rows if row.user_id == ""}
    return of_project, of_project | {row.resource: row.hard_limit for row in rows if row.user_id != ""}


def _mirrored(conn: sa.Connection, project_id: str) -> dict[str, int]:
    limits = dict.fromkeys(RESOURCES, 0)
    query = sa.select(T.c.project_id, T.c.resource, T.c.hard_limit).where(
        T.c.project_id.in_({f"{KEYSTONE}:", f"{KEYSTONE}:{project_id}"}))
    limits.update({resource: limit for _, resource, limit in sorted(conn.execute(query).all())})
    return limits


def mirror(conn: sa.Connection, limits: Mapping[str, Mapping[str, int]]) -> int:
    """Keep a copy of Keystone's limits by project ("": of all); how many rows that changes."""
    ours = T.c.project_id.startswith(f"{KEYSTONE}:", autoescape=True)
    have = {(project, resource): limit for project, resource, limit in conn.execute(
        sa.select(T.c.project_id, T.c.resource, T.c.hard_limit).where(ours))}
    want = {(f"{KEYSTONE}:{project}"[:255], resource): limit for project, some in limits.items()
            for resource, limit in some.items()}
    changed = [key for key in {**have, **want} if have.get(key) != want.get(key)]
    for project, resource in changed:
        conn.execute(sa.delete(T).where(T.c.project_id == project, T.c.resource == resource))
    rows = [{"project_id": project, "user_id": "", "resource": resource, "hard_limit": want[project, resource]}
            for project, resource in changed if (project, resource) in want]
    if rows:
        conn.execute(sa.insert(T), rows)
    return len(changed)


def set_limits(conn: sa.Connection, project_id: str, limits: Mapping[str, int], user_id: str = "") -> None:
    """Override limits of a project, or of a user in it."""
    lock(conn, project_id)
    for resource, limit in limits.items():
        mine = (T.c.project_id == project_id, T.c.user_id == user_id, T.c.resource == resource)
        conn.execute(sa.delete(T).where(*mine))
        conn.execute(sa.insert(T).values(project_id=project_id, user_id=user_id, resource=resource, hard_limit=limit))


def set_class_limits(conn: sa.Connection, class_name: str, limits: Mapping[str, int]) -> None:
    """Override limits of a class."""
    set_limits(conn, _class_key(class_name), limits)


def delete_limits(conn: sa.Connection, project_id: str, user_id: str = "") -> None:
    """Forget a user's overrides, or a project's together with those of its users."""
    query = sa.delete(T).where(T.c.project_id == project_id)
    conn.execute(query.where(T.c.user_id == user_id) if user_id else query)


def _usage_query(of_user: bool) -> sa.Select:
    """What a project (``of_user``: one user of it) has of each resource that is counted per user, in one row.

    An index has all that the sum of the living servers needs. What does not count of it is subtracted: soft-deleted servers, of
    which there are few, until they are restored.
    """
    servers, groups = models.instances, models.server_groups
    mine = [servers.c.project_id == sa.bindparam("project_id"), servers.c.deleted == 0]
    mine_too = [groups.c.project_id == sa.bindparam("project_id")]
    if of_user:
        mine.append(servers.c.user_id == sa.bindparam("user_id"))
        mine_too.append(groups.c.user_id == sa.bindparam("user_id"))
    living = _sums(*mine)
    soft_deleted = _sums(*mine, servers.c.vm_state == states.SOFT_DELETED,
                         sa.func.coalesce(servers.c.task_state, "") != states.RESTORING)
    group_count = sa.select(sa.func.count()).select_from(groups).where(*mine_too).scalar_subquery()
    return sa.select(*(living.c[name] - soft_deleted.c[name] for name in PER_USER_COUNTED[:3]), group_count) \
        .select_from(living.join(soft_deleted, sa.true()))


def _sums(*where: sa.ColumnElement[bool]) -> sa.Subquery:
    """One row: what servers take of instances, cores and ram."""
    servers = models.instances
    return sa.select(sa.func.count().label("instances"), sa.func.coalesce(sa.func.sum(servers.c.vcpus), 0).label("cores"),
                     sa.func.coalesce(sa.func.sum(servers.c.memory_mb), 0).label("ram")).where(*where).subquery()


# built once, because each POST of a server runs the first one
_USAGE_OF_PROJECT, _USAGE_OF_USER = _usage_query(of_user=False), _usage_query(of_user=True)


def usage(conn: sa.Connection, project_id: str, user_id: str = "") -> dict[str, int]:
    """The usage of a project (or of one user of it): instances, cores, ram and server_groups. One query."""
    if user_id:
        row = conn.execute(_USAGE_OF_USER, {"project_id": project_id, "user_id": user_id}).one()
    else:
        row = conn.execute(_USAGE_OF_PROJECT, {"project_id": project_id}).one()
    return dict(zip(PER_USER_COUNTED, map(int, row), strict=True))


def _limits_and_usage(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str,
                      user_id: str) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Limits and usage that something new has to fit into: those of the project, then those of the user in it.

    A user without limits of its own is left out, because it uses no more than its project does.
    """
    of_project, of_user = _limits(conn, conf, project_id, user_id)
    yield of_project, usage(conn, project_id)
    if of_user != of_project:
        yield of_user, usage(conn, project_id, user_id)


def lock(conn: sa.Connection, project_id: str) -> None:
    """Wait for the other transactions that create something in this project, and hold off the next until this one ends."""
    locks = models.quota_locks
    take = sa.update(locks).where(locks.c.project_id == project_id).values(generation=locks.c.generation + 1)
    if conn.execute(take).rowcount:
        return
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(locks).values(project_id=project_id, generation=1))
    except exc.IntegrityError:
        conn.execute(take)      # another transaction has made the row meanwhile


def check_servers(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str, instances: int, cores: int,
                  ram: int) -> None:
    """Raise TooManyInstances unless this much more fits; call it in the transaction that creates the servers."""
    lock(conn, project_id)
    wanted = {"instances": instances, "cores": cores, "ram": ram}
    for limits, used in _limits_and_usage(conn, conf, project_id, user_id):
        overs = sorted(name for name, more in wanted.items() if more > 0 and 0 <= limits[name] < used[name] + more)
        if overs:
            raise exception.TooManyInstances(
                overs=", ".join(overs), req=", ".join(str(wanted[name]) for name in overs),
                used=", ".join(str(used[name]) for name in overs), allowed=", ".join(str(limits[name]) for name in overs))


def servers_that_fit(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str, min_count: int,
                     max_count: int, vcpus: int, memory_mb: int) -> int:
    """How many equal servers, at most ``max_count``, may be created; raises TooManyInstances if not even ``min_count``.

    Call it in the transaction that creates them.
    """
    lock(conn, project_id)
    fit = max_count
    for limits, used in _limits_and_usage(conn, conf, project_id, user_id):
        for name, each in (("instances", 1), ("cores", vcpus), ("ram", memory_mb)):
            if limits[name] >= 0 and each > 0:
                fit = min(fit, max(0, limits[name] - used[name]) // each)
    if fit < min_count:
        check_servers(conn, conf, project_id, user_id, min_count, min_count * vcpus, min_count * memory_mb)
    return fit


def check_server_groups(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str) -> None:
    """Raise QuotaLimitExceeded unless one more server group fits; call it in the transaction that creates the group."""
    lock(conn, project_id)
    for limits, used in _limits_and_usage(conn, conf, project_id, user_id):
        if 0 <= limits["server_groups"] <= used["server_groups"]:
            raise exception.QuotaLimitExceeded(what="server groups")


def check_server_group_members(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str, group_uuid: str,
                               more: int = 1) -> None:
    """Raise QuotaLimitExceeded unless ``more`` servers of the user fit into the group."""
    lock(conn, project_id)
    members, servers = models.server_group_members, models.instances
    query = sa.select(sa.func.count()).select_from(
        members.join(servers, servers.c.uuid == members.c.instance_uuid)).where(
        members.c.group_uuid == group_uuid, servers.c.user_id == user_id, servers.c.deleted == 0)
    limit = limits_for(conn, conf, project_id, user_id)["server_group_members"]
    if 0 <= limit < (conn.scalar(query) or 0) + more:
        raise exception.QuotaLimitExceeded(what="servers in group")


def check_key_pairs(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, user_id: str) -> None:
    """Raise QuotaLimitExceeded unless the user may have one more key pair, whichever project it asks from."""
    lock(conn, f"user:{user_id}"[:255])
    keys = models.key_pairs
    have = conn.scalar(sa.select(sa.func.count()).select_from(keys).where(keys.c.user_id == user_id)) or 0
    if 0 <= limits_for(conn, conf, project_id, user_id)["key_pairs"] <= have:
        raise exception.QuotaLimitExceeded(what="key pairs")
