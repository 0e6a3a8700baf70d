"""The hosts at one moment, as numpy arrays with one row per compute node: the input of filters and weighers."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nova_lite.objects.hardware.pci import Pool
from nova_lite.scheduler.request import Request

_NO_ROWS = np.empty(0, dtype=np.intp)
_CONSUMED = ("vcpus_used", "memory_mb_used", "local_gb_used", "instances_used", "io_ops")


@dataclass(frozen=True)
class Aggregate:
    """A host aggregate: ``mask`` is true for its hosts; ``values`` are its metadata, split at commas."""

    id: int
    name: str
    values: Mapping[str, frozenset[str]]
    mask: np.ndarray


@dataclass(frozen=True)
class Snapshot:
    """Every array has one element per node, in the order of their ids. Arrays are never changed but in a :meth:`working_copy`.

    ``trait`` holds positions in ``traits``, what hosts told of themselves, and ``numa`` in ``numas``, HostCells in JSON.
    ``*_capacity`` is (what there is - what is reserved) x allocation ratio, and the most that may be used; ``zone`` and
    ``support`` hold positions in ``zones`` and ``supports``, as thousands of hosts share a few values. ``supports`` are
    tuples of (architecture, hypervisor type, vm mode). ``group_members`` counts members of the request's server group,
    ``placed`` those of the request that have found their place there; ``pci_free`` counts the free devices of each pool.
    """

    ids: np.ndarray
    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    vcpus: np.ndarray
    memory_mb: np.ndarray
    local_gb: np.ndarray
    vcpus_capacity: np.ndarray
    memory_mb_capacity: np.ndarray
    local_gb_capacity: np.ndarray
    vcpus_used: np.ndarray
    memory_mb_used: np.ndarray
    local_gb_used: np.ndarray
    instances_used: np.ndarray
    io_ops: np.ndarray
    failed_builds: np.ndarray
    hypervisor_version: np.ndarray
    hypervisor_type: np.ndarray
    support: np.ndarray
    supports: tuple[tuple[tuple[str, str, str], ...], ...]
    up: np.ndarray
    enabled: np.ndarray
    trait: np.ndarray
    traits: tuple[frozenset[str], ...]
    numa: np.ndarray
    numas: tuple[str, ...]
    zone: np.ndarray
    zones: tuple[str, ...]
    rows_of: Mapping[str, np.ndarray] = field(repr=False)
    aggregates: tuple[Aggregate, ...] = ()
    group_members: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    placed: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    pci_free: Mapping[Pool, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.hosts)

    def everything(self) -> np.ndarray:
        """A mask that is true everywhere."""
        return np.ones(self.size, dtype=bool)

    def nothing(self) -> np.ndarray:
        """A mask that is false everywhere."""
        return np.zeros(self.size, dtype=bool)

    def on_hosts(self, hosts: Iterable[str]) -> np.ndarray:
        """A mask that is true for the nodes of these hosts; unknown hosts are passed over."""
        mask = self.nothing()
        for host in hosts:
            mask[self.rows_of.get(host, _NO_ROWS)] = True
        return mask

    def zone_name(self, row: int) -> str:
        """The availability zone of one node."""
        return self.zones[self.zone[row]]

    def working_copy(self, request: Request) -> Snapshot:
        """A copy whose used amounts :meth:`consume` may change."""
        members = np.zeros(self.size, dtype=np.int64)
        for host, count in request.group_hosts.items():
            members[self.rows_of.get(host, _NO_ROWS)] = count
        copies = {name: getattr(self, name).copy() for name in _CONSUMED}
        return dataclasses.replace(self, group_members=members, placed=np.zeros(self.size, dtype=np.int64), **copies,
                                   pci_free={pool: self._by_row(counts) for pool, counts in request.pci_free.items()})

    def _by_row(self, counts: Sequence[tuple[int, int]]) -> np.ndarray:
        """(node id, number) as one number for each row; nodes that are not here are passed over."""
        known = np.zeros(self.size, dtype=np.int64)
        ids, numbers = np.array(counts, dtype=np.int64).reshape(-1, 2).T
        here = np.isin(ids, self.ids)
        known[np.searchsorted(self.ids, ids[here])] = numbers[here]
        return known

    def consume(self, row: int, request: Request) -> None:
        """Count one more instance of this request on a node. Only for a working copy."""
        self.vcpus_used[row] += request.vcpus
        self.memory_mb_used[row] += request.memory_mb
        self.local_gb_used[row] += request.disk_gb
        self.instances_used[row] += 1
        self.io_ops[row] += 1
        self.placed[row] += 1
        self.group_members[self.rows_of[self.hosts[row]]] += 1
