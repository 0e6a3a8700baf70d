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
"""Seconds after which a snapshot asks again which hosts are silent, and how many hosts there are: the database reads something
of each host for that. All other changes are seen at once, as far as the clocks of those who write them agree."""
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
        self._services: dict[str, Any] = {}
        self._aggregates: list[dict[str, Any]] = []
        self._since: datetime.datetime | None = None
        self._services_since = _NEVER
        self._checked = self._all_read = float("-inf")
        self._silent: Sequence[str] = ()
        self._aggregates_seen: object = None
        self._base: Snapshot | None = None
        self._not_forced_down: np.ndarray = np.empty(0, dtype=bool)

    def snapshot(self, conn: sa.Connection, full: bool = False) -> Snapshot:
        """The hosts at this moment. ``full`` reads everything again, which also finds changes that no timestamp shows."""
        with self._lock:
            self._refresh(conn, full)
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
        is_due = full or time.monotonic() - self._checked >= CHECK_INTERVAL
        nodes, services = db_hosts.count_all(conn) if is_due else (None, None)
        if full or self._since is None:
            self._all_read = time.monotonic()
            self._read_all_nodes(conn)
        else:
            self._take_nodes(db_hosts.nodes_changed(conn, self._since - OVERLAP))
            if nodes not in (None, len(self._rows)):
                self._read_all_nodes(conn)
        versions = db_aggregates.versions(conn)
        if full or versions != self._aggregates_seen:
            self._aggregates, self._aggregates_seen = db_aggregates.list_all(conn), versions
            self._base = None
        changed = self._read_services(conn, full, services)
        if is_due:
            self._checked = time.monotonic()
            self._silent = db_hosts.silent_hosts(conn, self._conf.compute.service_down_time)
        if self._base is None:
            self._build()
        elif changed:
            self._take_services(self._base)
        elif is_due:
            self._take_silent(self._base)

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

    def _read_services(self, conn: sa.Connection, full: bool, count: int | None) -> bool:
        """``count``: how many there are, if that was asked. True when something changed."""
        rows = list(db_hosts.compute_services(conn, None if full else self._services_since - OVERLAP))
        changed = [row for row in rows if self._services.get(row.host) != row]
        self._services.update((row.host, row) for row in changed)
        if count not in (None, len(self._services)):        # some were deleted
            rows = changed = list(db_hosts.compute_services(conn))
            self._services = {row.host: row for row in rows}
        newest = max((row.updated_at for row in rows if row.updated_at), default=_NEVER)
        self._services_since = max(self._services_since, min(newest, units.utcnow()))
        return bool(changed)

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
        self._take_services(Snapshot(
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

    def _take_services(self, base: Snapshot) -> None:
        found = [self._services.get(host) for host in base.hosts]
        self._not_forced_down = np.array([s is not None and not s.forced_down for s in found], dtype=bool)
        enabled = np.array([s is not None and not s.disabled for s in found], dtype=bool)
        self._take_silent(dataclasses.replace(base, enabled=enabled))

    def _take_silent(self, base: Snapshot) -> None:
        self._base = dataclasses.replace(base, up=self._not_forced_down & ~base.on_hosts(self._silent))


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
