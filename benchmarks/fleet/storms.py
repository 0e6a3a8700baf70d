"""What a fleet does when hosts die or are cut off, or when the broker, the database or the conductors were away."""
from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.fleet.cloud import CONTROL, DOWN, Cloud, Fleet, say

POLL = 1.0
LOOK_AT_QUEUES = 5.0


def run(cloud: Cloud, names: list[str], outage: float, timeout: float) -> dict[str, Any]:
    """The storms of these names, one after the other. ``outage``: seconds that something is away."""
    kinds: dict[str, Callable[[], dict[str, float]]] = {
        "broker": lambda: outage_of(cloud, _broker(cloud), outage, timeout),
        "conductor": lambda: outage_of(cloud, _conductor(cloud), outage, timeout),
        "database": lambda: outage_of(cloud, _database(cloud), outage, timeout),
        "partition": lambda: outage_of(cloud, _half_of_the_hosts(cloud), outage, timeout),
        "restarts": lambda: restarts(cloud, timeout)}
    found = {}
    for name in names:
        kind, _, count = name.partition("=")
        found[name] = kill(cloud, int(count or 1), timeout) if kind == "kill" else kinds[kind]()
    return found


def kill(cloud: Cloud, count: int, timeout: float) -> dict[str, float]:
    """So many hosts (the last processes that have at least as many) die at once. They are started again when all of them were
    seen to be down."""
    fleets: list[Fleet] = []
    for fleet in reversed(cloud.fleets):
        if sum(len(f.hosts) for f in fleets) < count:
            fleets.append(fleet)
    victims = {host for fleet in fleets for host in fleet.hosts}
    others, down_after = set(cloud.hosts) - victims, DOWN * cloud.plan.dilation
    say(f"{len(victims)} hosts are killed")
    queues, false_deaths, first = len(cloud.broker.queues()), set(), 0.0
    for fleet in fleets:
        fleet.process.kill(signal.SIGKILL)
    began = time.monotonic()
    while True:
        silences, passed = cloud.silences(), time.monotonic() - began
        dead = {host for host, silence in silences.items() if silence > down_after}
        false_deaths |= dead & others
        if dead and not first:
            first = passed
        if dead >= victims or passed > timeout:
            break
        time.sleep(POLL)
    return {"hosts killed": len(victims), "first noticed after, s": first, "all noticed after, s": passed,
            "false deaths": len(false_deaths), "queues before": queues, **_started_again(cloud, fleets, timeout)}


def restarts(cloud: Cloud, timeout: float) -> dict[str, float]:
    """All processes are stopped and started one after the other, three times. Nothing may be left on the broker."""
    found: dict[str, float] = {"queues before": len(cloud.broker.queues()), "connections before": cloud.broker.connections()}
    for number in (1, 2, 3):
        say(f"rolling restart {number}")
        began = time.monotonic()
        for process in (*(cloud.services.processes[name] for name in CONTROL), *(fleet.process for fleet in cloud.fleets)):
            process.kill(signal.SIGTERM)
            process.start()
        since = cloud.now()
        cloud.note_processes()
        cloud.wait_up(timeout, since)
        found[f"restart {number}, s"] = time.monotonic() - began
    return {**found, "queues after": len(cloud.broker.queues()), "connections after": cloud.broker.connections()}


def _started_again(cloud: Cloud, fleets: list[Fleet], timeout: float) -> dict[str, float]:
    since, began = cloud.now(), time.monotonic()
    for fleet in fleets:
        fleet.process.start()
    cloud.note_processes()
    cloud.wait_up(timeout, since)
    return {"all up again after, s": time.monotonic() - began, "queues after": len(cloud.broker.queues())}


def outage_of(cloud: Cloud, away: contextlib.AbstractContextManager[None], seconds: float, timeout: float) -> dict[str, float]:
    """Something is away for a while: how long until all hosts have reported after it was back, and what waited meanwhile."""
    queues, connections = len(cloud.broker.queues()), cloud.broker.connections()
    with away:
        time.sleep(seconds)
        before = _backlog(cloud)
    since, began = cloud.now(), time.monotonic()
    with _watched(cloud) as backlogs:
        cloud.wait_up(timeout, since)
        took = time.monotonic() - began
    return {"away, s": seconds, "all up after, s": took, "messages waiting at its end": before,
            "peak of messages waiting": max([before, *backlogs]), "queues before": queues,
            "queues after": len(cloud.broker.queues()), "connections before": connections,
            "connections after": cloud.broker.connections()}


def _backlog(cloud: Cloud) -> int:
    """0 when there is no broker."""
    assert cloud.rabbit.process is not None
    return sum(cloud.broker.queues().values()) if cloud.rabbit.process.alive() else 0


@contextlib.contextmanager
def _watched(cloud: Cloud) -> Iterator[list[int]]:
    """How many messages wait, again and again."""
    found: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_AT_QUEUES):
            with contextlib.suppress(Exception):        # the broker has much to do
                found.append(_backlog(cloud))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def _broker(cloud: Cloud) -> Iterator[None]:
    say("the broker stops")
    cloud.rabbit.stop()
    yield
    cloud.rabbit.start()
    cloud.note_processes()
    say("the broker is back")


@contextlib.contextmanager
def _conductor(cloud: Cloud) -> Iterator[None]:
    say("the conductors are killed")
    conductor = cloud.services.processes["conductor"]
    conductor.kill(signal.SIGKILL)
    yield
    conductor.start()
    cloud.note_processes()
    say("the conductors are back")


@contextlib.contextmanager
def _database(cloud: Cloud) -> Iterator[None]:
    assert cloud.engine.process is not None
    say("the database is killed")
    cloud.engine.process.kill(signal.SIGKILL)
    yield
    cloud.engine.start()
    cloud.note_processes()
    say("the database is back")


@contextlib.contextmanager
def _half_of_the_hosts(cloud: Cloud) -> Iterator[None]:
    """Half of the processes of hosts stand still: nothing is heard of them, and they hear nothing."""
    half = cloud.fleets[:max(1, len(cloud.fleets) // 2)]
    say(f"{sum(len(fleet.hosts) for fleet in half)} hosts are cut off")
    for fleet in half:
        fleet.process.send(signal.SIGSTOP)
    yield
    for fleet in half:
        fleet.process.send(signal.SIGCONT)
    say("all hosts are reached again")
