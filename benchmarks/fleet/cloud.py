"""A control plane with a fleet of fake hosts that grows: real broker, database and services, each in processes of its own."""
from __future__ import annotations

import contextlib
import datetime
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from benchmarks.fleet.meter import Broker, MariaDBStatus, Meter, PostgreSQLStatus
from benchmarks.fleet.servers import Servers, guests_file
from nova_lite import conf as nova_conf
from nova_lite.db import clock, models, services
from nova_lite.db.core import Database
from tests.support.client import Compute
from tests.support.cloud import Services, healthy
from tests.support.engines import MariaDB, PostgreSQL, RabbitMQ
from tests.support.process import Process, wait_for

REPORT, DOWN, LEASE, LOOK = 10, 30, 30, 60      # seconds of nova_lite's own defaults
ROOT = pathlib.Path(__file__).parents[2]
CONTROL = ("conductor", "scheduler", "api")


@dataclass(frozen=True)
class Plan:
    """What is built. ``dilation``: how many times slower than in production hosts report."""

    database: str = "mariadb"
    wire: str = "host"
    dilation: int = 1
    per_process: int = 100
    conductors: int = 1
    schedulers: int = 1
    api_workers: int = 1
    servers: int = 0
    looks: bool = True

    @property
    def report_interval(self) -> int:
        return REPORT * self.dilation

    def options(self) -> dict[str, object]:
        """Of all services. Fake hosts are large, so that no build fails for want of room."""
        return {"fake__vcpus": 4000, "fake__memory_mb": 4000000, "fake__disk_gb": 40000,
                "compute__report_interval": self.report_interval, "compute__service_down_time": DOWN * self.dilation,
                "conductor__lease_seconds": LEASE * self.dilation,
                "compute__sync_power_state_interval": LOOK * self.dilation if self.looks else 0,
                "compute__heal_instance_info_cache_interval": LOOK * self.dilation,
                "conductor__workers": self.conductors, "scheduler__workers": self.schedulers, "api__workers": self.api_workers,
                "oslo_messaging_rabbit__heartbeat_timeout_threshold": 60 * min(self.dilation, 10)}


class Fleet:
    """The hosts of one nova-lite-compute."""

    def __init__(self, process: Process, hosts: list[str]) -> None:
        self.process, self.hosts = process, hosts


class Cloud:
    """See the module. All that it has is in ``directory`` and ends with :meth:`close`."""

    def __init__(self, directory: pathlib.Path, plan: Plan) -> None:
        self.directory, self.plan = directory, plan
        self.fleets: list[Fleet] = []
        self.problems: list[str] = []
        self._stack = contextlib.ExitStack()
        try:
            self._start_engines()
        except BaseException:
            self._stack.close()
            raise

    def _start_engines(self) -> None:
        self.rabbit = RabbitMQ(self.directory / "rabbitmq")
        settings = self.directory / "rabbitmq" / "rabbitmq.conf"
        settings.write_text(settings.read_text().replace("watermark.absolute = 1GB", "watermark.absolute = 6GB"))
        self._stack.callback(self.rabbit.close)
        self.rabbit.start()
        self.engine = (MariaDB if self.plan.database == "mariadb" else PostgreSQL)(self.directory / "database")
        self._stack.callback(self.engine.close)
        self.engine.start()
        if isinstance(self.engine, PostgreSQL):
            _count_statements(self.engine)
        self.url = self.engine.new_database()
        self.services = Services(self.directory / "cloud", self.rabbit.url, self.url, None, **self.plan.options(),
                                 fake__state_file=guests_file(self.directory / "cloud") if self.plan.servers else "")
        self.conf = nova_conf.load([], config_files=[str(self.services.config)])
        self.db = Database(self.conf)
        self._stack.callback(self.db.dispose)
        self.servers = Servers(self.db, self.directory / "cloud", self.plan.servers)

    def start(self) -> Cloud:
        """The control plane, without a host."""
        self.services.manage("db", "sync")
        for name in CONTROL:
            self.services.processes[name].start()
        wait_for("the API", lambda: healthy(f"http://127.0.0.1:{self.services.port}"), 120)
        self.services.add_image()
        status = (MariaDBStatus if self.plan.database == "mariadb" else PostgreSQLStatus)(self.url)
        self.broker = Broker(self.rabbit.env)
        self._parts: dict[str, list[int]] = {}
        self.meter = Meter(status, self.broker, self._parts)
        self.note_processes()
        return self

    def note_processes(self) -> None:
        """Tell the meter which processes there are now."""
        assert self.rabbit.process is not None
        assert self.engine.process is not None
        self._parts.update({name: [self.services.processes[name].pid] for name in CONTROL})
        self._parts.update(broker=[self.rabbit.process.pid], database=[self.engine.process.pid],
                           computes=[fleet.process.pid for fleet in self.fleets if fleet.process.alive()])

    def client(self, project: str = "demo", timeout: float = 120) -> Compute:
        """An administrator."""
        return Compute(self.services.endpoint, f"admin:{project}", timeout=timeout)

    @property
    def hosts(self) -> list[str]:
        """All that were started."""
        return [host for fleet in self.fleets for host in fleet.hosts]

    # the fleet ------------------------------------------------------------------------------------------------------
    def grow(self, count: int, timeout: float) -> float:
        """Start hosts until there are ``count``, all processes together; seconds until all were up."""
        added: list[Fleet] = []
        while len(self.hosts) < count:
            fleet = self._fleet(len(self.fleets) + 1, min(self.plan.per_process, count - len(self.hosts)))
            self.servers.add(self.client, fleet.hosts)
            self.fleets.append(fleet)
            added.append(fleet)
        began = time.monotonic()
        for fleet in added:
            fleet.process.start()
        self.note_processes()
        self.wait_up(timeout)
        self.servers.claim()
        return time.monotonic() - began

    def _fleet(self, number: int, count: int) -> Fleet:
        name = f"fleet-{number}"
        process = self.services.another("compute", name, host=name, fake__hosts=count)
        if self.plan.wire == "shared":
            process = Process(name, [sys.executable, "-m", "benchmarks.fleet.shared_wire", *process.command[1:]],
                              process.directory, {"PYTHONPATH": str(ROOT)})
        self._stack.callback(_end, process)
        return Fleet(process, [name if n == 1 else f"{name}-{n}" for n in range(1, count + 1)])

    def silences(self) -> dict[str, float]:
        """Host -> seconds since its last report, by the clock of the database."""
        with self.db.read() as conn:
            now = clock.read(conn)
            table = models.services
            rows = conn.execute(sa.select(table.c.host, table.c.last_seen_at).where(table.c.binary == services.COMPUTE)).all()
        return {row.host: (now - row.last_seen_at).total_seconds() for row in rows}

    def wait_up(self, timeout: float, since: datetime.datetime | None = None) -> bool:
        """Until all hosts that were started have reported (``since`` then). False after ``timeout`` seconds."""
        began, wanted = time.monotonic(), set(self.hosts)
        while True:
            silences = self.silences()
            limit = float(DOWN * self.plan.dilation)
            if since is not None:
                limit = min(limit, (self.now() - since).total_seconds())
            up = {host for host, silence in silences.items() if silence <= limit} & wanted
            if up == wanted:
                return True
            if time.monotonic() - began > timeout:
                self.problems.append(f"only {len(up)} of {len(wanted)} hosts were up after {timeout:.0f} s")
                say(self.problems[-1])
                return False
            for fleet in self.fleets:
                assert fleet.process.alive(), f"{fleet.process.name} died:\n{fleet.process.tail()}"
            time.sleep(1.0)

    def now(self) -> datetime.datetime:
        """The time of the database."""
        with self.db.read() as conn:
            return clock.read(conn)

    @contextlib.contextmanager
    def hosts_stopped(self) -> Iterator[None]:
        """While the block runs, no host does anything, nor dies if it is short."""
        for fleet in self.fleets:
            fleet.process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            for fleet in self.fleets:
                fleet.process.send(signal.SIGCONT)

    def close(self) -> None:
        """End everything, at once."""
        for name in CONTROL:
            _end(self.services.processes[name])
        self._stack.close()


def _end(process: Process) -> None:
    if process.alive():
        process.kill()


def _count_statements(engine: PostgreSQL) -> None:
    """Restart PostgreSQL with its counters of statements."""
    subprocess.run([engine.home / "psql", "-h", "127.0.0.1", "-p", str(engine.port), "-U", "nova", "postgres", "-c",
                    "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'"], check=True, capture_output=True)
    assert engine.process is not None
    engine.process.kill(signal.SIGINT)
    engine.start()


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began
