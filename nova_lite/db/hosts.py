"""Compute nodes as their hosts report them, and all that the scheduler's host table is made of."""
from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nova_lite import units
from nova_lite.db import clock, models, pci_devices, services

NODES = models.compute_nodes
SERVICES = models.services

_REPORTED = ("host_ip", "hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances", "traits", "numa_topology",
             "pci_devices", "vcpus", "memory_mb", "local_gb", "disk_available_least", "free_disk_gb", "io_ops", "uptime")
# JSON stays text here: ten thousand hosts share a few values, which the host table parses once each
_TABLE_COLUMNS = (
    NODES.c.id, NODES.c.host, NODES.c.hypervisor_hostname, NODES.c.hypervisor_type, NODES.c.hypervisor_version,
    sa.type_coerce(NODES.c.supported_instances, sa.String).label("supported_instances"),
    sa.type_coerce(NODES.c.traits, sa.String).label("traits"),
    sa.type_coerce(NODES.c.numa_topology, sa.String).label("numa_topology"),
    NODES.c.vcpus, NODES.c.memory_mb, NODES.c.local_gb,
    NODES.c.reserved_vcpus, NODES.c.reserved_memory_mb, NODES.c.reserved_local_gb,
    NODES.c.cpu_allocation_ratio, NODES.c.ram_allocation_ratio, NODES.c.disk_allocation_ratio,
    NODES.c.vcpus_used, NODES.c.memory_mb_used, NODES.c.local_gb_used, NODES.c.instances_used,
    NODES.c.io_ops, NODES.c.failed_builds, NODES.c.updated_at)
_FOR_SCHEDULERS = frozenset(column.name for column in _TABLE_COLUMNS)


def address_of(conn: sa.Connection, node_id: int) -> str | None:
    """The address that a node's host reported; None: it has not, or is gone."""
    return conn.scalar(sa.select(NODES.c.host_ip).where(NODES.c.id == node_id))


def upsert_node(conn: sa.Connection, host: str, inventory: Mapping[str, Any], ratios: Mapping[str, float] | None = None,
                reserved: Mapping[str, int] | None = None) -> int:
    """Store what a host reports of one of its nodes; returns the node's id.

    ``inventory`` is ``virt.driver.Inventory`` as a dictionary (unknown keys are ignored) with host_ip and uptime,
    ``ratios`` {"cpu", "ram", "disk"}, ``reserved`` {"vcpus", "memory_mb", "local_gb"}. Nothing is written when nothing changed.
    Schedulers read the row again when a column of theirs changed: not for another uptime or free space. The used sums belong to
    ``db.claims``.
    """
    values = {name: inventory[name] for name in _REPORTED if name in inventory}
    values |= {f"{name}_allocation_ratio": float(ratio) for name, ratio in (ratios or {}).items()}
    values |= {f"reserved_{name}": int(amount) for name, amount in (reserved or {}).items()}
    name = inventory["hypervisor_hostname"]
    row = _node(conn, host, name)
    if row is None:
        now = units.utcnow()
        try:
            with conn.begin_nested():
                done = conn.execute(sa.insert(NODES).values(
                    uuid=str(uuid.uuid4()), host=host, hypervisor_hostname=name, created_at=now, updated_at=now, **values))
            node_id = int(done.inserted_primary_key[0])    # type: ignore[index]
            if values.get("pci_devices"):
                pci_devices.report(conn, node_id, values["pci_devices"])
            return node_id
        except exc.IntegrityError:
            row = _node(conn, host, name)               # the same report, handled twice at the same moment
            if row is None:
                raise
    changed = {key: value for key, value in values.items() if row[key] != value}
    if changed:
        of_schedulers = {"updated_at": units.utcnow()} if _FOR_SCHEDULERS & set(changed) else {}
        conn.execute(sa.update(NODES).where(NODES.c.id == row["id"]).values(**changed, **of_schedulers))
    if "pci_devices" in changed:
        pci_devices.report(conn, row["id"], changed["pci_devices"] or ())
    return int(row["id"])


def _node(conn: sa.Connection, host: str, name: str) -> sa.RowMapping | None:
    return conn.execute(sa.select(NODES).where(NODES.c.host == host, NODES.c.hypervisor_hostname == name)).mappings().first()


def traits_of(conn: sa.Connection, host: str) -> list[str]:
    """The traits that a host has reported."""
    nodes = models.compute_nodes
    found = conn.execute(sa.select(nodes.c.traits).where(nodes.c.host == host)).scalars().all()
    return sorted({trait for traits in found for trait in traits or ()})


def count_failed_build(conn: sa.Connection, host: str) -> None:
    """One more build failed on this host in a row; read by BuildFailureWeigher."""
    conn.execute(sa.update(NODES).where(NODES.c.host == host)
                 .values(failed_builds=NODES.c.failed_builds + 1, updated_at=units.utcnow()))


def reset_failed_builds(conn: sa.Connection, host: str) -> None:
    """A build went well: the host's failures are forgotten. Writes nothing when there are none."""
    conn.execute(sa.update(NODES).where(NODES.c.host == host, NODES.c.failed_builds != 0)
                 .values(failed_builds=0, updated_at=units.utcnow()))


def nodes_changed(conn: sa.Connection, since: datetime.datetime | None = None) -> Sequence[sa.Row]:
    """The columns that the host table needs, of the nodes changed at or after ``since`` (None: all)."""
    query = sa.select(*_TABLE_COLUMNS)
    if since is not None:
        query = query.where(sa.or_(NODES.c.updated_at >= since, NODES.c.updated_at.is_(None)))
    return conn.execute(query.order_by(NODES.c.id)).all()


def nodes_by_id(conn: sa.Connection, ids: Sequence[int]) -> Sequence[sa.Row]:
    """The same columns of some nodes."""
    return conn.execute(sa.select(*_TABLE_COLUMNS).where(NODES.c.id.in_(ids))).all()


def compute_services(conn: sa.Connection, since: datetime.datetime | None = None) -> Sequence[sa.Row]:
    """host, disabled, forced_down, updated_at of all compute services, or of those changed at or after ``since``. A heartbeat
    does not change a service in this sense."""
    query = sa.select(SERVICES.c.host, SERVICES.c.disabled, SERVICES.c.forced_down, SERVICES.c.updated_at).where(
        SERVICES.c.binary == services.COMPUTE)
    if since is not None:
        query = query.where(SERVICES.c.updated_at >= since)
    return conn.execute(query).all()


def services_held_back(conn: sa.Connection, down_time: float) -> Sequence[sa.Row]:
    """host, disabled, forced_down, is_silent of the compute services that are disabled, or down: declared down, or silent for
    ``down_time`` seconds by the clock of the database."""
    is_silent = SERVICES.c.last_seen_at < clock.after(conn, -down_time)
    query = sa.select(SERVICES.c.host, SERVICES.c.disabled, SERVICES.c.forced_down, is_silent.label("is_silent"))
    return conn.execute(query.where(SERVICES.c.binary == services.COMPUTE, sa.or_(
        SERVICES.c.disabled, SERVICES.c.forced_down, is_silent))).all()


def count_all(conn: sa.Connection) -> tuple[int, int]:
    """How many nodes and how many compute services there are."""
    nodes = sa.select(sa.func.count()).select_from(NODES).scalar_subquery()
    of_hosts = sa.select(sa.func.count()).select_from(SERVICES).where(SERVICES.c.binary == services.COMPUTE).scalar_subquery()
    row = conn.execute(sa.select(nodes, of_hosts)).one()
    return row[0], row[1]
