"""Service records: who reports, since when it is silent, and whether new servers may go there."""
from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import exc

from nova_lite import exception, units
from nova_lite.db import aggregates, clock, journal, models, pci_devices

LOG = log.getLogger(__name__)
T = models.services
_MEMBERS = models.aggregate_hosts
COMPUTE, CONDUCTOR, SCHEDULER = "nova-compute", "nova-conductor", "nova-scheduler"
MISSED_REPORTS = 1.5        # intervals of reports after which a conductor that has received nothing may miss reports


def heard_from(conn: sa.Connection, host: str, binary: str) -> None:
    """Note that a service lives now; the first time it gets its record. Workers of one service may do so at once."""
    now, seen = units.utcnow(), clock.after(conn)
    mine = sa.and_(T.c.host == host, T.c.binary == binary)
    if conn.execute(sa.update(T).where(mine).values(last_seen_at=seen)).rowcount:
        return
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(T).values(
                uuid=str(uuid.uuid4()), host=host, binary=binary, disabled=False, forced_down=False, last_seen_at=seen,
                created_at=now, updated_at=now))
    except exc.IntegrityError:
        LOG.debug("%s on %s was noted by another worker just now", binary, host)
    else:
        _note(conn, "create", get_by_host(conn, host, binary))


def _note(conn: sa.Connection, what: str, service: dict[str, Any]) -> dict[str, Any]:
    notes = journal.of(conn)
    if notes is not None:
        notes.services.append((what, service))
    return service


def is_up(service: Mapping[str, Any], down_time: float, now: datetime.datetime | None = None) -> bool:
    """Whether the service has reported within ``down_time`` seconds and was not declared down. ``now`` is the time of the
    database (:func:`clock.read`), where a wrong clock of this machine would do harm."""
    silent = (now or units.utcnow()) - service["last_seen_at"]
    return not service["forced_down"] and silent <= datetime.timedelta(seconds=down_time)


def listened(conn: sa.Connection, host: str, seconds: float, longest_break: float) -> None:
    """Note that a conductor on ``host`` has received reports for ``seconds`` until now. Its workers share one record: a worker
    that starts continues the time of the others, unless there was a break of more than ``longest_break`` seconds."""
    since = clock.after(conn, -seconds)
    goes_on = sa.and_(T.c.listened_until >= clock.after(conn, -longest_break), T.c.listening_since < since)
    conn.execute(sa.update(T).where(T.c.host == host, T.c.binary == CONDUCTOR).values(
        listening_since=sa.case((goes_on, T.c.listening_since), else_=since), listened_until=clock.after(conn)))


def is_dead(conn: sa.Connection, service: Mapping[str, Any], down_time: float, report_interval: float) -> bool:
    """Whether a compute host was declared down, or has been silent for ``down_time`` seconds while a conductor received
    reports. A host that is not up (:func:`is_up`) may be alive all the same: no conductor ran, or the broker was away."""
    if service["forced_down"]:
        return True
    now = clock.read(conn)
    listening = sa.and_(T.c.binary == CONDUCTOR,
                        T.c.listened_until >= now - datetime.timedelta(seconds=MISSED_REPORTS * report_interval))
    since = conn.scalars(sa.select(sa.func.min(T.c.listening_since)).where(listening)).one()
    return not is_up(service, down_time, now) and since is not None and now - since > datetime.timedelta(seconds=down_time)


def is_forced_down(conn: sa.Connection, host: str | None) -> bool:
    """Whether a compute host was declared down; False for a host that does not exist."""
    return host is not None and any(row["forced_down"] for row in of_hosts(conn, [host]))


def list_all(conn: sa.Connection, host: str | None = None, binary: str | None = None) -> list[dict[str, Any]]:
    """Service records, those of one host or binary if given."""
    query = sa.select(T).order_by(T.c.id)
    if host is not None:
        query = query.where(T.c.host == host)
    if binary is not None:
        query = query.where(T.c.binary == binary)
    return [dict(row._mapping) for row in conn.execute(query)]


def of_hosts(conn: sa.Connection, hosts: Collection[str | None], binary: str = COMPUTE) -> list[dict[str, Any]]:
    """The service records of these hosts; None is no host. What is asked for one server or one page must not read the services
    of the whole cloud."""
    wanted = sorted({host for host in hosts if host})
    if not wanted:
        return []
    query = sa.select(T).where(T.c.binary == binary, T.c.host.in_(wanted)).order_by(T.c.id)
    return [dict(row._mapping) for row in conn.execute(query)]


def is_down(down_time: float, now: datetime.datetime) -> sa.ColumnElement[bool]:
    """The opposite of :func:`is_up`, as a condition of a statement."""
    return sa.or_(T.c.forced_down, T.c.last_seen_at < now - datetime.timedelta(seconds=down_time))


def hosts_may_report(conn: sa.Connection, down_time: float, seconds: float) -> bool:
    """Whether a compute host that may get servers is silent, or has reported within the last ``seconds``."""
    now = clock.read(conn)
    may_report = sa.or_(is_down(down_time, now), T.c.last_seen_at >= now - datetime.timedelta(seconds=seconds))
    return bool(conn.scalar(sa.select(sa.exists().where(
        T.c.binary == COMPUTE, T.c.disabled.is_(False), T.c.forced_down.is_(False), may_report))))


def zone_takes_servers(conn: sa.Connection, zone: str, default: str) -> bool:
    """Whether the zone has a compute host that is not disabled. ``default`` is the zone of hosts that are in no other."""
    zones = aggregates.numbers_by_zone(conn)
    enabled = sa.and_(T.c.binary == COMPUTE, T.c.disabled.is_(False))
    found: sa.ColumnElement[bool] = sa.select(sa.literal(1)).select_from(_MEMBERS.join(T, T.c.host == _MEMBERS.c.host)).where(
        _MEMBERS.c.aggregate_id.in_(zones.get(zone, [])), enabled).exists()
    if zone == default:
        found = sa.or_(found, sa.exists().where(enabled, _in_no_zone(zones)))
    return bool(conn.scalar(sa.select(found)))


def zones(conn: sa.Connection, default: str) -> dict[str, bool]:
    """Zones with compute hosts: whether :func:`zone_takes_servers`. The statements answer with a row for each aggregate."""
    numbers = aggregates.numbers_by_zone(conn)
    enabled = sa.func.sum(sa.case((T.c.disabled, 0), else_=1))
    query = sa.select(_MEMBERS.c.aggregate_id, enabled.label("enabled")).where(
        _MEMBERS.c.host == T.c.host, T.c.binary == COMPUTE,
        _MEMBERS.c.aggregate_id.in_([number for some in numbers.values() for number in some]))
    counts = {row.aggregate_id: row.enabled for row in conn.execute(query.group_by(_MEMBERS.c.aggregate_id))}
    found = {zone: any(counts.get(number) for number in some) for zone, some in numbers.items()
             if any(number in counts for number in some)}
    hosts, others = conn.execute(sa.select(sa.func.count(), enabled).where(
        T.c.binary == COMPUTE, _in_no_zone(numbers))).one()
    if hosts:
        found[default] = bool(others) or found.get(default, False)
    return found


def _in_no_zone(numbers: Mapping[str, Collection[int]]) -> sa.ColumnElement[bool]:
    of_zones = [number for some in numbers.values() for number in some]
    return ~sa.exists().where(_MEMBERS.c.host == T.c.host, _MEMBERS.c.aggregate_id.in_(of_zones))


def get(conn: sa.Connection, service_id: int | str) -> dict[str, Any]:
    """One record by its number or uuid; raises ServiceNotFound."""
    key = T.c.uuid if isinstance(service_id, str) else T.c.id
    row = conn.execute(sa.select(T).where(key == service_id)).first()
    if row is None:
        raise exception.ServiceNotFound(service_id=service_id)
    return dict(row._mapping)


def get_by_host(conn: sa.Connection, host: str, binary: str) -> dict[str, Any]:
    """One record; raises HostBinaryNotFound."""
    found = list_all(conn, host, binary)
    if not found:
        raise exception.HostBinaryNotFound(host=host, binary=binary)
    return found[0]


def update(conn: sa.Connection, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """Change disabled, disabled_reason or forced_down."""
    conn.execute(sa.update(T).where(T.c.id == number).values(updated_at=units.utcnow(), **values))
    return _note(conn, "update", get(conn, number))


def delete(conn: sa.Connection, number: int) -> None:
    """Forget a service; a compute host's nodes and aggregate memberships go with it. Raises HostInUse if it has servers."""
    service = get(conn, number)
    if service["binary"] == COMPUTE:
        host = service["host"]
        # the nodes first: a claim that is being made locks them, so it is either seen below or finds no node
        nodes = models.compute_nodes
        gone = conn.scalars(sa.select(nodes.c.id).where(nodes.c.host == host).with_for_update()).all()
        if aggregates.has_servers(conn, [host]):
            raise exception.HostInUse(reason="Unable to delete compute service that is hosting instances. "
                                             "Migrate or delete the instances first.")
        conn.execute(sa.delete(nodes).where(nodes.c.host == host))
        pci_devices.forget_node(conn, gone)
        aggregates.forget_host(conn, host)
    conn.execute(sa.delete(T).where(T.c.id == number))
    _note(conn, "delete", service)
