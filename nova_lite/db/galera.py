"""MariaDB as a cluster of nodes (Galera) that services write to at once, each of them to any node.

A node certifies a transaction when it commits. The transaction fails like a deadlock (1213) if another node has changed one of
its rows first, and ``Database.write`` runs it again. Row locks hold on their own node only. So a row that serialises
transactions is changed, not only locked: ``quotas.lock`` and ``claims._lock_group`` do so, and :func:`change_locked` does it
for any table.
https://mariadb.com/kb/en/mariadb-galera-cluster-known-limitations/
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import ExceptionContext

from nova_lite import units
from nova_lite.db import time_limit

_IS_NODE = "galera"     # in the ``info`` of a connection
NOT_READY = {"1047", "1180"}
"""1047: the node has no majority of the cluster, or has not caught up yet. 1180: the same at a COMMIT, which is
rolled back."""
SEE_ALL_COMMITS = 1 | 2 | 4
"""For ``wsrep_sync_wait``: a transaction that begins with a SELECT, UPDATE, DELETE or INSERT waits until the node has all that
other nodes had committed. What one service has written, another one finds, whichever node it asks."""


def follow(engine: sa.Engine) -> None:
    """Use a cluster as such, if the server of the engine is a node of one."""
    sa.event.listen(engine, "connect", _see_all_commits)
    sa.event.listen(engine, "handle_error", _leave_node)


def change_locked(conn: sa.Connection, table: sa.Table, ids: Collection[int]) -> None:
    """Change rows that the transaction has locked, where the server is a node of a cluster. When a transaction on another node
    changes such a row, too, the later of the two fails at its COMMIT and is run again. Other servers need only the lock."""
    if ids and conn.info.get(_IS_NODE):
        conn.execute(sa.update(table).where(table.c.id.in_(sorted(ids))).values(updated_at=units.utcnow()))


def _see_all_commits(connection: Any, record: sa.pool.ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute("SHOW VARIABLES LIKE 'wsrep_on'")        # MySQL has no such variable
        row = cursor.fetchone()
        if row is not None and row[1] == "ON":
            record.info[_IS_NODE] = True
            cursor.execute(f"SET SESSION wsrep_sync_wait = {SEE_ALL_COMMITS}")
    finally:
        cursor.close()


def _leave_node(context: ExceptionContext) -> None:
    """The load balancer gives the next connection to another node."""
    error = context.sqlalchemy_exception
    if isinstance(error, sa.exc.DBAPIError) and time_limit.code_of(error) in NOT_READY:
        context.is_disconnect = True
