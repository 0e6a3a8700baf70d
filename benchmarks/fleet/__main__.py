"""What a fleet of fake hosts costs one control plane: real RabbitMQ, database and services, as processes of this machine.

    python -m benchmarks.fleet [--hosts 100,200,300] [--wire host|shared] [--dilation 1] [--servers 0]
                               [--builds 200] [--reps 20] [--no-steady] [--storms kill=100,broker,conductor] [--plot FILE]

The cloud grows from size to size. Each has its steady cost measured, with nobody asking for anything; then builds and lists,
if they are asked for. Tables go to stderr, JSON to stdout.

``--wire host``: nova-lite-compute with ``[fake] hosts``. Each host listens over a connection of its own. The hosts of a process
share the connections by which they send, and the queue of their answers. ``--wire shared``: one connection listens for all
hosts of a process.

``--dilation 10``: hosts report ten times less often than in production, and are dead after ten times as long. With a shared
wire all else that they do by themselves is as rare. That lets two cores carry more hosts. The control plane's own periodic work
keeps its intervals. It is measured apart, while the hosts stand still. So are heartbeats: the benchmark sends as many a second
as the hosts would in production. Looks and inventories are measured apart as well. Rates "at real intervals" are then the sum
of these parts. With ``--dilation 1`` they are measured. Single heartbeats, inventories and looks are sent back to back by 24
threads. Each costs less than one that comes alone.
"""
from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

from benchmarks.fleet import figures, load, steady, storms
from benchmarks.fleet.cloud import ROOT, Cloud, Plan, say


def main(argv: list[str]) -> None:
    """Measure and print."""
    arguments = parse(argv)
    plan = Plan(arguments.database, arguments.wire, arguments.dilation, arguments.per_process, arguments.conductors,
                arguments.schedulers, arguments.api_workers, arguments.servers, looks=arguments.dilation == 1)
    run: dict[str, Any] = {"benchmark": "fleet", "date": time.strftime("%Y-%m-%d"), "commit": _commit(), "machine":
                           f"{os.cpu_count()} cores, {platform.machine()}", "plan": dataclasses.asdict(plan), "sizes": []}
    with tempfile.TemporaryDirectory(prefix="nova-lite-fleet-") as name:
        cloud = Cloud(pathlib.Path(name), plan)
        try:
            cloud.start()
            for hosts in sorted(arguments.hosts):
                run["sizes"].append(measure(cloud, hosts, arguments))
        except (KeyboardInterrupt, Exception):
            cloud.problems.append(f"ended early: {traceback.format_exc()}")
        finally:
            cloud.close()
    run["problems"] = cloud.problems
    if run["sizes"]:
        if not arguments.no_steady:
            run["extrapolation"] = figures.extrapolate(run["sizes"])
        print(figures.report(run), file=sys.stderr)
        if arguments.plot and not arguments.no_steady:
            figures.plot(run, arguments.plot)
    json.dump(run, sys.stdout, indent=1)
    print()
    if run["problems"]:
        sys.exit("\n".join(run["problems"]))


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=_numbers, default=[100, 200, 300], help="sizes of the fleet, separated by commas")
    parser.add_argument("--wire", choices=["host", "shared"], default="host")
    parser.add_argument("--dilation", type=int, default=1,
                        help="how many times less often hosts report; 6 or 12 need the shortest windows")
    parser.add_argument("--per-process", type=int, default=100, help="hosts of one nova-lite-compute")
    parser.add_argument("--servers", type=int, default=0, help="servers of each host, made by a script")
    parser.add_argument("--database", choices=["mariadb", "postgresql"], default="mariadb")
    parser.add_argument("--conductors", type=int, default=1, help="its processes")
    parser.add_argument("--schedulers", type=int, default=1)
    parser.add_argument("--api-workers", type=int, default=1)
    parser.add_argument("--no-steady", action="store_true", help="only what users ask for: builds, lists, storms")
    parser.add_argument("--window", type=float, default=60, help="seconds of the steady state; whole intervals are taken")
    parser.add_argument("--events", type=int, default=1000, help="heartbeats and looks that are measured one by one")
    parser.add_argument("--builds", type=int, default=0, help="servers to be built by requests of one, and by requests of 20")
    parser.add_argument("--reps", type=int, default=0, help="times that each list is asked for")
    parser.add_argument("--storms", type=lambda text: text.split(","), default=[],
                        help="kill=100,broker,conductor,database,partition,restarts: at the largest size, these go away "
                             "and come back")
    parser.add_argument("--outage", type=float, default=60, help="seconds that something is away; not dilated")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for hosts")
    parser.add_argument("--plot", type=pathlib.Path, help="write a plot there; needs matplotlib")
    arguments = parser.parse_args(argv)
    if arguments.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install nova-lite[benchmarks]")     # now, not after the run
    return arguments


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def measure(cloud: Cloud, hosts: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures of one size."""
    up = cloud.grow(hosts, arguments.timeout)
    say(f"{hosts} hosts: up after {up:.0f} s")
    part = steady.background(cloud) if arguments.no_steady else steady.measure(cloud, arguments.window, arguments.events)
    found: dict[str, Any] = {"up_s": round(up, 1), **part}
    if arguments.builds:
        found["builds"] = load.builds(cloud, arguments.builds, found["rates"])
    if arguments.reps:
        found["requests"] = load.requests(cloud, arguments.reps, found["rates"])
    if arguments.storms and hosts == max(arguments.hosts):
        found["storms"] = storms.run(cloud, arguments.storms, arguments.outage, arguments.timeout)
    return found


def _commit() -> str:
    told = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return told.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
