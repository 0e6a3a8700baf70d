"""Where servers are and in which states: the few columns by which the guests of a host are compared with its servers."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

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


def with_guests(conn: sa.Connection, host: str,
                guests: Collection[str]) -> tuple[dict[str, ServerState], dict[str, ServerState]]:
    """The living servers of a host, and the servers of its guests, which may be deleted or at other hosts."""
    here = on_host(conn, host)
    others = of(conn, set(guests) - set(here))
    return here, others | {uuid: state for uuid, state in here.items() if uuid in guests}


def _read(conn: sa.Connection, query: sa.Select) -> dict[str, ServerState]:
    return {row.uuid: ServerState(*row) for row in conn.execute(query)}
