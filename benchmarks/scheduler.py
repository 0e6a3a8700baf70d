"""How fast the scheduler is at 100, 1,000 and 10,000 hosts; prints JSON.

    python benchmarks/scheduler.py [--database URL] [--hosts 100,1000,10000] [--repeat 20]

``select_ms`` is the pure function alone, for 1 and for 20 servers; ``place_ms`` all of the way: host table refreshed from the
database, choice, claims committed; ``full_read_ms`` reading every host anew. Medians. Without --database: SQLite in a
temporary directory. The database given must be empty; its tables are dropped at the end.
"""
from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.db import core, models
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.scheduling import RequestSpec
from nova_lite.scheduler import plugins
from nova_lite.scheduler.claims import Placer, look_up
from nova_lite.scheduler.select import select

SPEC = RequestSpec(flavor=Flavor(flavorid="1", name="small", vcpus=1, memory_mb=1024, root_gb=10), project_id="p")


def fill(conn: sa.Connection, count: int) -> None:
    """``count`` hosts of four sizes, partly used, in four zones."""
    now = units.utcnow()
    conn.execute(sa.insert(models.compute_nodes), [
        {"uuid": str(uuid.uuid4()), "host": f"host-{n}", "hypervisor_hostname": f"host-{n}", "hypervisor_type": "QEMU",
         "hypervisor_version": 9001002, "supported_instances": [["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]],
         "vcpus": 32 * (1 + n % 4), "memory_mb": 131072 * (1 + n % 4), "local_gb": 4000, "cpu_allocation_ratio": 4.0,
         "created_at": now, "updated_at": now} for n in range(count)])
    conn.execute(sa.insert(models.services), [
        {"uuid": str(uuid.uuid4()), "host": f"host-{n}", "binary": "nova-compute", "created_at": now,
         "last_seen_at": now.replace(year=now.year + 1)} for n in range(count)])
    conn.execute(sa.insert(models.aggregates), [
        {"id": z + 1, "uuid": str(uuid.uuid4()), "name": f"zone-{z}", "metadata": {"availability_zone": f"zone-{z}"},
         "created_at": now} for z in range(4)])
    conn.execute(sa.insert(models.aggregate_hosts), [{"aggregate_id": 1 + n % 4, "host": f"host-{n}"} for n in range(count)])


def median_ms(repeat: int, function: Callable[[], Any]) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        function()
        times.append((time.perf_counter() - started) * 1000)
    return round(statistics.median(times), 2)


def measure(url: str, count: int, repeat: int) -> dict[str, Any]:
    """All numbers for one size."""
    conf = nova_conf.load([], config_files=[], database__connection=url)
    db = core.Database(conf)
    models.metadata.create_all(db.engine)
    try:
        db.write(fill, count)
        placer = Placer(conf, db)
        filters, weighers = plugins.load_filters(conf), plugins.load_weighers(conf)
        with db.read() as conn:
            started = time.perf_counter()
            snapshot = placer.table.snapshot(conn, full=True)
            first = (time.perf_counter() - started) * 1000
            full = median_ms(5, lambda: placer.table.snapshot(conn, full=True))
            request = look_up(conn, SPEC, [])
        time.sleep(2.5)     # the table reads what changed in the last two seconds: let that not be everything

        def choose(number: int) -> Any:
            return select(snapshot, request, number, filters, weighers)

        def place(number: int) -> Any:
            return placer.place(SPEC, [str(uuid.uuid4()) for _ in range(number)])

        return {"hosts": count, "first_read_ms": round(first, 1), "full_read_ms": full,
                **{f"select_{n}_ms": median_ms(repeat, partial(choose, n)) for n in (1, 20)},
                **{f"place_{n}_ms": median_ms(repeat, partial(place, n)) for n in (1, 20)},
                "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}
    finally:
        models.metadata.drop_all(db.engine)
        db.dispose()


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", help="SQLAlchemy URL of an empty database")
    parser.add_argument("--hosts", default="100,1000,10000", help="sizes, separated by commas")
    parser.add_argument("--repeat", type=int, default=20, help="calls of which the median is told")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        url = arguments.database or f"sqlite:///{directory}/nova.sqlite"
        sizes = [int(size) for size in arguments.hosts.split(",")]
        print(json.dumps({"benchmark": "scheduler", "database": sa.make_url(url).get_backend_name(),
                          "results": [measure(url, size, arguments.repeat) for size in sizes]}, indent=2))


if __name__ == "__main__":
    main()
