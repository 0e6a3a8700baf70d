"""How fast the scheduler is at 100, 1,000 and 10,000 hosts; prints JSON.

    python benchmarks/scheduler.py [--database URL] [--hosts 100,1000,10000] [--repeat 20]

``select_N_ms`` is the pure function alone, for N servers in one request; ``place_N_ms`` all of the way: host table refreshed
from the database, choice, claims committed; ``full_read_ms`` reading every host anew. ``dedicated``: the CPUs of the servers
are their own, so that NUMA nodes are looked at; ``pci``: each server gets a PCI device, which one host in four offers eight of.
Medians. Without --database: SQLite in a temporary directory. The database given must be empty; its tables are dropped at the
end.
"""
from __future__ import annotations

import argparse
import dataclasses
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
from nova_lite.objects.hardware.placement import HostCell
from nova_lite.objects.scheduling import RequestSpec
from nova_lite.scheduler import plugins
from nova_lite.scheduler.claims import Placer, look_up
from nova_lite.scheduler.select import select

SPEC = RequestSpec(flavor=Flavor(flavorid="1", name="small", vcpus=1, memory_mb=1024, root_gb=10), project_id="p")
DEDICATED = dataclasses.replace(SPEC, flavor=dataclasses.replace(SPEC.flavor, extra_specs={"hw:cpu_policy": "dedicated"}))
PCI = dataclasses.replace(SPEC, flavor=dataclasses.replace(SPEC.flavor, pci_requests=[
    {"alias": "gpu", "count": 1, "specs": [{"vendor_id": "10de", "product_id": "1eb8"}]}]))
NUMA_SHAPES = 64        # that many different states of NUMA nodes there are among the hosts
SIZES = 1, 20, 1000     # servers in one request
FEW = 5                 # calls that are measured of the largest size


def fill(conn: sa.Connection, count: int) -> None:
    """``count`` hosts of four sizes, partly used, in four zones."""
    now = units.utcnow()
    conn.execute(sa.insert(models.compute_nodes), [
        {"uuid": str(uuid.uuid4()), "host": f"host-{n}", "hypervisor_hostname": f"host-{n}", "hypervisor_type": "QEMU",
         "hypervisor_version": 9001002, "supported_instances": [["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]],
         "vcpus": 32 * (1 + n % 4), "memory_mb": 131072 * (1 + n % 4), "local_gb": 4000, "cpu_allocation_ratio": 4.0,
         "numa_topology": _cells(n % NUMA_SHAPES), "created_at": now, "updated_at": now} for n in range(count)])
    nodes = conn.execute(sa.select(models.compute_nodes.c.id).order_by(models.compute_nodes.c.id)).scalars().all()
    conn.execute(sa.insert(models.pci_devices), [
        {"compute_node_id": node, "address": f"0000:{bus:02x}:00.0", "vendor_id": "10de", "product_id": "1eb8",
         "dev_type": "type-PCI", "created_at": now} for node in nodes[::4] for bus in range(8)])
    conn.execute(sa.insert(models.services), [
        {"uuid": str(uuid.uuid4()), "host": f"host-{n}", "binary": "nova-compute", "created_at": now,
         "last_seen_at": now.replace(year=now.year + 1)} for n in range(count)])
    conn.execute(sa.insert(models.aggregates), [
        {"id": z + 1, "uuid": str(uuid.uuid4()), "name": f"zone-{z}", "metadata": {"availability_zone": f"zone-{z}"},
         "created_at": now} for z in range(4)])
    conn.execute(sa.insert(models.aggregate_hosts), [{"aggregate_id": 1 + n % 4, "host": f"host-{n}"} for n in range(count)])


def _cells(used: int) -> list[dict[str, Any]]:
    """Two NUMA nodes of 32 CPUs each, so many of which guests have."""
    return [HostCell(number, tuple(range(32 * number, 32 * number + 32)), 65536,
                     pinned=frozenset(range(32 * number, 32 * number + used // 2))).to_primitive() for number in range(2)]


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
            requests = {name: look_up(conn, spec, []) for name, spec in (("", SPEC), ("dedicated_", DEDICATED), ("pci_", PCI))}
        time.sleep(2.5)     # the table reads what changed in the last two seconds: let that not be everything

        def choose(kind: str, number: int) -> None:
            assert len(select(snapshot, requests[kind], number, filters, weighers).choices) == number

        def place(spec: RequestSpec, number: int) -> None:
            placer.place(spec, [str(uuid.uuid4()) for _ in range(number)])

        def times(number: int) -> int:
            return repeat if number < max(SIZES) else min(repeat, FEW)

        sizes = [n for n in SIZES if n <= 2 * count]    # a small cloud has room, and devices, for no more
        return {"hosts": count, "first_read_ms": round(first, 1), "full_read_ms": full,
                **{f"select_{kind}{n}_ms": median_ms(times(n), partial(choose, kind, n)) for kind in requests for n in sizes},
                **{f"place_{n}_ms": median_ms(times(n), partial(place, SPEC, n)) for n in sizes},
                "place_pci_1_ms": median_ms(repeat, partial(place, PCI, 1)),
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
