"""All hosts in memory, kept true by reading what changed: the only part of choosing that talks to the database."""
from __future__ import annotations

import dataclasses
import datetime
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from oslo_config import cfg

from nova_lite import units
from nova_lite.db import aggregates as db_aggregates
from nova_lite.db import hosts as db_hosts
from nova_lite.scheduler.snapshot import Aggregate, Snapshot

OVERLAP = datetime.timedelta(seconds=2)     # a transaction is seen later than the time that it wrote
CHECK_INTERVAL = 1.0
"""Seconds after which a snapshot asks again for the services that are down or disabled, and for the numbers of nodes and
services. The database reads something of each host for that. Other changes, and what an operator has just disabled, are seen at
once, as far as the clocks of those who write them agree."""
_NEVER = datetime.datetime(1970, 1, 1)      # noqa: DTZ001  naive, as the database holds times
ZONE = "availability_zone"

_NUMBERS: dict[str, tuple[type, Callable[[Any], float]]] = {
    "ids": (np.int64, lambda r: r.id),
    "vcpus": (np.int64, lambda r: r.vcpus),
    "memory_mb": (np.int64, lambda r: r.memory_mb),
    "local_gb": (np.int64, lambda r: r.local_gb),
    "vcpus_capacity": (np.float64, lambda r: (r.vcpus - r.reserved_vcpus) * r.cpu_allocation_ratio),
    "memory_mb_capacity": (np.float64, lambda r: (r.memory_mb - r.reserved_memory_mb) * r.ram_allocation_ratio),
    "local_gb_capacity": (np.float64, lambda r: (r.local_gb - r.reserved_local_gb) * r.disk_allocation_ratio),
    "vcpus_used": (np.int64, lambda r: r.vcpus_used),
    "memory_mb_used": (np.int64, lambda r: r.memory_mb_used),
    "local_gb_used": (np.int64, lambda r: r.local_gb_used),
    "instances_used": (np.int64, lambda r: r.instances_used),
    "io_ops": (np.int64, lambda r: r.io_ops),
    "failed_builds": (np.int64, lambda r: r.failed_builds),
    "hypervisor_version": (np.int64, lambda r: r.hypervisor_version),
}


class HostTable:
    """Hands out snapshots that never change. Safe to use from many threads."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._lock = threading.RLock()
        self._rows: dict[int, Any] = {}
        self._services = _Services(conf.compute.service_down_time)
        self._aggregates: list[dict[str, Any]] = []
        self._since: datetime.datetime | None = None
        self._checked = self._all_read = float("-inf")
        self._aggregates_seen: object = None
        self._base: Snapshot | None = None

    def snapshot(self, conn: sa.Connection, full: bool = False) -> Snapshot:
        """The hosts at this moment. ``full`` reads everything again, which also finds changes that no timestamp shows."""
        with self._lock:
            try:
                self._refresh(conn, full)
            except BaseException:
                self._base = None       # a part of the news may have been read: the next snapshot is built anew
                raise
            assert self._base is not None
            return self._base

    def reload(self, conn: sa.Connection, node_ids: Iterable[int]) -> None:
        """Read some nodes again, those whose claim has failed, for example."""
        with self._lock:
            asked = set(node_ids)
            found = db_hosts.nodes_by_id(conn, sorted(asked))
            self._take_nodes(found, gone=asked - {row.id for row in found})

    @property
    def seconds_since_full(self) -> float:
        """How long ago everything was read."""
        return time.monotonic() - self._all_read

    # what changed ---------------------------------------------------------------------------------------------------
    def _refresh(self, conn: sa.Connection, full: bool) -> None:
        began = time.monotonic()
        is_due = full or began - self._checked >= CHECK_INTERVAL
        nodes, services = db_hosts.count_all(conn) if is_due else (None, None)
        if full or self._since is None:
            self._all_read = began
            self._read_all_nodes(conn)
        else:
            self._take_nodes(db_hosts.nodes_changed(conn, self._since - OVERLAP))
            if nodes not in (None, len(self._rows)):
                self._read_all_nodes(conn)
        versions = db_aggregates.versions(conn)
        if full or versions != self._aggregates_seen:
            self._aggregates, self._aggregates_seen = db_aggregates.list_all(conn), versions
            self._base = None
        changed = self._services.refresh(conn, services)
        if is_due:
            self._checked = began
        if self._base is None:
            self._build()
        elif changed:
            self._base = self._services.mark(self._base)

    def _read_all_nodes(self, conn: sa.Connection) -> None:
        rows = db_hosts.nodes_changed(conn)
        self._take_nodes(rows, gone=set(self._rows) - {row.id for row in rows})
        if self._since is None:
            self._since, self._base = _NEVER, None

    def _take_nodes(self, rows: Sequence[Any], gone: Iterable[int] = ()) -> None:
        changed = [row for row in rows if self._rows.get(row.id) != row]
        for node_id in gone:
            if self._rows.pop(node_id, None) is not None:
                self._base = None
        if self._base is not None and not self._patch(changed):
            self._base = None
        self._rows.update((row.id, row) for row in changed)
        if changed:
            newest = max((row.updated_at for row in changed if row.updated_at), default=_NEVER)
            # a clock ahead of ours must not hide what others write
            self._since = max(self._since or _NEVER, min(newest, units.utcnow()))

    def _patch(self, changed: Sequence[Any]) -> bool:
        """Write the changed numbers into a copy of the arrays; False when more than numbers changed."""
        base = self._base
        assert base is not None
        if not changed:
            return True
        if any(row.id not in self._rows or _kind(row) != _kind(self._rows[row.id]) for row in changed):
            return False
        where = np.searchsorted(base.ids, [row.id for row in changed])
        arrays = {}
        for name, (kind, number) in _NUMBERS.items():
            array = getattr(base, name).copy()
            array[where] = np.fromiter((number(row) for row in changed), dtype=kind, count=len(changed))
            arrays[name] = array
        numas = {row: _text(node.numa_topology) for row, node in zip(where.tolist(), changed, strict=True)}
        kept: dict[str, Any] = {}
        if any(base.numas[base.numa[row]] != text for row, text in numas.items()):
            kept["numa"], kept["numas"] = _codes(
                [numas.get(row, base.numas[position]) for row, position in enumerate(base.numa.tolist())])
        self._base = dataclasses.replace(base, **arrays, **kept)
        return True

    # arrays ---------------------------------------------------------------------------------------------------------
    def _build(self) -> None:
        rows = [self._rows[node_id] for node_id in sorted(self._rows)]
        hosts = tuple(row.host for row in rows)
        rows_of = _positions(hosts)
        support, supports = _codes([_text(row.supported_instances) for row in rows])
        trait, traits = _codes([_text(row.traits) for row in rows])
        numa, numas = _codes([_text(row.numa_topology) for row in rows])
        zone, zones = self._zones(hosts)
        arrays: dict[str, Any] = {name: np.fromiter((number(row) for row in rows), dtype=kind, count=len(rows))
                                  for name, (kind, number) in _NUMBERS.items()}
        nothing = np.zeros(len(rows), dtype=bool)
        self._base = self._services.mark(Snapshot(
            hosts=hosts, nodes=tuple(row.hypervisor_hostname for row in rows),
            hypervisor_type=np.array([row.hypervisor_type for row in rows], dtype=object),
            support=support, supports=tuple(_supported(text) for text in supports),
            trait=trait, traits=tuple(frozenset(json.loads(text) or ()) for text in traits), numa=numa, numas=numas,
            up=nothing, enabled=nothing, zone=zone, zones=zones, rows_of=rows_of,
            aggregates=tuple(_aggregate(a, rows_of, len(rows)) for a in self._aggregates), **arrays))

    def _zones(self, hosts: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
        of_host = {host: aggregate["metadata"][ZONE] for aggregate in self._aggregates
                   if (aggregate["metadata"] or {}).get(ZONE) for host in aggregate["hosts"]}
        default = self._conf.compute.default_availability_zone
        return _codes([of_host.get(host, default) for host in hosts])


class _Services:
    """Which hosts have a service, and which of these must not get servers."""

    def __init__(self, down_time: float) -> None:
        self._down_time, self._since = down_time, _NEVER
        self._known: set[str] = set()
        self._disabled: set[str] = set()
        self._forced_down: set[str] = set()
        self._silent: set[str] = set()

    def refresh(self, conn: sa.Connection, count: int | None) -> bool:
        """Read what changed. With ``count``, the number of services, also what no timestamp shows. True when something is
        different now."""
        before = self._state()
        rows = db_hosts.compute_services(conn, self._since - OVERLAP)
        for row in rows:
            self._known.add(row.host)
            for hosts, is_in in ((self._disabled, row.disabled), (self._forced_down, row.forced_down)):
                (hosts.add if is_in else hosts.discard)(row.host)
        newest = max((row.updated_at for row in rows), default=_NEVER)
        self._since = max(self._since, min(newest, units.utcnow()))
        if count is not None:
            held = db_hosts.services_held_back(conn, self._down_time)
            self._disabled = {row.host for row in held if row.disabled}
            self._forced_down = {row.host for row in held if row.forced_down}
            self._silent = {row.host for row in held if row.is_silent}
            if len(self._known) != count:
                self._known = {row.host for row in db_hosts.compute_services(conn)}
        return self._state() != before

    def _state(self) -> tuple[object, ...]:
        return len(self._known), frozenset(self._disabled), frozenset(self._forced_down), frozenset(self._silent)

    def mark(self, base: Snapshot) -> Snapshot:
        """With ``up`` and ``enabled``. A node whose host has no service is neither."""
        strangers = base.rows_of.keys() - self._known
        return dataclasses.replace(base, up=~base.on_hosts(self._forced_down | self._silent | strangers),
                                   enabled=~base.on_hosts(self._disabled | strangers))


def _kind(row: Any) -> tuple[str, ...]:
    return row.host, row.hypervisor_hostname, row.hypervisor_type, _text(row.supported_instances), _text(row.traits)


def _codes(texts: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Each text as a position in the tuple of all that differ."""
    codes: dict[str, int] = {}
    positions = [codes.setdefault(text, len(codes)) for text in texts]
    return np.array(positions, dtype=np.intp), tuple(codes)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _supported(text: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((str(a), str(h), str(m)) for a, h, m in json.loads(text) or ())


def _positions(hosts: Sequence[str]) -> dict[str, np.ndarray]:
    lists: dict[str, list[int]] = {}
    for position, host in enumerate(hosts):
        lists.setdefault(host, []).append(position)
    return {host: np.array(positions, dtype=np.intp) for host, positions in lists.items()}


def _aggregate(record: Mapping[str, Any], rows_of: Mapping[str, np.ndarray], size: int) -> Aggregate:
    mask = np.zeros(size, dtype=bool)
    for host in record["hosts"]:
        if host in rows_of:
            mask[rows_of[host]] = True
    values = {key: frozenset(part.strip() for part in str(value).split(","))
              for key, value in (record["metadata"] or {}).items()}
    return Aggregate(id=record["id"], name=record["name"], values=values, mask=mask)
