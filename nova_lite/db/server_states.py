"""Where servers are and in which states: the few columns by which the guests of a host are compared with its servers."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nova_lite.db import models

T = models.instances


@dataclass(frozen=True)
class ServerState:
    """As the columns of ``instances`` have it."""

    uuid: str
    host: str | None
    vm_state: str
    task_state: str | None
    power_state: int
    deleted: int


_QUERY = sa.select(T.c.uuid, T.c.host, T.c.vm_state, T.c.task_state, T.c.power_state, T.c.deleted)


def on_host(conn: sa.Connection, host: str) -> dict[str, ServerState]:
    """The living servers of a host."""
    return _read(conn, _QUERY.where(T.c.host == host, T.c.deleted == 0).order_by(T.c.id))


def of(conn: sa.Connection, uuids: Collection[str]) -> dict[str, ServerState]:
    """Those of the servers that exist, deleted ones too."""
    return _read(conn, _QUERY.where(T.c.uuid.in_(sorted(uuids))).order_by(T.c.id)) if uuids else {}


class HostStates(NamedTuple):
    """The living servers of a host, and the servers of its guests, which may be deleted or at other hosts."""

    here: dict[str, ServerState]
    of_guests: dict[str, ServerState]


def with_guests(conn: sa.Connection, asked: Sequence[tuple[str, Collection[str]]]) -> list[HostStates]:
    """For each (host, its guests), in their order. All of them cost two queries."""
    hosts = sorted({host for host, _ in asked})
    known = _read(conn, _QUERY.where(T.c.host.in_(hosts), T.c.deleted == 0).order_by(T.c.id))
    here: dict[str | None, dict[str, ServerState]] = defaultdict(dict)
    for uuid, state in known.items():
        here[state.host][uuid] = state
    known |= of(conn, {uuid for _, guests in asked for uuid in guests} - set(known))
    return [HostStates(here[host], {uuid: known[uuid] for uuid in guests if uuid in known}) for host, guests in asked]


def _read(conn: sa.Connection, query: sa.Select) -> dict[str, ServerState]:
    return {row.uuid: ServerState(*row) for row in conn.execute(query)}
