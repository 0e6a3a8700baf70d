"""What a fleet does when hosts die, or when the broker or the conductors were away."""
from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.fleet.cloud import DOWN, Cloud, Fleet, say

POLL = 1.0
LOOK_AT_QUEUES = 5.0


def run(cloud: Cloud, names: list[str], outage: float, patience: float) -> dict[str, Any]:
    """The storms of these names, one after the other. ``outage``: seconds that the broker or the conductors are away."""
    kinds: dict[str, Callable[[], dict[str, float]]] = {
        "kill": lambda: kill(cloud, patience),
        "broker": lambda: outage_of(cloud, _broker(cloud), outage, patience),
        "conductor": lambda: outage_of(cloud, _conductor(cloud), outage, patience)}
    return {name: kinds[name]() for name in names}


def kill(cloud: Cloud, patience: float) -> dict[str, float]:
    """All hosts of the last nova-lite-compute die at once and are started again when all of them were seen to be down."""
    fleet, down_after = cloud.fleets[-1], DOWN * cloud.plan.dilation
    others = set(cloud.hosts) - set(fleet.hosts)
    say(f"{len(fleet.hosts)} hosts are killed")
    queues, false_deaths, first = len(cloud.broker.queues()), set(), 0.0
    fleet.process.kill(signal.SIGKILL)
    began = time.monotonic()
    while True:
        silences, passed = cloud.silences(), time.monotonic() - began
        dead = {host for host, silence in silences.items() if silence > down_after}
        false_deaths |= dead & others
        if dead and not first:
            first = passed
        if dead >= set(fleet.hosts) or passed > patience:
            break
        time.sleep(POLL)
    return {"hosts killed": len(fleet.hosts), "first noticed after, s": first, "all noticed after, s": passed,
            "false deaths": len(false_deaths), "queues before": queues, **_started_again(cloud, fleet, patience)}


def _started_again(cloud: Cloud, fleet: Fleet, patience: float) -> dict[str, float]:
    since, began = cloud.now(), time.monotonic()
    fleet.process.start()
    cloud.note_processes()
    cloud.wait_up(patience, since)
    return {"all up again after, s": time.monotonic() - began, "queues after": len(cloud.broker.queues())}


def outage_of(cloud: Cloud, away: contextlib.AbstractContextManager[None], seconds: float, patience: float) -> dict[str, float]:
    """Something is away for a while: how long until all hosts have reported after it was back, and what waited meanwhile."""
    queues, connections = len(cloud.broker.queues()), cloud.broker.connections()
    with away:
        time.sleep(seconds)
        before = _backlog(cloud)
    since, began = cloud.now(), time.monotonic()
    with _watched(cloud) as backlogs:
        cloud.wait_up(patience, since)
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
