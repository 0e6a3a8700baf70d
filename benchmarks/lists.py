"""Lists at scale: pages of servers, hypervisors, usage and migrations, one server, and a POST, in a small and a large cloud.

    python -m benchmarks.lists [--servers 1000,200000] [--reps 10] [--database mariadb|postgresql|sqlite] [--only REGEX]

Each size is a cloud of its own: a database with as many servers as it says, 20 on each host, made by a script, and the API. The
two clouds are asked in turn, so that whatever else the machine does meets both alike. No conductor and no host runs, and a
POST ends when the API has answered. JSON goes to stdout: the median of each question in seconds. A table goes to stderr, with
how many times longer each takes in the largest cloud than in the smallest.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.db import addresses, models
from nova_lite.db.core import Database
from nova_lite.objects import states
from nova_lite.objects.network import VIF, FixedIP
from tests.support.client import Compute
from tests.support.cloud import Services, healthy
from tests.support.engines import MariaDB, PostgreSQL
from tests.support.process import wait_for

T = models.instances
EACH, PROJECTS, PAGE, AT_ONCE = 20, 50, 1000, 2000
SORT_KEYS = ("created_at", "updated_at", "display_name", "vm_state", "host", "project_id", "launched_at", "uuid", "image_ref")


@dataclasses.dataclass
class Cloud:
    """One size. ``middle`` and ``last``: the servers before the page in the middle of the list and before its last page."""

    servers: int
    services: Services
    db: Database
    middle: str = ""
    last: str = ""
    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def client(self, project: str = "demo") -> Compute:
        """An administrator."""
        return Compute(self.services.endpoint, f"admin:{project}", timeout=600)

    def medians(self) -> dict[str, float]:
        """The seconds of each question."""
        return {what: statistics.median(seconds) for what, seconds in self.seconds.items()}


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lists", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--servers", type=lambda text: [int(number) for number in text.split(",")], default=[1000, 200000])
    parser.add_argument("--reps", type=int, default=10, help="times that each cloud is asked each question")
    parser.add_argument("--database", choices=["mariadb", "postgresql", "sqlite"], default="mariadb")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="questions whose name fits")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nova-lite-lists-") as name, contextlib.ExitStack() as stack:
        new_database = _databases(stack, pathlib.Path(name), arguments.database)
        clouds = [stack.enter_context(_cloud(pathlib.Path(name) / f"cloud-{size}", new_database(), size))
                  for size in sorted(arguments.servers)]
        questions = [_questions(cloud) for cloud in clouds]
        for what in filter(arguments.only.search, questions[0]):
            for repetition in range(arguments.reps + 1):
                for cloud, asked in zip(clouds, questions, strict=True):
                    began = time.perf_counter()
                    asked[what]()
                    if repetition:          # the first one fills caches
                        cloud.seconds.setdefault(what, []).append(time.perf_counter() - began)
            _say(f"{what}: " + ", ".join(f"{1000 * cloud.medians()[what]:.1f} ms" for cloud in clouds))
        print(_table(clouds, arguments.database), file=sys.stderr)
        json.dump({"benchmark": "lists", "database": arguments.database, "clouds": [
            {"servers": cloud.servers, "seconds": cloud.medians()} for cloud in clouds]}, sys.stdout, indent=1)
        print()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _table(clouds: list[Cloud], database: str) -> str:
    head = ["ms", *(f"{cloud.servers:,} servers" for cloud in clouds), "ratio"]
    lines = [f"{database}, medians:", "", f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for what in clouds[0].seconds:
        each = [cloud.medians()[what] for cloud in clouds]
        lines.append(f"| {what} | " + " | ".join(f"{1000 * one:.1f}" for one in each) + f" | {each[-1] / each[0]:.2f} |")
    return "\n".join(lines)


# the clouds -----------------------------------------------------------------------------------------------------------
def _databases(stack: contextlib.ExitStack, directory: pathlib.Path, kind: str) -> Callable[[], str]:
    """Makes an empty database, and says its URL."""
    if kind == "sqlite":
        numbers = itertools.count()
        return lambda: f"sqlite:///{directory}/database-{next(numbers)}.sqlite"
    engine = (MariaDB if kind == "mariadb" else PostgreSQL)(directory / "database")
    stack.callback(engine.close)
    engine.start()
    return engine.new_database


@contextlib.contextmanager
def _cloud(directory: pathlib.Path, url: str, servers: int) -> Iterator[Cloud]:
    # hosts reported when their rows were made, and count as up for a day
    services = Services(directory, "fake://", url, compute__service_down_time=86400)
    db = Database(nova_conf.load([], config_files=[str(services.config)]))
    cloud = Cloud(servers, services, db)
    services.manage("db", "sync")
    services.processes["api"].start()
    try:
        wait_for("the API", lambda: healthy(f"http://127.0.0.1:{services.port}"), 120)
        services.add_image()
        _say(f"making {servers} servers")
        _fill(cloud)
        _say("made")
        yield cloud
    finally:
        db.dispose()
        services.processes["api"].kill()


def _fill(cloud: Cloud) -> None:
    made = cloud.client().boot("pattern")
    with cloud.db.read() as conn:
        pattern = dict(conn.execute(sa.select(T).where(T.c.uuid == made["id"])).mappings().one())
    del pattern["id"]
    for first in range(0, cloud.servers, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, cloud.servers))
        rows = [_server(pattern, number, cloud.servers) for number in numbers]
        hosts = dict.fromkeys(row["host"] for row in rows)
        deleted = [_deleted(row) for row in rows[::5]]
        cloud.db.write(_insert, [*rows, *deleted], hosts)
    cloud.db.write(lambda conn: conn.execute(sa.delete(T).where(T.c.uuid == made["id"])))
    with cloud.db.read() as conn:
        order = sa.select(T.c.uuid).where(T.c.deleted == 0).order_by(T.c.created_at.desc(), T.c.id.desc()).limit(1)
        cloud.middle, cloud.last = (conn.execute(order.offset(place)).scalar_one()
                                    for place in (cloud.servers // 2, max(0, cloud.servers - PAGE - 1)))
    _gather_statistics(cloud.db)


def _gather_statistics(db: Database) -> None:
    """As the database does by itself after a while. PostgreSQL reads an index alone only where it has vacuumed."""
    statement = {"mysql": "ANALYZE TABLE instances", "postgresql": "VACUUM ANALYZE"}.get(db.engine.dialect.name)
    if statement:
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.exec_driver_sql(statement)


def _insert(conn: sa.Connection, servers: list[dict[str, Any]], hosts: dict[str, None]) -> None:
    conn.execute(sa.insert(T), servers)
    now = units.utcnow()
    times = {"created_at": now, "updated_at": now}
    conn.execute(sa.insert(models.services), [
        {**times, "uuid": str(uuid.uuid4()), "host": host, "binary": "nova-compute", "last_seen_at": now} for host in hosts])
    conn.execute(sa.insert(models.compute_nodes), [
        {**times, "uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": host, "hypervisor_type": "QEMU",
         "hypervisor_version": 8000000, "cpu_info": {}, "supported_instances": [["x86_64", "kvm", "hvm"]], "vcpus": 64,
         "memory_mb": 262144, "local_gb": 4000, "host_ip": "10.0.0.1"} for host in hosts])
    moved = servers[::10]
    conn.execute(sa.insert(models.migrations), [
        {**times, "uuid": str(uuid.uuid4()), "instance_uuid": row["uuid"], "migration_type": "live-migration", "status":
         "completed", "source_compute": "elsewhere", "dest_compute": row["host"], "project_id": row["project_id"],
         "old_flavor": row["flavor"], "new_flavor": row["flavor"]} for row in moved])
    conn.execute(sa.insert(models.instance_tags), [{"instance_uuid": row["uuid"], "tag": "moved"} for row in moved])


def _server(pattern: dict[str, Any], number: int, count: int) -> dict[str, Any]:
    """A row: one of a hundred in ERROR, one of ten shut off, made one after the other in a year."""
    made = units.utcnow() - datetime.timedelta(days=365) * (1 - number / count)
    host = f"host-{number // EACH}"
    state = states.ERROR if number % 100 == 7 else states.STOPPED if number % 10 == 0 else states.ACTIVE
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    vif = VIF(str(uuid.uuid4()), "net", "private", "fa:16:3e:00:00:01", "bridge", [FixedIP(address, 4, "10.0.0.0/8")])
    return {**pattern, "uuid": str(uuid.uuid4()), "project_id": f"project-{number % PROJECTS}", "display_name":
            f"server-{number}", "hostname": f"server-{number}", "host": host, "node": host, "launched_on": host,
            "availability_zone": "nova", "vm_state": state, "task_state": None, "network_info": [vif.to_primitive()],
            "addresses": addresses.text([vif.to_primitive()]), "fault": None, "power_state":
            states.RUNNING if state == states.ACTIVE else states.SHUTDOWN, "created_at": made, "updated_at": made,
            "launched_at": made}


def _deleted(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "uuid": str(uuid.uuid4()), "vm_state": states.DELETED, "deleted_at": row["updated_at"], "terminated_at":
            row["updated_at"], "host": None, "deleted": uuid.uuid4().int & 0x7fffffff | 1}


# the questions --------------------------------------------------------------------------------------------------------
def _questions(cloud: Cloud) -> dict[str, Callable[[], object]]:
    client, user = cloud.client(), cloud.client("project-7")
    flavor, image = client.flavor(), client.image()
    day = (units.utcnow() - datetime.timedelta(days=1)).isoformat()
    some = cloud.servers // 2
    pages = {
        "first page": "", "middle page": f"marker={cloud.middle}", "last page": f"marker={cloud.last}",
        "by status SHUTOFF": "status=SHUTOFF", "by status ERROR": "status=ERROR", "by name, one": f"name=server-{some + 7}$",
        "by name, part": "name=er-7", "by address, one": f"ip=^10\\.{some >> 16 & 255}\\.{some >> 8 & 255}\\.{some & 255}$",
        "by host": f"host=host-{some // EACH}", "by project": "project_id=project-7", "by tag": "tags=moved",
        "changes since a day": f"changes-since={day}", "deleted": "deleted=true", "by no name": "name=nosuch",
        **{f"sorted by {key} {order}": f"sort_key={key}&sort_dir={order}" for key in SORT_KEYS for order in ("asc", "desc")}}
    detail = f"/servers/detail?all_tenants=1&limit={PAGE}&"
    paths = {**{name: detail + query for name, query in pages.items()},
             **{f"own servers, {name}": f"/servers/detail?limit=20&{pages.get(name) or query}" for name, query in (
                 ("first page", ""), ("by status ERROR", ""), ("by no name", ""), ("sorted by name", "sort_key=display_name"))},
             "one server": f"/servers/{cloud.middle}", "a page of hypervisors": f"/os-hypervisors/detail?limit={PAGE}",
             "hypervisors by name": f"/os-hypervisors?hypervisor_hostname_pattern=host-{some // EACH}",
             "statistics of hypervisors": "/os-hypervisors/statistics", "migrations": f"/os-migrations?limit={PAGE}",
             "migrations of a host": f"/os-migrations?limit={PAGE}&host=host-{some // EACH}",
             "services of a host": f"/os-services?host=host-{some // EACH}", "zones": "/os-availability-zone"}
    old = {"statistics of hypervisors": "2.87"}

    def get(what: Compute, name: str, path: str) -> Callable[[], object]:
        return lambda: what.ok("GET", path, old.get(name))

    month = (units.utcnow() - datetime.timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%S")
    return {**{name: get(user if name.startswith("own") else client, name, path) for name, path in paths.items()},
            "usage, a page of all": get(client, "", f"/os-simple-tenant-usage?detailed=1&start={month}&limit={PAGE}"),
            "usage of a project": get(client, "", f"/os-simple-tenant-usage/project-7?start={month}&limit={PAGE}"),
            "limits (counts of quotas)": get(user, "", "/limits"),
            "POST with a zone": lambda: client.boot("posted", flavor, image, availability_zone="nova")}


if __name__ == "__main__":
    main(sys.argv[1:])
