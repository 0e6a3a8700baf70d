"""Host aggregates, and the availability zones that they make.

A zone is the aggregates' metadata key ``availability_zone``; a host is in at most one, and stays in it while it has servers.
Changes of zones are serialised (by the row lock of :func:`_lock_zones`), so that two of them cannot put a host into two zones.
"""
from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nova_lite import exception, units
from nova_lite.db import models, quotas

T = models.aggregates
HOSTS = models.aggregate_hosts
ZONE = "availability_zone"


def _with_hosts(conn: sa.Connection, rows: Collection[sa.Row]) -> list[dict[str, Any]]:
    found = {row.id: {**row._mapping, "hosts": []} for row in rows}
    if found:
        query = sa.select(HOSTS.c.aggregate_id, HOSTS.c.host).where(HOSTS.c.aggregate_id.in_(found)).order_by(HOSTS.c.host)
        for number, host in conn.execute(query):
            found[number]["hosts"].append(host)
    return list(found.values())


def list_all(conn: sa.Connection) -> list[dict[str, Any]]:
    """All aggregates, each with ``hosts``. Two queries."""
    return _with_hosts(conn, conn.execute(sa.select(T).order_by(T.c.id)).all())


def versions(conn: sa.Connection) -> Sequence[sa.Row]:
    """A value to compare: each change of an aggregate or of its hosts changes it, whatever the clock of the writer shows."""
    return conn.execute(sa.select(T.c.id, T.c.updated_at).order_by(T.c.id)).all()


def get(conn: sa.Connection, number: int) -> dict[str, Any]:
    """One aggregate with ``hosts``; raises AggregateNotFound."""
    rows = conn.execute(sa.select(T).where(T.c.id == number)).all()
    if not rows:
        raise exception.AggregateNotFound(aggregate_id=number)
    return _with_hosts(conn, rows)[0]


def zones_by_host(conn: sa.Connection, hosts: Collection[str] | None = None) -> dict[str, str]:
    """The zone of each host (None: of all) that is in one; the others are in ``[compute] default_availability_zone``."""
    query = sa.select(HOSTS.c.host, T.c.metadata).select_from(HOSTS.join(T, T.c.id == HOSTS.c.aggregate_id))
    if hosts is not None:
        query = query.where(HOSTS.c.host.in_(sorted(hosts)))
    zones = ((row.host, row.metadata.get(ZONE)) for row in conn.execute(query))
    return {host: zone for host, zone in zones if zone}


def zone_of(conn: sa.Connection, host: str | None) -> str | None:
    """The zone of one host; None: it is in the default zone."""
    return zones_by_host(conn, [host]).get(host) if host else None


def numbers_by_zone(conn: sa.Connection) -> dict[str, list[int]]:
    """The aggregates that make each zone. There are few aggregates; their hosts are not read."""
    found: dict[str, list[int]] = {}
    for number, metadata in conn.execute(sa.select(T.c.id, T.c.metadata)):
        if metadata.get(ZONE):
            found.setdefault(metadata[ZONE], []).append(number)
    return found


def has_servers(conn: sa.Connection, hosts: Collection[str]) -> bool:
    """Whether a living server is on one of these hosts, or the scheduler has just claimed room there for one."""
    servers, nodes, held = models.instances, models.compute_nodes, models.allocations
    running = sa.exists().where(servers.c.host.in_(hosts), servers.c.deleted == 0)
    coming = sa.exists().where(nodes.c.host.in_(hosts), held.c.compute_node_id == nodes.c.id)
    return bool(conn.scalar(sa.select(sa.or_(running, coming))))


def create(conn: sa.Connection, name: str, zone: str | None) -> dict[str, Any]:
    """A new aggregate without hosts; raises AggregateNameExists."""
    values = {"uuid": str(uuid.uuid4()), "name": name, "metadata": {ZONE: zone} if zone else {}}
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(T).values(created_at=units.utcnow(), **values))
    except exc.IntegrityError:
        raise exception.AggregateNameExists(name=name) from None
    return _with_hosts(conn, conn.execute(sa.select(T).where(T.c.uuid == values["uuid"])).all())[0]


def update(conn: sa.Connection, number: int, name: str | None = None,
           metadata: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """Rename, and merge metadata (None removes a key).

    Raises AggregateNameExists, or InvalidAggregateAction (400) when that would change the zone of a host that has servers or
    is in another zone already.
    """
    _lock_zones(conn)
    aggregate = get(conn, number)
    merged = dict(aggregate["metadata"])
    for key, value in (metadata or {}).items():
        merged.pop(key, None)
        if value is not None:
            merged[key] = value
    old, new = aggregate["metadata"].get(ZONE), merged.get(ZONE)
    if old != new and aggregate["hosts"]:
        _check_zone(conn, aggregate, aggregate["hosts"], new, "update", 400)
    values = {"metadata": merged, "name": aggregate["name"] if name is None else name, "updated_at": units.utcnow()}
    try:
        with conn.begin_nested():
            conn.execute(sa.update(T).where(T.c.id == number).values(**values))
    except exc.IntegrityError:
        raise exception.AggregateNameExists(name=name) from None
    return get(conn, number)


def delete(conn: sa.Connection, number: int) -> None:
    """Remove an empty aggregate."""
    _lock_zones(conn)
    if get(conn, number)["hosts"]:
        raise exception.InvalidAggregateAction(action="delete", aggregate_id=number, reason="Host aggregate is not empty")
    conn.execute(sa.delete(T).where(T.c.id == number))


def add_host(conn: sa.Connection, number: int, host: str) -> dict[str, Any]:
    """Put a host into an aggregate; raises ComputeHostNotFound, AggregateHostExists, InvalidAggregateAction (409)."""
    _lock_zones(conn)
    aggregate = get(conn, number)
    _check_host(conn, host)
    if host in aggregate["hosts"]:
        raise exception.AggregateHostExists(aggregate_id=number, host=host)
    zone = aggregate["metadata"].get(ZONE)
    if zone is not None:
        _check_zone(conn, aggregate, [host], zone, "add host", 409)
    conn.execute(sa.insert(HOSTS).values(aggregate_id=number, host=host))
    return _touch(conn, number)


def remove_host(conn: sa.Connection, number: int, host: str) -> dict[str, Any]:
    """Take a host out of an aggregate; raises AggregateHostNotFound, InvalidAggregateAction (409)."""
    _lock_zones(conn)
    aggregate = get(conn, number)
    if host not in aggregate["hosts"]:
        raise exception.AggregateHostNotFound(aggregate_id=number, host=host)
    if aggregate["metadata"].get(ZONE) is not None:
        _check_zone(conn, aggregate, [host], None, "remove host", 409)
    conn.execute(sa.delete(HOSTS).where(HOSTS.c.aggregate_id == number, HOSTS.c.host == host))
    return _touch(conn, number)


def forget_host(conn: sa.Connection, host: str) -> None:
    """Take a host that is gone for good out of every aggregate."""
    numbers = conn.scalars(sa.select(HOSTS.c.aggregate_id).where(HOSTS.c.host == host)).all()
    conn.execute(sa.delete(HOSTS).where(HOSTS.c.host == host))
    conn.execute(sa.update(T).where(T.c.id.in_(numbers)).values(updated_at=units.utcnow()))


def _touch(conn: sa.Connection, number: int) -> dict[str, Any]:
    # the scheduler sees by updated_at that it has to read the aggregates again
    conn.execute(sa.update(T).where(T.c.id == number).values(updated_at=units.utcnow()))
    return get(conn, number)


def _lock_zones(conn: sa.Connection) -> None:
    quotas.lock(conn, "availability zones")


def _check_host(conn: sa.Connection, host: str) -> None:
    services = models.services
    known = sa.select(services.c.id).where(services.c.host == host, services.c.binary == "nova-compute")
    if conn.scalar(known) is None:
        raise exception.ComputeHostNotFound(host=host)


def _check_zone(conn: sa.Connection, aggregate: Mapping[str, Any], hosts: Collection[str], zone: str | None, action: str,
                code: int) -> None:
    """Raise InvalidAggregateAction unless the aggregate's ``hosts`` may get ``zone`` (None: that of other aggregates)."""
    query = sa.select(HOSTS.c.host, T.c.metadata).select_from(HOSTS.join(T, T.c.id == HOSTS.c.aggregate_id)).where(
        HOSTS.c.host.in_(hosts), T.c.id != aggregate["id"])
    elsewhere = {row.host: row.metadata[ZONE] for row in conn.execute(query) if row.metadata.get(ZONE)}
    reason = None
    others = sorted({other for other in elsewhere.values() if zone is not None and other != zone})
    if others:
        reason = f"One or more hosts already in availability zone(s) {others}"
    elif has_servers(conn, [host for host in hosts if host not in elsewhere]):
        reason = "One or more hosts contain instances in this zone"
    if reason:
        error = exception.InvalidAggregateAction(action=action, aggregate_id=aggregate["id"], reason=reason)
        error.code = code
        raise error
