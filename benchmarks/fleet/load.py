"""Builds and lists: how fast, and what each takes."""
from __future__ import annotations

import math
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from benchmarks.fleet.cloud import Cloud, say, timed
from benchmarks.fleet.figures import with_sum
from benchmarks.fleet.meter import Values, Window
from nova_lite.db import models
from nova_lite.objects import states
from tests.support.client import Compute

T = models.instances
CLIENTS, PAGE = 10, 1000
PROJECT = "fleet-builds"
TAKEN = ("cpu_control_plane", "cpu_conductor", "cpu_scheduler", "cpu_api", "cpu_broker", "cpu_database", "cpu_computes",
         "statements", "commits", "rows_read", "rows_written", "messages", "bytes_in", "bytes_out")


def builds(cloud: Cloud, count: int, background: Values) -> dict[str, Any]:
    """``count`` servers by requests of one, then by requests of twenty, from ten clients at a time."""
    return {f"requests of {size}": _build(cloud, count, size, background) for size in (1, 20)}


def _build(cloud: Cloud, count: int, size: int, background: Values) -> dict[str, float]:
    say(f"{count} builds by requests of {size}")
    local, client = threading.local(), cloud.client(PROJECT)
    flavor, image = client.flavor(), client.image()

    def post(_number: int) -> float:
        if not hasattr(local, "client"):
            local.client = cloud.client(PROJECT)
        return timed(lambda: local.client.boot("", flavor, image, min_count=size, max_count=size))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(post, range(CLIENTS)))        # what only the first requests pay
        _wait_built(cloud, CLIENTS * size)
        wipe(cloud)
        with cloud.meter.window() as taken:
            began = time.monotonic()
            posts = list(pool.map(post, range(math.ceil(count / size))))
            errors = _wait_built(cloud, len(posts) * size)
            seconds = time.monotonic() - began
    made = len(posts) * size
    times = _build_times(cloud)
    wipe(cloud)
    return {"a second": made / seconds, "POST p50, s": _at(posts, 0.5), "POST p99, s": _at(posts, 0.99),
            "to ACTIVE p50, s": _at(times, 0.5), "to ACTIVE p99, s": _at(times, 0.99), "in ERROR": errors,
            **_each(taken, made, background)}


def _each(taken: Window, count: int, background: Values) -> dict[str, float]:
    """As figures of one event; CPU in ms."""
    values = with_sum(taken.per_event(count, background))
    return {f"{name}{', ms' if name.startswith('cpu') else ''}": values[name] for name in TAKEN}


def _at(seconds: Sequence[float], part: float) -> float:
    """The value below which this part of the values is."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))] if seconds else math.nan


def _mine() -> sa.ColumnElement[bool]:
    return sa.and_(T.c.project_id == PROJECT, T.c.deleted == 0)


def _wait_built(cloud: Cloud, count: int) -> int:
    """Until that many servers are built or in ERROR; how many of the latter."""
    while True:
        with cloud.db.read() as conn:
            rows = conn.execute(sa.select(T.c.vm_state, T.c.task_state, sa.func.count()).where(_mine()).group_by(
                T.c.vm_state, T.c.task_state)).all()
        errors = sum(number for vm_state, _, number in rows if vm_state == states.ERROR)
        if errors + sum(number for vm_state, task, number in rows if (vm_state, task) == (states.ACTIVE, None)) >= count:
            return errors
        time.sleep(0.1)


def _build_times(cloud: Cloud) -> list[float]:
    with cloud.db.read() as conn:
        rows = conn.execute(sa.select(T.c.created_at, T.c.launched_at).where(_mine(), T.c.vm_state == states.ACTIVE)).all()
    return [(row.launched_at - row.created_at).total_seconds() for row in rows]


def wipe(cloud: Cloud) -> None:
    """Delete what was built, and wait until it is gone."""
    client = cloud.client(PROJECT)
    while found := client.ok("GET", f"/servers?limit={PAGE}")["servers"]:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda server: cloud.client(PROJECT).request("DELETE", f"/servers/{server['id']}"), found))
        time.sleep(1.0)


def requests(cloud: Cloud, reps: int, background: Values) -> dict[str, Any]:
    """Lists, one server, and a POST with a zone, one after the other."""
    user, found = cloud.client(PROJECT), {}
    user.boot(min_count=20, max_count=20)       # where there is no server from the script
    _wait_built(cloud, 20)
    total, middle, last = _markers(cloud)
    for name, call in _calls(cloud, user, middle, last).items():
        call()
        with cloud.meter.window() as taken:
            seconds = [timed(call) for _ in range(reps)]
        found[name] = {"servers": total, "p50, s": statistics.median(seconds), "p99, s": _at(seconds, 0.99),
                       **_each(taken, reps, background)}
        say(f"{name}: {found[name]['p50, s']:.3f} s")
    wipe(cloud)
    return found


def _calls(cloud: Cloud, user: Compute, middle: str, last: str) -> dict[str, Callable[[], object]]:
    client, flavor, image = cloud.client(), user.flavor(), user.image()
    pages = {"first page": "", "middle page": f"&marker={middle}", "last page": f"&marker={last}",
             "by status": "&status=SHUTOFF", "by name": f"&name={cloud.hosts[-1]}-"}

    def get(path: str) -> Callable[[], object]:
        return lambda: client.ok("GET", path)

    calls = {name: get(f"/servers/detail?all_tenants=1&limit={PAGE}{query}") for name, query in pages.items()}
    return {**calls, "one server": get(f"/servers/{middle}"), "zones": get("/os-availability-zone"),
            "services": get("/os-services"), "a page of hypervisors": get(f"/os-hypervisors/detail?limit={PAGE}"),
            "POST with a zone": lambda: user.boot(f"zoned-{uuid.uuid4().hex[:8]}", flavor, image, availability_zone="nova")}


def _markers(cloud: Cloud) -> tuple[int, str, str]:
    """The number of servers, the one in the middle of the list, and the one before its last page."""
    with cloud.db.read() as conn:
        total = conn.execute(sa.select(sa.func.count()).where(T.c.deleted == 0)).scalar_one()
        order = sa.select(T.c.uuid).where(T.c.deleted == 0).order_by(T.c.created_at.desc(), T.c.id.desc()).limit(1)
        middle, last = (conn.execute(order.offset(place)).scalar_one()
                        for place in (total // 2, max(0, total - PAGE - 1)))
    return total, middle, last
