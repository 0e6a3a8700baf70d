"""What the parts of a cloud use: CPU and memory of processes, statements and rows of a database, messages of a broker."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa

Values = dict[str, float]
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
BUS = ("messages", "deliveries", "bytes_in", "bytes_out")
"""Counters of the broker. It takes a second to read them, so they are read around the others."""
_COUNTERS = "io:format(\"~p ~p\", [rabbit_global_counters:overview(), erlang:statistics(io)])."


@dataclass
class Window:
    """What was used in ``seconds``, and what of the broker in ``bus_seconds``."""

    seconds: float = 0.0
    bus_seconds: float = 0.0
    used: Values = field(default_factory=dict)

    def _seconds_of(self, name: str) -> float:
        return self.bus_seconds if name in BUS else self.seconds

    def rates(self) -> Values:
        """Each a second."""
        return {name: value / self._seconds_of(name) for name, value in self.used.items()}

    def per_event(self, count: float, background: Mapping[str, float]) -> Values:
        """What each of ``count`` events took; ``background``: rates of what went on beside them."""
        return {name: (value - background.get(name, 0.0) * self._seconds_of(name)) / count for name, value in self.used.items()}


class Status(Protocol):
    """The counters of one database server."""

    def read(self) -> Values:
        """Statements without the ends of transactions, commits, rollbacks, rows read and written."""


class MariaDBStatus:
    """SHOW GLOBAL STATUS."""

    _NAMES = {"Com_select": "selects", "Com_insert": "inserts", "Com_insert_select": "inserts", "Com_update": "updates",
              "Com_delete": "deletes", "Com_commit": "commits", "Com_rollback": "rollbacks",
              **{f"Handler_read_{how}": "rows_read" for how in ("first", "key", "last", "next", "prev", "rnd", "rnd_next")},
              **{f"Handler_{how}": "rows_written" for how in ("write", "update", "delete")}}

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)

    def read(self) -> Values:
        with self._engine.connect() as conn:
            rows = conn.execute(sa.text("SHOW GLOBAL STATUS WHERE Variable_name IN :names").bindparams(
                sa.bindparam("names", list(self._NAMES), expanding=True))).all()
        values: Values = dict.fromkeys(self._NAMES.values(), 0.0)
        for name, value in rows:
            values[self._NAMES[name]] += float(value)
        values["statements"] = sum(values[kind] for kind in ("selects", "inserts", "updates", "deletes"))
        return values


class PostgreSQLStatus:
    """pg_stat_statements and pg_stat_database. A statement counts as what its first word says."""

    _KINDS = {"selects": "SELECT", "inserts": "INSERT", "updates": "UPDATE", "deletes": "DELETE"}

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)
        with self._engine.connect() as conn:
            conn.execute(sa.text("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"))

    def read(self) -> Values:
        kinds = ", ".join(f"coalesce(sum(calls) FILTER (WHERE query ILIKE '{word}%'), 0) AS {name}"
                          for name, word in self._KINDS.items())
        with self._engine.connect() as conn:
            row = conn.execute(sa.text(f"SELECT {kinds} FROM pg_stat_statements")).mappings().one()
            values = {name: float(value) for name, value in row.items()}
            values["statements"] = sum(values.values())
            row = conn.execute(sa.text(
                "SELECT xact_commit AS commits, xact_rollback AS rollbacks, tup_fetched AS rows_read, "
                "tup_inserted + tup_updated + tup_deleted AS rows_written FROM pg_stat_database "
                "WHERE datname = current_database()")).mappings().one()
        return values | {name: float(value) for name, value in row.items()}


class Broker:
    """What rabbitmqctl says of one node; no plugin is needed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {**os.environ, **env}

    def _ask(self, *words: str) -> str:
        return subprocess.run(["/usr/lib/rabbitmq/bin/rabbitmqctl", "-q", *words], env=self._env, check=True, timeout=300,
                              capture_output=True, text=True).stdout

    def read(self) -> Values:
        """Messages published and delivered, bytes in and out of all sockets."""
        told = self._ask("eval", _COUNTERS)
        both = re.search(r"\{input,(\d+)\},\s*\{output,(\d+)\}", told)
        assert both is not None, told
        return {"messages": _total(told, "messages_received_total"), "deliveries": _total(told, "messages_delivered_total"),
                "bytes_in": float(both[1]), "bytes_out": float(both[2])}

    def connections(self) -> int:
        """Those of clients."""
        return int(self._ask("eval", "length(rabbit_networking:connections())."))

    def queues(self) -> dict[str, int]:
        """Queue -> messages in it."""
        rows = [line.split("\t") for line in self._ask("--no-table-headers", "list_queues", "name", "messages").splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _total(told: str, name: str) -> float:
    return float(sum(int(number) for number in re.findall(rf"\b{name} => (\d+)", told)))


class Meter:
    """Reads all counters of a cloud. ``parts``: name -> the processes of a part, each with all that it started."""

    def __init__(self, status: Status, broker: Broker, parts: dict[str, list[int]]) -> None:
        self._status, self.broker, self.parts = status, broker, parts

    @contextlib.contextmanager
    def window(self) -> Iterator[Window]:
        """Fills the window when its block has ended."""
        result = Window()
        bus, bus_began = self.broker.read(), time.monotonic()
        before, began = self._fast(), time.monotonic()
        yield result
        result.seconds = time.monotonic() - began
        after = self._fast()
        result.bus_seconds = time.monotonic() - bus_began
        after |= self.broker.read()
        before |= bus
        result.used = {name: after[name] - before[name] for name in after}

    def _fast(self) -> Values:
        children = _children()
        cpu = {f"cpu_{name}": sum(_cpu_ms(pid) for root in roots for pid in _tree(root, children))
               for name, roots in self.parts.items()}
        return cpu | self._status.read()

    def memory(self) -> Values:
        """MiB of each part: proportional set size of its processes."""
        children = _children()
        return {name: round(sum(_pss_mib(pid) for root in roots for pid in _tree(root, children)), 1)
                for name, roots in self.parts.items()}


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):          # it ends while we look
            found.setdefault(int(_stat(directory)[1]), []).append(int(directory.name))
    return found


def _stat(directory: pathlib.Path) -> list[str]:
    """/proc/PID/stat from the third field on: state, parent, ..."""
    return (directory / "stat").read_text().rpartition(")")[2].split()


def _tree(root: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    yield root
    for child in children.get(root, ()):
        yield from _tree(child, children)


def _cpu_ms(pid: int) -> float:
    """Of one process, with its children that have ended."""
    try:
        return sum(int(ticks) for ticks in _stat(pathlib.Path(f"/proc/{pid}"))[11:15]) * TICK_MS
    except OSError:
        return 0.0


def _pss_mib(pid: int) -> float:
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
