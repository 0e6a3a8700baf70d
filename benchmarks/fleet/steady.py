"""What a fleet costs that has nothing to do, and what single events cost."""
from __future__ import annotations

import contextlib
import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from benchmarks.fleet.cloud import LOOK, REPORT, Cloud, say
from benchmarks.fleet.meter import Values
from nova_lite import rpc
from nova_lite.context import admin_context
from nova_lite.db import models
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.virt.fake import FakeDriver

FULL_EVERY = 30         # heartbeats with an inventory: compute/manager.py
OWN_SECONDS = 60        # one run of the longest frequent task of a conductor
DILATED, PACED = "heartbeat of a daemon, dilated", "heartbeat at the real pace"
PACED_SECONDS, PACED_THREADS = OWN_SECONDS, 256     # what a conductor does by itself is in both windows
THREADS = 24            # conductors write together what comes at the same time; a client has 30 connections
_KIND = re.compile(r"^nova_lite\.(reply|compute)\.")


def background(cloud: Cloud) -> dict[str, Any]:
    """What is held, and the rates of the next seconds, which are taken off the figures of builds and lists."""
    with cloud.meter.window() as taken:
        time.sleep(OWN_SECONDS)
    return {"hosts": len(cloud.hosts), "rates": taken.rates(), "oldest_report_s": round(max(cloud.silences().values()), 1),
            **census(cloud)}


def measure(cloud: Cloud, window: float, events: int) -> dict[str, Any]:
    """All figures of the fleet as it is now, with nobody asking for anything."""
    plan, hosts = cloud.plan, len(cloud.hosts)
    time.sleep(1.2 * plan.report_interval)      # each host looks at its guests after its first reports
    # what a conductor does by itself is taken off later: so as many of its runs a second have to be in both windows
    step = plan.report_interval if plan.dilation == 1 else math.lcm(plan.report_interval, OWN_SECONDS)
    seconds = math.ceil(window / step) * step
    say(f"{hosts} hosts: {seconds} s with nothing to do")
    with cloud.meter.window() as everything:
        time.sleep(seconds)
    rates = everything.rates()
    result: dict[str, Any] = {"hosts": hosts, "seconds": seconds, "rates": rates,
                              "oldest_report_s": round(max(cloud.silences().values()), 1), **census(cloud)}
    if plan.dilation == 1:
        own = None
        result["real_rates"] = rates
    else:
        with cloud.hosts_stopped():
            with cloud.meter.window() as alone:
                time.sleep(OWN_SECONDS)
            own = result["own_rates"] = alone.rates()
            paced, result["paced"] = heartbeats_at_real_pace(cloud, own)
        time.sleep(plan.report_interval)
    result["events"] = single_events(cloud, events, rates)
    if own is not None:
        beats = hosts * seconds / plan.report_interval
        result["events"] |= {PACED: paced, DILATED: everything.per_event(beats, own)}
        result["real_rates"] = real_rates(own, result["events"], hosts)
    return result


def real_rates(own: Values, events: dict[str, Values], hosts: int) -> Values:
    """A second, if hosts reported and looked as often as in production: the sum of what was measured apart."""
    paced, full, look, of_daemon = (events[name] for name in (PACED, "heartbeat with inventory", "look", DILATED))
    beat = paced | {"cpu_computes": of_daemon["cpu_computes"]}     # this process has sent the others
    inventory = {name: (full[name] - events["heartbeat"][name]) / FULL_EVERY for name in own}
    return {name: own[name] + hosts / REPORT * (beat[name] + inventory[name]) + hosts / LOOK * look[name] for name in own}


def census(cloud: Cloud) -> dict[str, Any]:
    """What is held: memory, connections, queues."""
    queues = cloud.broker.queues()
    kinds = Counter((match[1] if (match := _KIND.match(name)) else "other") for name in queues)
    return {"memory_mib": cloud.meter.memory(), "connections": cloud.broker.connections(), "queues": dict(kinds),
            "backlog": sum(queues.values())}


def single_events(cloud: Cloud, count: int, background: Values) -> dict[str, Values]:
    """Heartbeats and looks that this process sends in the name of the hosts, as fast as THREADS can."""
    guests, found = _guests(cloud), {}
    with _conductor(cloud) as conductor:
        kinds: dict[str, Callable[[str], object]] = {
            "heartbeat": lambda host: _beat(conductor, host),
            "heartbeat with inventory": lambda host: _beat(conductor, host, **_inventory(cloud, host)),
            "look": lambda host: conductor.sync_power_states(admin_context(), host, guests.get(host, {}))}
        for name, send in kinds.items():
            _all(send, cloud.hosts, THREADS)        # opens the connections
            with cloud.meter.window() as taken:
                _all(send, cloud.hosts, count)
            found[name] = taken.per_event(count, background)
    return found


def heartbeats_at_real_pace(cloud: Cloud, own: Values) -> tuple[Values, float]:
    """What each heartbeat takes when as many come a second as in production, and how many this process sent a second: fewer,
    where the machine is too slow. The hosts stand still. Conductors write together what comes at the same time, so each
    heartbeat takes less than one of a dilated fleet."""
    with _conductor(cloud) as conductor:
        def beat(host: str) -> object:
            return _beat(conductor, host)

        _all(beat, cloud.hosts, THREADS)            # opens the connections
        with cloud.meter.window() as taken:
            sent = _paced(beat, cloud.hosts, len(cloud.hosts) / REPORT, PACED_SECONDS)
    say(f"{sent / taken.seconds:.0f} heartbeats a second")
    return taken.per_event(sent, own), sent / taken.seconds


@contextlib.contextmanager
def _conductor(cloud: Cloud) -> Iterator[ConductorAPI]:
    transport = rpc.get_transport(cloud.conf)
    try:
        yield ConductorAPI(transport)
    finally:
        transport.cleanup()


def _beat(conductor: ConductorAPI, host: str, **more: object) -> object:
    return conductor.heartbeat(admin_context(), {"owner": "benchmark", "actions": [], "host": host, **more})


def _paced(send: Callable[[str], object], hosts: Sequence[str], rate: float, seconds: float) -> int:
    """Send ``rate`` messages a second, from host after host; returns how many. What cannot be sent in time is left out."""
    numbers, began = itertools.count(), time.monotonic()

    def work(_thread: int) -> int:
        sent = 0
        for number in numbers:
            due = number / rate
            if max(due, time.monotonic() - began) > seconds:
                break
            time.sleep(max(0.0, began + due - time.monotonic()))
            send(hosts[number % len(hosts)])
            sent += 1
        return sent

    with ThreadPoolExecutor(PACED_THREADS) as pool:
        return sum(pool.map(work, range(PACED_THREADS)))


def _all(send: Callable[[str], object], hosts: Sequence[str], count: int) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda number: send(hosts[number % len(hosts)]), range(count)))


def _inventory(cloud: Cloud, host: str) -> dict[str, Any]:
    """As the host's own daemon reports it; the uptime is another one each time."""
    inventory = FakeDriver(cloud.conf, host).inventory().to_primitive()
    return {"inventory": {**inventory, "host_ip": cloud.conf.my_ip, "uptime": str(time.monotonic_ns())},
            "ratios": {"cpu": 4.0, "ram": 1.0, "disk": 1.0}, "reserved": {"vcpus": 0, "memory_mb": 512, "local_gb": 0}}


def _guests(cloud: Cloud) -> dict[str, dict[str, int]]:
    table = models.instances
    found: dict[str, dict[str, int]] = {}
    with cloud.db.read() as conn:
        for row in conn.execute(sa.select(table.c.host, table.c.uuid, table.c.power_state).where(
                table.c.deleted == 0, table.c.host.is_not(None))):
            found.setdefault(row.host, {})[row.uuid] = row.power_state
    return found
