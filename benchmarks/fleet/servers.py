"""Many servers without building them: rows of the database and guests of the fake hypervisor, copied from one real server."""
from __future__ import annotations

import datetime
import json
import pathlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models
from nova_lite.db.core import Database
from nova_lite.objects import states
from tests.support.client import Compute
from tests.support.process import wait_for

T, NODES, ALLOCATIONS = models.instances, models.compute_nodes, models.allocations
PROJECTS = 50
OFF_EVERY = 10          # one server of these is shut off
AT_ONCE = 2000


def guests_file(state: pathlib.Path, host: str = "") -> pathlib.Path:
    """Where the fake hypervisor of a host keeps its guests; without a host: what ``[fake] state_file`` says."""
    return state / (f"guests.{host}" if host else "guests")


class Servers:
    """``each``: servers of a host; 0: none is ever made. ``state``: state_path of the hosts."""

    def __init__(self, db: Database, state: pathlib.Path, each: int) -> None:
        self._db, self._state, self._each = db, state, each
        self._pattern: dict[str, Any] = {}

    def add(self, client: Callable[[], Compute], hosts: Sequence[str]) -> None:
        """Servers and guests of hosts that have not started yet."""
        if not self._each:
            return
        if not self._pattern:
            self._pattern = self._built(client())
        rows: list[dict[str, Any]] = []
        (self._state / "hosts").mkdir(exist_ok=True)
        for host in hosts:
            (self._state / "hosts" / host).touch()      # where a host notes that it had this name before
            mine = [self._row(host, number) for number in range(self._each)]
            guests_file(self._state, host).write_text(json.dumps(
                {row["uuid"]: {"power_state": row["power_state"], "name": row["display_name"]} for row in mine}))
            rows += mine
        for first in range(0, len(rows), AT_ONCE):
            self._db.write(lambda conn, some: conn.execute(sa.insert(T), some), rows[first:first + AT_ONCE])

    def _built(self, client: Compute) -> dict[str, Any]:
        """The row of a server that the API has written. Without a host yet it is of no other use and goes."""
        made = client.boot("pattern")
        wait_for("the first server to fail for want of a host", lambda: client.server(made["id"])["status"] == "ERROR", 120)
        with self._db.read() as conn:
            row = dict(conn.execute(sa.select(T).where(T.c.uuid == made["id"])).mappings().one())
        client.delete(made["id"])
        del row["id"]
        return row

    def _row(self, host: str, number: int) -> dict[str, Any]:
        now = units.utcnow() - datetime.timedelta(seconds=number)
        off = number % OFF_EVERY == 0
        return {**self._pattern, "uuid": str(uuid.uuid4()), "project_id": f"project-{number % PROJECTS}",
                "display_name": f"server-{host}-{number}", "hostname": f"server-{host}-{number}", "host": host, "node": host,
                "launched_on": host, "availability_zone": "nova", "vm_state": states.STOPPED if off else states.ACTIVE,
                "task_state": None, "power_state": states.SHUTDOWN if off else states.RUNNING, "fault": None,
                "created_at": now, "updated_at": now, "launched_at": None}

    def claim(self) -> None:
        """Room on their nodes, when these are there. Until then the servers look as if they had never been launched: the
        conductor claims nothing for such."""
        if self._each:
            self._db.write(_claim)


def _claim(conn: sa.Connection) -> None:
    mine = sa.and_(ALLOCATIONS.c.instance_uuid == T.c.uuid, ALLOCATIONS.c.compute_node_id == NODES.c.id)
    rows = sa.select(sa.literal(units.utcnow(), models.Time), T.c.uuid, NODES.c.id, T.c.vcpus, T.c.memory_mb, T.c.root_gb,
                     sa.literal(0)).select_from(T.join(NODES, sa.and_(NODES.c.host == T.c.host, T.c.deleted == 0)).join(
                         ALLOCATIONS, mine, isouter=True)).where(ALLOCATIONS.c.id.is_(None))
    conn.execute(sa.insert(ALLOCATIONS).from_select(
        ["created_at", "instance_uuid", "compute_node_id", "vcpus", "memory_mb", "disk_gb", "pci_devices"], rows,
        include_defaults=False))

    def summed(what: sa.ColumnElement) -> sa.ScalarSelect:
        return sa.select(sa.func.coalesce(what, 0)).where(ALLOCATIONS.c.compute_node_id == NODES.c.id).scalar_subquery()

    conn.execute(sa.update(NODES).values(
        vcpus_used=summed(sa.func.sum(ALLOCATIONS.c.vcpus)), memory_mb_used=summed(sa.func.sum(ALLOCATIONS.c.memory_mb)),
        local_gb_used=summed(sa.func.sum(ALLOCATIONS.c.disk_gb)), instances_used=summed(sa.func.count()),
        updated_at=units.utcnow()))
    conn.execute(sa.update(T).where(T.c.launched_at.is_(None), T.c.host.is_not(None), T.c.deleted == 0).values(
        launched_at=T.c.created_at))
