"""Where the NUMA nodes of a guest go on a host. Pure: the scheduler asks whether there is a place, the host asks for the place.

Each node of a guest needs a node of the host for itself. Memory is never overcommitted there, and a dedicated CPU belongs to
one guest.
"""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.hardware import cpu, numa
from nova_lite.objects.hardware.asked import as_ranges, ranges


@dataclass(frozen=True)
class BoundCell:
    """A NUMA node of the guest, ``memory_mb`` large, on the host's node ``host_cell``. ``pins``: vCPU -> the CPUs of the host
    that it may use, as ranges. ``page_kib`` above 0: on huge pages of this size. ``dedicated``: the CPUs are its own."""

    memory_mb: int
    host_cell: int
    pins: Mapping[int, str]
    page_kib: int = 0
    dedicated: bool = False

    def to_primitive(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_primitive(cls, data: Mapping[str, Any]) -> BoundCell:
        """The inverse."""
        return cls(**{**data, "pins": {int(vcpu): str(cpus) for vcpu, cpus in data["pins"].items()}})


@dataclass(frozen=True)
class HostCell:
    """A node of a host, and what guests are bound to it. ``siblings`` are the threads of each core that has several, ``pages``
    {KiB: number of huge pages}; the rest is in use."""

    number: int
    cpus: tuple[int, ...]
    memory_mb: int
    siblings: tuple[tuple[int, ...], ...] = ()
    pages: Mapping[int, int] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()
    memory_used_mb: int = 0                                         # on small pages
    pages_used: Mapping[int, int] = field(default_factory=dict)

    @property
    def memory_free_mb(self) -> int:
        """MiB on small pages that no guest is bound to."""
        return self.memory_mb - sum(size * count for size, count in self.pages.items()) // 1024 - self.memory_used_mb

    def taken(self, bound: BoundCell) -> HostCell:
        """This node with one guest's node more."""
        pinned = self.pinned | {number for cpus in bound.pins.values() for number in ranges(cpus)} if bound.dedicated else \
            self.pinned
        if not bound.page_kib:
            return dataclasses.replace(self, pinned=pinned, memory_used_mb=self.memory_used_mb + bound.memory_mb)
        used = self.pages_used.get(bound.page_kib, 0) + bound.memory_mb * 1024 // bound.page_kib
        return dataclasses.replace(self, pinned=pinned, pages_used={**self.pages_used, bound.page_kib: used})

    def to_primitive(self) -> dict[str, Any]:
        """As JSON has it; CPUs as ranges."""
        return {"id": self.number, "cpus": as_ranges(self.cpus), "memory_mb": self.memory_mb,
                "siblings": [as_ranges(group) for group in self.siblings], "pages": {str(k): v for k, v in self.pages.items()},
                "pinned": as_ranges(self.pinned), "memory_used_mb": self.memory_used_mb,
                "pages_used": {str(k): v for k, v in self.pages_used.items()}}

    @classmethod
    def from_primitive(cls, data: Mapping[str, Any]) -> HostCell:
        """The inverse; unknown keys are another version's."""
        return cls(int(data["id"]), _numbers(data["cpus"]), int(data["memory_mb"]),
                   tuple(_numbers(group) for group in data.get("siblings", ())),
                   {int(k): int(v) for k, v in data.get("pages", {}).items()}, frozenset(_numbers(data.get("pinned", ""))),
                   int(data.get("memory_used_mb", 0)), {int(k): int(v) for k, v in data.get("pages_used", {}).items()})


def place(demand: numa.Demand, cells: Sequence[HostCell]) -> tuple[BoundCell, ...] | None:
    """The host's nodes for the guest's, in the guest's order; None when they do not fit."""
    if len(demand.cells) > len(cells):
        return None

    @functools.cache
    def fit(guest: int, host: int) -> BoundCell | None:
        return _bind(demand, demand.cells[guest], cells[host])

    taken: dict[int, int] = {}      # host's node -> guest's node
    if not all(_matched(guest, len(cells), taken, fit, set()) for guest in range(len(demand.cells))):
        return None
    chosen = sorted((guest, host) for host, guest in taken.items())
    return tuple(bound for guest, host in chosen if (bound := fit(guest, host)) is not None)


def _matched(guest: int, hosts: int, taken: dict[int, int], fit: Callable[[int, int], BoundCell | None],
             seen: set[int]) -> bool:
    """Assign a node of the host to a node of the guest; other nodes may have to change theirs.

    A tenant may ask for any number of nodes, so not all orders are tried: whether a node fits does not depend on the places of
    the others, and a node in ``seen`` need not be tried again.
    """
    for host in sorted(range(hosts), key=lambda number: number in taken):       # free ones first
        if host in seen or fit(guest, host) is None:
            continue
        seen.add(host)
        if host not in taken or _matched(taken[host], hosts, taken, fit, seen):
            taken[host] = guest
            return True
    return False


def _bind(demand: numa.Demand, cell: numa.Cell, host: HostCell) -> BoundCell | None:
    page = next((size for size in _page_sizes(demand, host) if _has_memory(cell, host, size)), None)
    if page is None:
        return None
    if not demand.policy.dedicated:
        if len(cell.cpus) > len(host.cpus):
            return None
        return BoundCell(cell.memory_mb, host.number, dict.fromkeys(cell.cpus, as_ranges(host.cpus)), page)
    chosen = _dedicated(demand.policy.threads, len(cell.cpus), host)
    if chosen is None:
        return None
    pins = {vcpu: str(number) for vcpu, number in zip(cell.cpus, chosen, strict=True)}
    return BoundCell(cell.memory_mb, host.number, pins, page, dedicated=True)


def _page_sizes(demand: numa.Demand, host: HostCell) -> list[int]:
    """In KiB, the best first; 0 are small pages."""
    large = sorted(host.pages, reverse=True)
    wanted = demand.page_size
    if isinstance(wanted, int):
        return [wanted] if wanted in host.pages else [0] if wanted == 4 else []
    return {numa.LARGE: large, numa.ANY: [*large, 0]}.get(wanted or "", [0])


def _has_memory(cell: numa.Cell, host: HostCell, page_kib: int) -> bool:
    if not page_kib:
        return cell.memory_mb <= host.memory_free_mb
    pages, rest = divmod(cell.memory_mb * 1024, page_kib)
    return not rest and pages <= host.pages[page_kib] - host.pages_used.get(page_kib, 0)


def _dedicated(threads: str, count: int, host: HostCell) -> list[int] | None:
    """``count`` free CPUs; threads of one core together. isolate: hosts whose cores have one thread only, since the other
    threads would have to stay free; require: whole cores of several threads."""
    if threads == cpu.ISOLATE and host.siblings:
        return None
    free = [number for number in host.cpus if number not in host.pinned]
    whole = [group for group in host.siblings if set(group) <= set(free)]
    together = [number for group in whole for number in group]
    if threads == cpu.REQUIRE:
        size = len(whole[0]) if whole else 1
        return together[:count] if whole and count % size == 0 and len(together) >= count else None
    # cores of which a part is taken already go first to guests that need a single CPU
    single = [number for number in free if number not in together]
    ordered = single + together if count == 1 else together + single
    return sorted(ordered[:count]) if len(ordered) >= count else None


def in_use(cells: Iterable[HostCell], bound: Iterable[BoundCell]) -> list[HostCell]:
    """The host's nodes with the guests that are bound to them. Guests that are bound to a node that no longer exists are not
    counted."""
    found = {cell.number: cell for cell in cells}
    for each in bound:
        if each.host_cell in found:
            found[each.host_cell] = found[each.host_cell].taken(each)
    return list(found.values())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(ranges(text)) if text else ()
