"""The scheduler proper: a pure function from hosts and request to ranked hosts. No I/O, no clock, nothing changed outside."""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nova_lite.objects.scheduling import Selection
from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.filters.forced_host import requested
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot
from nova_lite.scheduler.weights.base import Weigher

NamedFilter = tuple[str, Filter]
WeightedWeigher = tuple[Weigher, float]


@dataclass(frozen=True)
class _Step:
    name: str
    mask: Callable[[Snapshot, Request], np.ndarray]
    per_instance: bool = False


@dataclass
class Plan:
    """``choices`` has, for each instance that found a place, its host and then the alternates, best first. When no host was
    left for an instance, ``choices`` is shorter than the request, and ``eliminations`` describes the first instance without a
    place; else it describes the first instance. ``eliminations``: (filter, hosts left after it), of ``total`` hosts."""

    total: int
    choices: list[list[Selection]] = field(default_factory=list)
    eliminations: list[tuple[str, int]] = field(default_factory=list)

    def reason(self) -> str:
        """E.g. ``12 hosts, RamFilter left 3, ServerGroupAntiAffinityFilter left 0``: the filters that took a host away."""
        text, before = f"{self.total} host{'' if self.total == 1 else 's'}", self.total
        for name, left in self.eliminations:
            if left < before:
                text += f", {name} left {left}"
            before = left
        placed = len(self.choices)
        return f"{text} (for server {placed + 1} of this request)" if placed else text


def select(snapshot: Snapshot, request: Request, count: int, filters: Sequence[NamedFilter],
           weighers: Sequence[WeightedWeigher], alternates: int = 2, subset_size: int = 1,
           chance: random.Random | None = None, first: int = 0) -> Plan:
    """Choose hosts for ``count`` equal instances, one after the other; each instance reduces the room for the next.
    ``alternates``: how many more hosts each instance gets. With ``subset_size`` above 1 and ``chance``, an instance gets any of
    that many best hosts. Equal hosts are taken in the order of the snapshot, which begins at row ``first``."""
    working = snapshot.working_copy(request)
    plan = Plan(total=snapshot.size)
    steps = _steps(request, filters)
    mask, fixed = working.everything(), working.everything()
    for step in steps:
        passed = step.mask(working, request)
        mask &= passed
        if not step.per_instance:
            fixed &= passed
        plan.eliminations.append((step.name, int(np.count_nonzero(mask))))
    again = [step for step in steps if step.per_instance]
    weighers = [(w, m) for w, m in weighers if m and w.applies(request)]
    while len(plan.choices) < count:
        rows = np.flatnonzero(mask)
        rows = np.roll(rows, -int(np.searchsorted(rows, first)))
        if not len(rows):
            if plan.choices:
                plan.eliminations = _eliminations(working, request, steps)
            break
        ranked = _best(rows, _scores(working, request, weighers, rows), max(subset_size, 1) + alternates)
        if chance is not None and subset_size > 1:
            position = chance.randrange(min(subset_size, len(ranked)))
            ranked = [ranked[position], *ranked[:position], *ranked[position + 1:]]
        plan.choices.append([_selection(working, row) for row in ranked[:alternates + 1]])
        working.consume(ranked[0], request)
        mask = fixed.copy()
        for each in again:
            mask &= each.mask(working, request)
    return plan


def _eliminations(working: Snapshot, request: Request, steps: Sequence[_Step]) -> list[tuple[str, int]]:
    found, mask = [], working.everything()
    for step in steps:
        mask &= step.mask(working, request)
        found.append((step.name, int(np.count_nonzero(mask))))
    return found


def _scores(working: Snapshot, request: Request, weighers: Sequence[WeightedWeigher], rows: np.ndarray) -> np.ndarray:
    total = np.zeros(len(rows))
    for weigher, multiplier in weighers:
        weights = weigher.weigh(working, request)[rows].astype(np.float64)
        least, most = float(weights.min()), float(weights.max())
        if weigher.lowest is not None:
            least = min(least, weigher.lowest)
        if most > least:
            total += (weights - least) * (multiplier / (most - least))
    return total


def _best(rows: np.ndarray, scores: np.ndarray, count: int) -> list[int]:
    if len(rows) > 4 * count:       # sorting ten thousand hosts to find three takes longer than all the rest
        bar = np.partition(scores, -count)[-count]
        above = np.flatnonzero(scores > bar)
        equal = np.flatnonzero(scores == bar)[:count - len(above)]
        keep = np.sort(np.concatenate([above, equal]))
        rows, scores = rows[keep], scores[keep]
    return [int(row) for row in rows[np.argsort(-scores, kind="stable")[:count]]]


def _selection(snapshot: Snapshot, row: int) -> Selection:
    return Selection(host=snapshot.hosts[row], node=snapshot.nodes[row], compute_node_id=int(snapshot.ids[row]),
                     availability_zone=snapshot.zone_name(row))


def _steps(request: Request, filters: Sequence[NamedFilter]) -> list[_Step]:
    first = [_Step("ignore_hosts", _not_ignored), _Step("claim", _not_barred)]
    if request.forced:
        # a forced host may be disabled (so an operator tries a host out) and strange, but not dead
        return [*first, _Step("ForcedHostFilter", requested), _Step("host up", lambda snapshot, _request: snapshot.up)]
    return [*first, *(_Step(name, each.mask, each.per_instance) for name, each in filters)]


def _not_ignored(snapshot: Snapshot, request: Request) -> np.ndarray:
    return ~snapshot.on_hosts(request.spec.ignore_hosts)


def _not_barred(snapshot: Snapshot, request: Request) -> np.ndarray:
    return ~np.isin(snapshot.ids, sorted(request.barred_nodes)) if request.barred_nodes else snapshot.everything()
