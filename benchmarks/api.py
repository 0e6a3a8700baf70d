"""Latency of the API: the list of 100 and of 1,000 servers, one server, the flavors, POST; alone and ten at a time.

    python -m benchmarks.api [--counts 100,1000] [--reps 20] [--peer-endpoint URL TOKEN --peer-image ID --peer-flavor ID]

Starts five services of nova_lite (fake hypervisor, no network, MariaDB, RabbitMQ, tokens of the embedded identity) in a
temporary directory; prints JSON: seconds (median and 95th percentile) and, for ten at a time, answers per second.
``--peer-endpoint`` measures another compute endpoint with the same calls in the same run, turn by turn: each request to one
side is followed by one to the other, so that whatever else the machine does meets both alike. ``ratio`` is nova_lite's median
over the peer's. ``--endpoint`` measures a nova_lite that runs elsewhere, as beside the same Keystone as the peer.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ

CONCURRENCY, BATCH, PREFIX = 10, 50, "bench-api"
ANSWER_SECONDS = 600.0       # seconds for one answer: a peer may take minutes for ten lists of a thousand servers at a time


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", default="100,1000", help="servers in the lists")
    parser.add_argument("--reps", type=int, default=20, help="requests of each kind, alone; four times as many at a time")
    parser.add_argument("--posts", type=int, default=30, help="servers created, alone; as many at a time")
    parser.add_argument("--version", default="2.90")
    for side in ("", "peer-"):
        parser.add_argument(f"--{side}endpoint", nargs=2, metavar=("URL", "TOKEN"))
        parser.add_argument(f"--{side}image", default="")
        parser.add_argument(f"--{side}flavor", default="")
    arguments = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        sides = [_ours(stack, arguments)]
        if arguments.peer_endpoint:
            sides.append(Side("peer", *arguments.peer_endpoint, arguments.peer_image, arguments.peer_flavor, arguments.version))
        json.dump(measure(sides, arguments), sys.stdout, indent=1)
        print()


@dataclass
class Side:
    """One endpoint under measurement; each thread has a connection of its own."""

    name: str
    endpoint: str
    token: str
    image: str
    flavor: str
    version: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    local: threading.local = field(default_factory=threading.local)

    def client(self) -> Compute:
        """This thread's client."""
        if not hasattr(self.local, "client"):
            self.local.client = Compute(self.endpoint, self.token, self.version, ANSWER_SECONDS)
        client: Compute = self.local.client
        return client

    def boot(self, count: int = 1) -> None:
        """POST /servers."""
        self.client().boot(PREFIX, self.flavor, self.image, min_count=count, max_count=count)

    def wait_settled(self, count: int) -> None:
        """Until that many of our servers are there and none is being built."""
        while True:
            found = [s["status"] for s in self.client().servers(f"&name={PREFIX}")]
            assert "ERROR" not in found, f"{self.name}: a server went to ERROR"
            if len(found) >= count and "BUILD" not in found:
                return
            time.sleep(0.5)

    def fill(self, count: int) -> None:
        """Make the servers ``count`` in all."""
        while (have := len(self.client().servers(f"&name={PREFIX}"))) < count:
            self.boot(min(BATCH, count - have))
            self.wait_settled(min(have + BATCH, count))

    def wipe(self) -> None:
        """Delete all servers of this benchmark."""
        while found := self.client().servers(f"&name={PREFIX}"):
            for server in found:
                if server["OS-EXT-STS:task_state"] != "deleting":
                    self.client().request("DELETE", f"/servers/{server['id']}")
            time.sleep(0.5)


def _ours(stack: contextlib.ExitStack, arguments: argparse.Namespace) -> Side:
    """nova_lite as the arguments name it, or five services that end with ``stack``."""
    if arguments.endpoint:
        return Side("nova_lite", *arguments.endpoint, arguments.image, arguments.flavor, arguments.version)
    services = stack.enter_context(_services())
    side = Side("nova_lite", services.endpoint, services.token, "", "", arguments.version)
    side.flavor, side.image = side.client().flavor(), side.client().image()
    return side


@contextlib.contextmanager
def _services() -> Iterator[Services]:
    with tempfile.TemporaryDirectory(prefix="nova-lite-bench-") as name, contextlib.ExitStack() as stack:
        directory = pathlib.Path(name)
        rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
        stack.callback(rabbit.close)
        rabbit.start()
        stack.callback(maria.close)
        maria.start()
        services = Services(directory / "cloud", rabbit.url, maria.new_database(), api__auth_strategy="embedded",
                            fake__vcpus=4000, fake__memory_mb=4000000, fake__disk_gb=40000)
        stack.callback(services.stop)
        services.start()
        services.add_image()
        yield services


def measure(sides: list[Side], arguments: argparse.Namespace) -> dict:
    """All figures of all sides."""
    counts = sorted(int(count) for count in arguments.counts.split(","))
    for side in sides:
        side.wipe()
        side.boot()        # what only the first requests pay
        side.wait_settled(1)
    _run(sides, "POST /servers", lambda side: side.boot(), arguments.posts, arguments.posts, lambda side: side.wait_settled(0))
    for count in counts:
        for side in sides:
            side.fill(max(count, 1 + 2 * arguments.posts))
        many = count > 200
        _run(sides, f"GET /servers/detail, {count} servers", lambda side, n=count: _get(side, f"/servers/detail?limit={n}"),
             arguments.reps, arguments.reps if many else 4 * arguments.reps)
    paths = {side.name: f"/servers/{side.client().ok('GET', '/servers?limit=1')['servers'][0]['id']}" for side in sides}
    _run(sides, "GET /servers/{id}", lambda side: _get(side, paths[side.name]), 2 * arguments.reps, 4 * arguments.reps)
    _run(sides, "GET /flavors/detail", lambda side: _get(side, "/flavors/detail"), 2 * arguments.reps, 4 * arguments.reps)
    for side in sides:
        side.wipe()
    return _told(sides)


def _get(side: Side, path: str) -> None:
    answer = side.client().request("GET", path)
    assert answer.status_code == 200, f"{side.name}: {path}: {answer.status_code} {answer.text[:300]}"


def _run(sides: list[Side], name: str, call: Callable[[Side], None], alone: int, together: int,
         after: Callable[[Side], None] = lambda side: None) -> None:
    """One kind of request: turn by turn, then CONCURRENCY at a time, one side after the other. ``after`` waits for what one
    side still does, so that it does not slow the other."""
    for number in range(alone + 2):
        for side in sides:
            took = _timed(call, side)
            after(side)
            if number >= 2:
                side.seconds.setdefault(name, []).append(took)
    for side in sides:
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(lambda _, s=side: _timed(call, s), range(CONCURRENCY)))        # opens the connections
            start = time.perf_counter()
            took_all = list(pool.map(lambda _, s=side: _timed(call, s), range(together)))
            side.rates[f"{name}, {CONCURRENCY} at a time"] = together / (time.perf_counter() - start)
        after(side)
        side.seconds[f"{name}, {CONCURRENCY} at a time"] = took_all
        medians = [f"{statistics.median(seconds):.4f} s" for seconds in (side.seconds[name], took_all)]
        print(f"{side.name}: {name}: {medians[0]} alone, {medians[1]} at {CONCURRENCY} at a time", file=sys.stderr)


def _timed(call: Callable[[Side], None], side: Side) -> float:
    start = time.perf_counter()
    call(side)
    return time.perf_counter() - start


def _told(sides: list[Side]) -> dict:
    """The figures as they are printed."""
    out: dict = {}
    for side in sides:
        out[side.name] = {}
        for name, seconds in side.seconds.items():
            shown = {"median_s": round(statistics.median(seconds), 4),
                     "p95_s": round(sorted(seconds)[int(len(seconds) * 0.95)], 4), "requests": len(seconds)}
            if name in side.rates:
                shown["per_s"] = round(side.rates[name], 1)
            out[side.name][name] = shown
    if len(sides) == 2:
        first, other = ({name: statistics.median(seconds) for name, seconds in side.seconds.items()} for side in sides)
        out["ratio"] = {name: round(first[name] / other[name], 3) for name in first}
    return out


if __name__ == "__main__":
    main(sys.argv[1:])
