"""What is written and read for the reports of compute hosts: the same few statements, however many hosts have reported."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import clock, models, services
from nova_lite.objects import action as objects

ACTIONS, NODES, SERVICES = models.instance_actions, models.compute_nodes, models.services
WAITING = 1000      # ids of actions in the answer to one host


@dataclass(frozen=True)
class Report:
    """One report: the ``actions`` that ``owner``, a process on ``host``, works on. ``is_seen``: it counts as a sign of life."""

    host: str
    owner: str
    actions: Sequence[int]
    is_seen: bool = True

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Report:
        """From the message of a host. Raises KeyError."""
        return cls(values["host"], values["owner"], values["actions"], values.get("seen", True))


def take(conn: sa.Connection, reports: Sequence[Report], lease_seconds: float) -> list[list[int]]:
    """Renew the leases of those who report, note that their hosts live and how much these do. Returns for each report the ids
    of the actions that nobody on its host has taken up yet, oldest first."""
    _renew(conn, reports, lease_seconds)
    seen = {report.host for report in reports if report.is_seen}
    if seen:
        _note_seen(conn, seen)
    count_io_ops(conn, {report.host: len(report.actions) for report in reports})
    waiting = _waiting(conn, {report.host for report in reports})
    return [waiting.get(report.host, []) for report in reports]


def _renew(conn: sa.Connection, reports: Sequence[Report], lease_seconds: float) -> None:
    # by owner: what a host names and another one holds stays as it is
    held = [sa.and_(ACTIONS.c.owner == report.owner, ACTIONS.c.id.in_(sorted(report.actions)))
            for report in reports if report.actions]
    if held:
        conn.execute(sa.update(ACTIONS).where(ACTIONS.c.state == objects.RUNNING, sa.or_(*held))
                     .values(lease_until=clock.after(conn, lease_seconds)))


def _note_seen(conn: sa.Connection, hosts: Collection[str]) -> None:
    mine = sa.and_(SERVICES.c.binary == services.COMPUTE, SERVICES.c.host.in_(sorted(hosts)))
    if conn.execute(sa.update(SERVICES).where(mine).values(last_seen_at=clock.after(conn))).rowcount == len(hosts):
        return
    # the first report of a host, or the first since an operator deleted its service
    known = set(conn.scalars(sa.select(SERVICES.c.host).where(mine)))
    for host in sorted(set(hosts) - known):
        services.heard_from(conn, host, services.COMPUTE)


def count_io_ops(conn: sa.Connection, counts: Mapping[str, int]) -> None:
    """How many builds, moves and snapshots each host works on; read by IoOpsWeigher. Rows that are right are not locked."""
    rows = conn.execute(sa.select(NODES.c.id, NODES.c.host, NODES.c.io_ops).where(NODES.c.host.in_(sorted(counts)))).all()
    wrong = {row.id: counts[row.host] for row in rows if row.io_ops != counts[row.host]}
    if wrong:
        right = sa.case({node_id: sa.literal(count) for node_id, count in sorted(wrong.items())}, value=NODES.c.id)
        conn.execute(sa.update(NODES).where(NODES.c.id.in_(sorted(wrong))).values(io_ops=right, updated_at=units.utcnow()))


def _waiting(conn: sa.Connection, hosts: Collection[str]) -> dict[str, list[int]]:
    query = sa.select(ACTIONS.c.host, ACTIONS.c.id).where(
        ACTIONS.c.host.in_(sorted(hosts)), ACTIONS.c.state == objects.PENDING, ACTIONS.c.stage == objects.COMPUTE)
    found: dict[str, list[int]] = {}
    for host, action_id in conn.execute(query.order_by(ACTIONS.c.id).limit(WAITING * len(hosts))):
        found.setdefault(host, []).append(action_id)
    return {host: ids[:WAITING] for host, ids in found.items()}
