"""The NUMA nodes of a guest: asked for by name, or because its CPUs or its pages are bound."""
from __future__ import annotations

import re
from dataclasses import dataclass

from nova_lite import exception
from nova_lite.objects.hardware import cpu
from nova_lite.objects.hardware.asked import Asked, ranges

SMALL, LARGE, ANY = "small", "large", "any"
_UNITS = {"": 1, "K": 1, "KB": 1, "KIB": 1, "M": 1024, "MB": 1024, "MIB": 1024, "G": 1024**2, "GB": 1024**2, "GIB": 1024**2}


@dataclass(frozen=True)
class Cell:
    """One node of a guest: its vCPUs and its MiB of memory."""

    cpus: tuple[int, ...]
    memory_mb: int


@dataclass(frozen=True)
class Demand:
    """Cells that each need a node of the host for themselves. ``page_size`` is small, large, any, a number of KiB, or None."""

    cells: tuple[Cell, ...]
    policy: cpu.Policy
    page_size: str | int | None = None


def demand(asked: Asked) -> Demand | None:
    """None: the guest may float over the host. Raises InvalidHardware for what contradicts itself."""
    policy, page_size, nodes = cpu.policy(asked), _page_size(asked), _nodes(asked)
    if nodes is None:
        if not policy.dedicated and page_size is None:
            return None
        nodes = 1
    return Demand(_cells(asked, nodes), policy, page_size)


def _nodes(asked: Asked) -> int | None:
    spec, given = asked.number("hw:numa_nodes"), asked.number("hw_numa_nodes")
    if spec is not None and given is not None:
        raise exception.InvalidHardware(reason="Image property 'hw_numa_nodes' is not permitted to override NUMA configuration "
                                               "set against the flavor")
    return spec or given


def _cells(asked: Asked, nodes: int) -> tuple[Cell, ...]:
    vcpus, memory = asked.flavor.vcpus, asked.flavor.memory_mb
    if nodes > vcpus:
        raise exception.InvalidHardware(reason=f"{vcpus} vcpus cannot be divided among {nodes} NUMA nodes")
    cpus = [asked.either(f"numa_cpus.{n}") for n in range(nodes)]
    sizes = [asked.either(f"numa_mem.{n}") for n in range(nodes)]
    if asked.either(f"numa_cpus.{nodes}") or asked.either(f"numa_mem.{nodes}"):
        raise exception.InvalidHardware(reason=f"CPU or memory is allocated to NUMA node {nodes}, but the guest has {nodes} "
                                               "of them, from 0 on")
    if not any(cpus) and not any(sizes):
        if vcpus % nodes or memory % nodes:
            raise exception.InvalidHardware(reason="Instance CPUs and/or memory cannot be evenly distributed across instance "
                                                   "NUMA nodes. Explicit assignment of CPUs and memory to nodes is required")
        each = vcpus // nodes
        return tuple(Cell(tuple(range(n * each, (n + 1) * each)), memory // nodes) for n in range(nodes))
    if None in cpus or None in sizes:
        raise exception.InvalidHardware(reason="CPU and memory allocation must be provided for all NUMA nodes")
    made = tuple(Cell(_cpus(str(c)), _memory(str(m))) for c, m in zip(cpus, sizes, strict=True))
    _check(made, vcpus, memory)
    return made


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return tuple(ranges(text))
    except ValueError:
        raise exception.InvalidHardware(reason=f"numa_cpus {text} is not a list of CPUs") from None


def _memory(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise exception.InvalidHardware(reason=f"numa_mem {text} is not a number of MiB")
    return int(text)


def _check(cells: tuple[Cell, ...], vcpus: int, memory: int) -> None:
    assigned = [number for cell in cells for number in cell.cpus]
    if any(number >= vcpus for number in assigned):
        raise exception.InvalidHardware(reason=f"CPU number {max(assigned)} is larger than max {vcpus - 1}")
    if len(set(assigned)) < len(assigned):
        twice = sorted({number for number in assigned if assigned.count(number) > 1})
        raise exception.InvalidHardware(reason=f"CPU number {twice[0]} is assigned to two nodes")
    if len(assigned) < vcpus:
        raise exception.InvalidHardware(reason=f"CPU numbers {sorted(set(range(vcpus)) - set(assigned))} are not assigned to a "
                                               "node")
    if sum(cell.memory_mb for cell in cells) != memory:
        raise exception.InvalidHardware(reason=f"{sum(cell.memory_mb for cell in cells)} MB of memory assigned, but expected "
                                               f"{memory} MB")


def _page_size(asked: Asked) -> str | int | None:
    spec, given = asked.spec("hw:mem_page_size"), asked.property("hw_mem_page_size")
    asked_by_flavor = None if spec is None else _parse(asked, "hw:mem_page_size", spec)
    if given is None:
        return asked_by_flavor
    if asked_by_flavor not in (LARGE, ANY):
        raise exception.InvalidHardware(reason=f"Page size {given} forbidden against '{spec or 'small'}'")
    return _parse(asked, "hw_mem_page_size", given)


def _parse(asked: Asked, name: str, text: str) -> str | int:
    if text.lower() in (SMALL, LARGE, ANY):
        return text.lower()
    match = re.fullmatch(r"(\d+)\s*([KMG]?I?B?)", text.upper())
    if match is None or match[2] not in _UNITS or not int(match[1]):
        raise exception.InvalidHardware(reason=f"{asked.whose(name)} Invalid memory page size '{text}'")
    return int(match[1]) * _UNITS[match[2]]
