"""Build time, throughput, list time and memory of the five services: fake hypervisor, no network, MariaDB and RabbitMQ.

    python -m benchmarks.boot [--n 100] [--reps 3]

Starts its own engines and services in a temporary directory, prints JSON (medians; seconds and MiB), stops everything.
``ratio`` compares with what real Nova 34 with placement took for the same work on this kind of machine (``NOVA34``). A fair
comparison measures both sides in one run.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.client import Compute
from tests.support.cloud import NAMES, Services
from tests.support.engines import MariaDB, RabbitMQ

NOVA34 = {"post_s": 0.069, "to_active_s": 0.41, "multi_create_s": 36.0, "concurrent_s": 45.0, "list_s": 0.40,
          "memory_idle_mib": 1055.0}
BATCH, CONCURRENCY = 20, 10


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="servers of the throughput runs and of the list")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--single-reps", type=int, default=7)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nova-lite-bench-") as name:
        directory = pathlib.Path(name)
        rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
        services = None
        try:
            rabbit.start()
            maria.start()
            services = Services(directory / "cloud", rabbit.url, maria.new_database()).start()
            services.add_image()
            json.dump(measure(services, arguments), sys.stdout, indent=1)
            print()
        finally:
            if services is not None:
                services.stop()
            rabbit.close()
            maria.close()


def measure(services: Services, arguments: argparse.Namespace) -> dict:
    """All figures of one cloud."""
    client = services.client()
    flavor, image = client.flavor(), client.image()
    boot(client, flavor, image)      # what only the first request pays: connections, schemas, host table
    wipe(client)
    time.sleep(2)
    out: dict = {"memory_idle_mib": round(sum(pss(services).values()), 1), "memory_by_service_mib": pss(services)}
    singles = [boot(client, flavor, image) for _ in range(arguments.single_reps)]
    out["post_s"] = statistics.median(s[0] for s in singles)
    out["to_active_s"] = statistics.median(s[1] for s in singles)
    wipe(client)

    def batches() -> None:
        for k in range(arguments.n // BATCH):
            client.boot(f"multi-{k}", flavor, image, min_count=BATCH, max_count=BATCH)

    def one_by_one() -> None:
        def post(k: int) -> None:
            Compute(services.endpoint).boot(f"post-{k}", flavor, image)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(post, range(arguments.n)))

    out["multi_create_s"] = statistics.median(fill(client, arguments.n, batches) for _ in range(arguments.reps))
    out["concurrent_s"] = statistics.median(fill(client, arguments.n, one_by_one) for _ in range(arguments.reps))
    one_by_one()
    settle(client, arguments.n)
    out["list_s"] = statistics.median(timed(lambda: client.ok("GET", "/servers/detail")) for _ in range(30))
    out["memory_with_servers_mib"] = round(sum(pss(services).values()), 1)
    wipe(client)
    out["ratio"] = {name: round(out[name] / value, 3) for name, value in NOVA34.items()}
    out["nova34"] = NOVA34
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in out.items()}


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def boot(client: Compute, flavor: str, image: str) -> tuple[float, float]:
    """(seconds to the answer, seconds to ACTIVE) of one server."""
    start = time.perf_counter()
    server = client.boot("", flavor, image)
    answered = time.perf_counter() - start
    while True:
        status = client.server(server["id"])["status"]
        if status == "ACTIVE":
            return answered, time.perf_counter() - start
        assert status == "BUILD", status
        time.sleep(0.005)


def settle(client: Compute, count: int) -> None:
    """Wait until ``count`` servers are ACTIVE."""
    while True:
        found = client.ok("GET", "/servers?status=ACTIVE&limit=1000")["servers"]
        if len(found) >= count:
            return
        assert not client.ok("GET", "/servers?status=ERROR")["servers"], "a server went to ERROR"
        time.sleep(0.05)


def fill(client: Compute, count: int, work: Callable[[], None]) -> float:
    """Seconds from the first request to the last ACTIVE; the servers are deleted after it."""
    start = time.perf_counter()
    work()
    settle(client, count)
    took = time.perf_counter() - start
    wipe(client)
    return took


def wipe(client: Compute) -> None:
    """Delete all servers and wait until they are gone."""
    for server in client.ok("GET", "/servers?limit=1000")["servers"]:
        client.delete(server["id"])
    while client.ok("GET", "/servers?limit=1")["servers"]:
        time.sleep(0.05)


def pss(services: Services) -> dict[str, float]:
    """MiB that each service holds (proportional set size of all its processes)."""
    out = {}
    for name in NAMES:
        total = 0
        for directory in pathlib.Path("/proc").iterdir():
            if directory.name.isdigit() and _session(directory) == services.processes[name].pid:
                lines = (directory / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        out[name] = round(total / 1024, 1)
    return out


def _session(directory: pathlib.Path) -> int | None:
    try:
        return int((directory / "stat").read_text().rpartition(")")[2].split()[3])
    except (FileNotFoundError, ProcessLookupError):
        return None


if __name__ == "__main__":
    main(sys.argv[1:])
