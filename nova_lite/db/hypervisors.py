"""Hypervisors: compute nodes with the service that reports for them, for the API."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, paging
from nova_lite.db.services import COMPUTE

T = models.compute_nodes
_SERVICE = models.services
_SERVICE_COLUMNS = ("id", "uuid", "disabled", "disabled_reason", "forced_down", "last_seen_at")


def _query() -> sa.Select:
    joined = T.join(_SERVICE, sa.and_(_SERVICE.c.host == T.c.host, _SERVICE.c.binary == COMPUTE))
    return sa.select(T, *[_SERVICE.c[name].label(f"service_{name}") for name in _SERVICE_COLUMNS]).select_from(joined)


def _record(row: sa.Row) -> dict[str, Any]:
    values = dict(row._mapping)
    values["service"] = {name: values.pop(f"service_{name}") for name in _SERVICE_COLUMNS} | {"host": values["host"]}
    return values


def list_page(conn: sa.Connection, limit: int | None = None, marker: int | str | None = None,
              pattern: str | None = None) -> list[dict[str, Any]]:
    """Nodes after ``marker`` (number or uuid), or those with ``pattern`` in their name; each with its ``service``.

    Raises MarkerNotFound.
    """
    after = None
    if marker is not None:
        number = conn.scalar(sa.select(T.c.id).where(_key(marker) == marker))
        if number is None:
            raise exception.MarkerNotFound(marker=marker)
        after = [number]
    query = _query()
    if pattern is not None:
        query = query.where(T.c.hypervisor_hostname.contains(pattern, autoescape=True))
    return [_record(row) for row in conn.execute(paging.page(query, [(T.c.id, "asc")], conn.dialect.name, limit, after))]


def get(conn: sa.Connection, hypervisor_id: int | str) -> dict[str, Any]:
    """One node by number or uuid; raises HypervisorNotFound."""
    row = conn.execute(_query().where(_key(hypervisor_id) == hypervisor_id)).first()
    if row is None:
        raise exception.HypervisorNotFound(hypervisor_id=hypervisor_id)
    return _record(row)


def first_of_host(conn: sa.Connection, host: str) -> dict[str, Any]:
    """The node of a host, the oldest where there are several; raises ComputeHostNotFound."""
    row = conn.execute(_query().where(T.c.host == host).order_by(T.c.id).limit(1)).first()
    if row is None:
        raise exception.ComputeHostNotFound(host=host)
    return _record(row)


def promised(conn: sa.Connection, host: str) -> list[dict[str, Any]]:
    """What the flavors of a host's living servers say: project_id, vcpus, memory_mb and disk_gb (without swap) of each."""
    instances = models.instances
    columns = (instances.c.project_id, instances.c.vcpus, instances.c.memory_mb, instances.c.root_gb, instances.c.flavor)
    query = sa.select(*columns).where(instances.c.host == host, instances.c.deleted == 0).order_by(instances.c.id)
    return [{"project_id": row.project_id, "vcpus": row.vcpus, "memory_mb": row.memory_mb,
             "disk_gb": row.root_gb + row.flavor.get("ephemeral_gb", 0)} for row in conn.execute(query)]


def _key(hypervisor_id: int | str) -> sa.ColumnElement:
    return T.c.uuid if isinstance(hypervisor_id, str) else T.c.id


def servers(conn: sa.Connection, nodes: Collection[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, str]]]:
    """The living servers of nodes, [{"uuid", "name"}] by (host, node). One query."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {(n["host"], n["hypervisor_hostname"]): [] for n in nodes}
    instances = models.instances
    query = sa.select(instances.c.host, instances.c.node, instances.c.uuid, instances.c.display_name).where(
        instances.c.host.in_({host for host, _ in found}), instances.c.deleted == 0).order_by(instances.c.id)
    for host, node, uuid, name in conn.execute(query):
        if (host, node) in found:
            found[host, node].append({"uuid": uuid, "name": name})
    return found


def statistics(conn: sa.Connection) -> dict[str, int]:
    """Sums over all nodes."""
    free_disk = sa.func.coalesce(T.c.free_disk_gb, T.c.local_gb - T.c.local_gb_used - T.c.reserved_local_gb)
    sums = {"vcpus": T.c.vcpus, "vcpus_used": T.c.vcpus_used, "memory_mb": T.c.memory_mb,
            "memory_mb_used": T.c.memory_mb_used + T.c.reserved_memory_mb,
            "free_ram_mb": T.c.memory_mb - T.c.memory_mb_used - T.c.reserved_memory_mb, "local_gb": T.c.local_gb,
            "local_gb_used": T.c.local_gb_used + T.c.reserved_local_gb, "free_disk_gb": free_disk,
            "disk_available_least": sa.func.coalesce(T.c.disk_available_least, free_disk),
            "current_workload": T.c.io_ops, "running_vms": T.c.instances_used}
    joined = T.join(_SERVICE, sa.and_(_SERVICE.c.host == T.c.host, _SERVICE.c.binary == COMPUTE))
    query = sa.select(sa.func.count().label("count"), *[
        sa.func.coalesce(sa.func.sum(column), 0).label(name) for name, column in sums.items()]).select_from(joined)
    return {name: int(value) for name, value in conn.execute(query).one()._mapping.items()}
