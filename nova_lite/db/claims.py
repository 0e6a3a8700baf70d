"""Claims: which instance takes how much of which compute node.

A claim is a row of ``allocations`` together with the sums in ``compute_nodes.*_used``, changed in one transaction and only
by an UPDATE that holds the capacity in its WHERE clause: however many schedulers run, no node is promised twice.
Everything here can be run twice, and locks in one order (group, allocations, nodes by id), so that deadlocks stay rare;
``Database.write`` runs the transaction again after one.
"""
from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nova_lite import units
from nova_lite.db import models, pci_devices
from nova_lite.objects import migration
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware import pci

NODES = models.compute_nodes
ALLOCATIONS = models.allocations
_USED = (NODES.c.vcpus_used, NODES.c.memory_mb_used, NODES.c.local_gb_used, NODES.c.instances_used)
_AMOUNTS = ("vcpus", "memory_mb", "disk_gb")       # of an allocation; _USED has their sums and the number of allocations
_HARD_POLICIES = ("affinity", "anti-affinity")
_CHUNK = 500    # values in one IN list: SQLite allows 999 parameters in old builds


@dataclass(frozen=True)
class Claim:
    """The resources that one instance takes of one node: vCPUs, MiB, GiB, and the PCI devices of ``hardware.pci.requests``."""

    instance_uuid: str
    node_id: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    pci: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, instance_uuid: str, node_id: int, flavor: Flavor) -> Claim:
        """What an instance of a flavor takes."""
        return cls(instance_uuid, node_id, flavor.vcpus, flavor.memory_mb, flavor.disk_gb, flavor.pci_requests)


def claim(conn: sa.Connection, instance_uuid: str, node_id: int, vcpus: int, memory_mb: int, disk_gb: int,
          group: Mapping[str, Any] | None = None) -> bool:
    """Take room on a node; False when it has none left, is gone, or the group's hard policy forbids its host.

    Claiming again for the same instance and node is True and changes nothing. ``group`` is {"uuid", "policy", "rules"}.
    """
    return bool(claim_many(conn, [Claim(instance_uuid, node_id, vcpus, memory_mb, disk_gb)], group))


def claim_many(conn: sa.Connection, claims: Sequence[Claim], group: Mapping[str, Any] | None = None) -> set[str]:
    """Take room for several instances; returns the instances that have it now.

    All fit: a handful of statements, however many they are. Otherwise one by one in the order given.
    """
    members = _lock_group(conn, group)
    held = _held(conn, claims)
    wanted = [c for c in claims if (c.instance_uuid, c.node_id) not in held]
    granted = {c.instance_uuid for c in claims if (c.instance_uuid, c.node_id) in held}
    if not wanted:
        return granted
    hosts = _hosts(conn, {c.node_id for c in wanted}) if members else {}
    if len(wanted) > 1 and (members is None or members.allow_all(wanted, hosts)) and _take(conn, wanted):
        return granted | {c.instance_uuid for c in wanted}
    for one in wanted:
        host = hosts.get(one.node_id)
        if members and not members.allows(one.instance_uuid, host):
            continue
        if _take(conn, [one]) or (one.instance_uuid, one.node_id) in _held(conn, [one]):
            granted.add(one.instance_uuid)
            if members and host is not None:
                members.add(one.instance_uuid, host)
    return granted


def write_down(conn: sa.Connection, one: Claim) -> bool:
    """Room that an instance uses all the same is its own from now on, whether or not the node has any left. False when it was
    claimed already or the node is gone."""
    return _take(conn, [one], guarded=False)


def release(conn: sa.Connection, instance_uuid: str, node_id: int | None = None,
            before: datetime.datetime | None = None) -> int:
    """Release the claims of an instance (on one node only, when named); returns how many claims ended."""
    return release_many(conn, [instance_uuid], node_id, before)


def release_many(conn: sa.Connection, instance_uuids: Iterable[str], node_id: int | None = None,
                 before: datetime.datetime | None = None) -> int:
    """Release the claims of these instances (with ``before``: only claims that are older); returns how many claims ended. No
    claim is no error."""
    freed: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    count, with_devices = 0, set[tuple[str, int]]()
    for some in _chunks(instance_uuids):
        query = sa.select(ALLOCATIONS).where(ALLOCATIONS.c.instance_uuid.in_(some))
        if node_id is not None:
            query = query.where(ALLOCATIONS.c.compute_node_id == node_id)
        if before is not None:
            query = query.where(ALLOCATIONS.c.created_at < before)
        # locked before they are deleted: of two that release the same claim only one may lower the sums
        rows = conn.execute(query.order_by(ALLOCATIONS.c.id).with_for_update()).all()
        if not rows:
            continue
        conn.execute(sa.delete(ALLOCATIONS).where(ALLOCATIONS.c.id.in_([r.id for r in rows])))
        count += len(rows)
        for row in rows:
            _add(freed[row.compute_node_id], -row.vcpus, -row.memory_mb, -row.disk_gb, -1)
        with_devices |= {(row.instance_uuid, row.compute_node_id) for row in rows if row.pci_devices}
    if freed:
        conn.execute(_change(freed, guarded=False))
    pci_devices.release(conn, with_devices)
    return count


def release_without_host(conn: sa.Connection, instance_uuids: Iterable[str]) -> int:
    """Release the claims of those of the instances that have no host; none can get one before the transaction ends."""
    uuids = list(instance_uuids)
    places = lock_places(conn, uuids)
    return release_many(conn, [uuid for uuid in uuids if places.get(uuid, (None, None))[0] is None])


def release_unplaced(conn: sa.Connection, made: Mapping[str, tuple[int, str, str]]) -> int:
    """Give back claims that an attempt to place instances has made, as instance uuid -> (node id, host, node), but for those
    on the very node that the instance has been sent to meanwhile."""
    places = lock_places(conn, made)
    by_node: dict[int, list[str]] = defaultdict(list)
    for uuid, (node_id, *place) in made.items():
        if places.get(uuid) != tuple(place):
            by_node[node_id].append(uuid)
    return sum(release_many(conn, by_node[node_id], node_id) for node_id in sorted(by_node))


def lock_places(conn: sa.Connection, instance_uuids: Iterable[str]) -> dict[str, tuple[str | None, str | None]]:
    """instance uuid -> (host, node) as they stay until the transaction ends; what does not exist is left out."""
    instances, found = models.instances, dict[str, tuple[str | None, str | None]]()
    for some in _chunks(instance_uuids):
        query = sa.select(instances.c.uuid, instances.c.host, instances.c.node).where(instances.c.uuid.in_(some))
        found.update((row.uuid, (row.host, row.node)) for row in conn.execute(query.order_by(instances.c.id).with_for_update()))
    return found


def rename(conn: sa.Connection, consumer: str, new_consumer: str, node_id: int | None = None) -> int:
    """What ``consumer`` holds (on one node only, when named) is held by ``new_consumer`` from now on; returns how many claims
    these are. The sums stay as they are. Used for moves: the old place is held by the move's uuid, as in Nova."""
    query = sa.update(ALLOCATIONS).where(ALLOCATIONS.c.instance_uuid == consumer)
    if node_id is not None:
        query = query.where(ALLOCATIONS.c.compute_node_id == node_id)
    count = conn.execute(query.values(instance_uuid=new_consumer)).rowcount
    if count:
        pci_devices.rename(conn, consumer, new_consumer, node_id)
    return count


def wrong_nodes(conn: sa.Connection) -> list[int]:
    """The ids of the nodes whose sums are not those of their allocations. Nothing is locked: :func:`recompute` looks again."""
    sums = sa.select(ALLOCATIONS.c.compute_node_id, *(sa.func.sum(ALLOCATIONS.c[name]).label(name) for name in _AMOUNTS),
                     sa.func.count().label("servers")).group_by(ALLOCATIONS.c.compute_node_id).subquery()
    right = (*(sums.c[name] for name in _AMOUNTS), sums.c.servers)
    is_wrong = sa.or_(*(used != sa.func.coalesce(amount, 0) for used, amount in zip(_USED, right, strict=True)))
    joined = NODES.outerjoin(sums, sums.c.compute_node_id == NODES.c.id)
    return list(conn.scalars(sa.select(NODES.c.id).select_from(joined).where(is_wrong).order_by(NODES.c.id)))


def recompute(conn: sa.Connection, node_id: int) -> bool:
    """Set a node's sums to those of its allocations; True when they were wrong."""
    node = conn.execute(sa.select(*_USED).where(NODES.c.id == node_id).with_for_update()).one_or_none()
    if node is None:
        return False
    sums = conn.execute(
        sa.select(*(sa.func.coalesce(sa.func.sum(ALLOCATIONS.c[name]), 0) for name in _AMOUNTS), sa.func.count())
        .where(ALLOCATIONS.c.compute_node_id == node_id)).one()
    right = tuple(int(s) for s in sums)
    if right == tuple(node):
        return False
    conn.execute(sa.update(NODES).where(NODES.c.id == node_id).values(
        vcpus_used=right[0], memory_mb_used=right[1], local_gb_used=right[2], instances_used=right[3],
        updated_at=units.utcnow()))
    return True


def held_by(conn: sa.Connection, instance_uuids: Iterable[str]) -> dict[str, list[Claim]]:
    """instance uuid -> its claims; instances without any are left out."""
    found: dict[str, list[Claim]] = defaultdict(list)
    for some in _chunks(instance_uuids):
        for row in conn.execute(sa.select(ALLOCATIONS).where(ALLOCATIONS.c.instance_uuid.in_(some)).order_by("id")):
            found[row.instance_uuid].append(Claim(row.instance_uuid, row.compute_node_id, row.vcpus, row.memory_mb,
                                                  row.disk_gb))
    return dict(found)


def group_hosts(conn: sa.Connection, group: Mapping[str, Any]) -> dict[str, set[str]]:
    """host -> the members of a server group that hold room there. To anti-affinity one that moves is where it goes, and where
    it may come back to: its move holds that room. To the other policies it is where it goes, as in Nova."""
    members, moves, uuid = models.server_group_members, models.migrations, group["uuid"]
    holders = [sa.select(members.c.instance_uuid, members.c.instance_uuid.label("holder")).where(members.c.group_uuid == uuid)]
    if group["policy"] == "anti-affinity":
        holders.append(sa.select(members.c.instance_uuid, moves.c.uuid).join(
            moves, moves.c.instance_uuid == members.c.instance_uuid).where(
            members.c.group_uuid == uuid, moves.c.status.not_in(migration.ENDED)))
    held = sa.union_all(*holders).subquery()
    rows = conn.execute(
        sa.select(held.c.instance_uuid, NODES.c.host)
        .join(ALLOCATIONS, ALLOCATIONS.c.instance_uuid == held.c.holder)
        .join(NODES, NODES.c.id == ALLOCATIONS.c.compute_node_id))
    hosts: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        hosts[row.host].add(row.instance_uuid)
    return dict(hosts)


def hosts_of(conn: sa.Connection, instance_uuids: Iterable[str]) -> set[str]:
    """The hosts on which these instances hold room."""
    found: set[str] = set()
    for some in _chunks(instance_uuids):
        found.update(conn.scalars(sa.select(NODES.c.host).join(ALLOCATIONS, ALLOCATIONS.c.compute_node_id == NODES.c.id)
                                  .where(ALLOCATIONS.c.instance_uuid.in_(some))))
    return found


def servers_with_room(conn: sa.Connection, host: str) -> set[str]:
    """The living servers for which room is held on a host: those that are there, and those that a scheduler has just sent."""
    servers = models.instances
    query = sa.select(ALLOCATIONS.c.instance_uuid).join(NODES, NODES.c.id == ALLOCATIONS.c.compute_node_id).join(
        servers, sa.and_(servers.c.uuid == ALLOCATIONS.c.instance_uuid, servers.c.deleted == 0))
    return set(conn.scalars(query.where(NODES.c.host == host)))


def held_without_host(conn: sa.Connection, instance_uuids: Iterable[str]) -> list[str]:
    """Those of the instances that hold room but have no host: their placement was interrupted."""
    instances, found = models.instances, set[str]()
    for some in _chunks(instance_uuids):
        found.update(conn.scalars(
            sa.select(ALLOCATIONS.c.instance_uuid)
            .outerjoin(instances, instances.c.uuid == ALLOCATIONS.c.instance_uuid)
            .where(ALLOCATIONS.c.instance_uuid.in_(some), instances.c.host.is_(None))))
    return sorted(found)


class _Members:
    """Which member of a group is on which host, under the group's lock."""

    def __init__(self, policy: str, limit: int, hosts: Mapping[str, set[str]]) -> None:
        self._policy, self._limit = policy, limit
        self._hosts = {host: set(instances) for host, instances in hosts.items()}

    def allows(self, instance_uuid: str, host: str | None) -> bool:
        others = {h: i - {instance_uuid} for h, i in self._hosts.items()}
        if host is None:
            return False
        if self._policy == "anti-affinity":
            return len(others.get(host, ())) < self._limit
        return not any(others.values()) or bool(others.get(host))

    def add(self, instance_uuid: str, host: str) -> None:
        self._hosts.setdefault(host, set()).add(instance_uuid)

    def allow_all(self, claims: Sequence[Claim], hosts: Mapping[int, str]) -> bool:
        trial = _Members(self._policy, self._limit, self._hosts)
        for one in claims:
            host = hosts.get(one.node_id)
            if host is None or not trial.allows(one.instance_uuid, host):
                return False
            trial.add(one.instance_uuid, host)
        return True


def _lock_group(conn: sa.Connection, group: Mapping[str, Any] | None) -> _Members | None:
    """Serialise all transactions that place members of this group until commit; None when its policy needs no check."""
    if not group or group.get("policy") not in _HARD_POLICIES:
        return None
    groups = models.server_groups
    conn.execute(sa.update(groups).where(groups.c.uuid == group["uuid"]).values(generation=groups.c.generation + 1))
    hosts = group_hosts(conn, group)
    return _Members(group["policy"], int((group.get("rules") or {}).get("max_server_per_host", 1)), hosts)


def _held(conn: sa.Connection, claims: Sequence[Claim]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for some in _chunks({c.instance_uuid for c in claims}):
        found.update((r.instance_uuid, r.compute_node_id) for r in conn.execute(
            sa.select(ALLOCATIONS.c.instance_uuid, ALLOCATIONS.c.compute_node_id)
            .where(ALLOCATIONS.c.instance_uuid.in_(some))))
    return found


def _hosts(conn: sa.Connection, node_ids: set[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for some in _chunks(node_ids):
        found.update({r.id: r.host for r in conn.execute(sa.select(NODES.c.id, NODES.c.host).where(NODES.c.id.in_(some)))})
    return found


def _take(conn: sa.Connection, claims: Sequence[Claim], guarded: bool = True) -> bool:
    """All of these claims or none: one INSERT of the allocations, one UPDATE of the sums (``guarded``: only with room)."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for one in claims:
        _add(sums[one.node_id], one.vcpus, one.memory_mb, one.disk_gb, 1)
    now = units.utcnow()
    savepoint = conn.begin_nested()
    try:
        conn.execute(sa.insert(ALLOCATIONS), [
            {"created_at": now, "instance_uuid": c.instance_uuid, "compute_node_id": c.node_id, "vcpus": c.vcpus,
             "memory_mb": c.memory_mb, "disk_gb": c.disk_gb, "pci_devices": pci.count(c.pci)} for c in claims])
        changed = conn.execute(_change(sums, guarded)).rowcount
    except exc.IntegrityError:      # another transaction claims the same
        savepoint.rollback()
        return False
    if changed != len(sums) or not (_take_devices(conn, claims) or not guarded):
        savepoint.rollback()
        return False
    savepoint.commit()
    return True


def _take_devices(conn: sa.Connection, claims: Sequence[Claim]) -> bool:
    """False when a claim did not get its PCI devices."""
    taken = [pci_devices.take(conn, c.instance_uuid, c.node_id, c.pci) for c in claims if c.pci]
    return all(taken)


def _change(sums: Mapping[int, Sequence[int]], guarded: bool) -> sa.Update:
    """UPDATE the sums of several nodes by one statement; ``guarded`` leaves out every node without the room."""
    ids = sorted(sums)
    deltas = [_delta(ids, [sums[i][position] for i in ids]) for position in range(4)]
    statement = sa.update(NODES).where(NODES.c.id.in_(ids)).values(
        {column.name: column + delta for column, delta in zip(_USED, deltas, strict=True)}
        | {"updated_at": units.utcnow()})
    if not guarded:
        return statement
    rooms = ((NODES.c.vcpus - NODES.c.reserved_vcpus) * NODES.c.cpu_allocation_ratio,
             (NODES.c.memory_mb - NODES.c.reserved_memory_mb) * NODES.c.ram_allocation_ratio,
             (NODES.c.local_gb - NODES.c.reserved_local_gb) * NODES.c.disk_allocation_ratio)
    for position, room in enumerate(rooms):
        # a resource that is not asked for is not checked: a host with a full disk still takes servers without a disk
        if any(sums[i][position] for i in ids):
            statement = statement.where(_USED[position] + deltas[position] <= room)
    return statement


def _delta(ids: Sequence[int], amounts: Sequence[int]) -> sa.ColumnElement[int]:
    if len(set(amounts)) == 1:
        return sa.literal(amounts[0])
    return sa.case(dict(zip(ids, (sa.literal(a) for a in amounts), strict=True)), value=NODES.c.id, else_=sa.literal(0))


def _add(total: list[int], *amounts: int) -> None:
    for position, amount in enumerate(amounts):
        total[position] += amount


def _chunks(values: Iterable[Any]) -> Iterable[list[Any]]:
    listed = sorted(set(values))
    for start in range(0, len(listed), _CHUNK):
        yield listed[start:start + _CHUNK]
