"""Moves in whose middle a process is killed as by kill -9. They come to their end, or are undone."""
from __future__ import annotations

import pytest

from tests.support.process import wait_for
from tests.two_hosts import hosts
from tests.two_hosts.cloud import SLOW, Cloud, counts
from tests.two_hosts.pings import Pings, until_it_answers

VICTIMS = ("source", "destination", "conductor", "broker")


def _kill(victim: str, source: str) -> None:
    there = hosts.HERE if source == hosts.HOST2.name else hosts.HOST2
    hosts.kill({"source": hosts.files_of(source).compute, "destination": there.compute, "conductor": "nova-lite-conductor",
                "broker": "rabbitmq"}[victim])
    hosts.mend()


def _until_agents_work(victim: str) -> None:
    if victim == "broker":
        hosts.until_agents_work()


@pytest.mark.parametrize("victim", VICTIMS)
def test_live_migrations(cloud: Cloud, victim: str) -> None:
    server = cloud.boot(cloud.node)
    address = cloud.address(server)
    until_it_answers(address)
    _, boots = counts(cloud.console(server))
    for step in ("preparing", "running", *(("moved",) if victim in ("source", "destination") else ())):
        source = cloud.host(server)
        with Pings(address) as pings:
            cloud.live_migrate(server, lambda source=source: _kill(victim, source), step)
        print(f"{victim} killed while {step}: {pings.gap:.1f} s without an answer", flush=True)
        numbers, now = counts(cloud.console(server))
        assert now == boots
        assert numbers == sorted(set(numbers))
        _until_agents_work(victim)


@pytest.mark.parametrize("victim", VICTIMS)
def test_cold_migrations(cloud: Cloud, victim: str) -> None:
    server = cloud.boot(cloud.node)
    address = cloud.address(server)
    for step in ("pre-migrating", "migrating", "post-migrating"):
        source, last = cloud.host(server), cloud.migration(server)["id"]
        cloud.act(server, "migrate")
        cloud.until_migration(server, last, step)
        _kill(victim, source)
        # undone when its new host died
        status = cloud.until(server, "VERIFY_RESIZE", "ACTIVE")["status"]
        print(f"{victim} killed while {step}: {status}", flush=True)
        if status == "VERIFY_RESIZE":
            cloud.does(server, "confirmResize")
        until_it_answers(address)
        _until_agents_work(victim)
    for end in ("confirmResize", "revertResize"):
        source = cloud.host(server)
        cloud.does(server, "migrate", status="VERIFY_RESIZE")
        cloud.act(server, end)
        _kill(victim, source)
        cloud.until(server, "ACTIVE")
        assert (cloud.host(server) == source) == (end == "revertResize")
        until_it_answers(address)
        print(f"{victim} killed in {end}: it answers", flush=True)
        _until_agents_work(victim)


def test_shelve_and_unshelve(cloud: Cloud) -> None:
    server = cloud.boot(cloud.node)
    cloud.act(server, "shelve")
    cloud.until_task(server, "shelving_image_uploading")
    _kill("source", cloud.node)
    cloud.until(server, "SHELVED_OFFLOADED")
    cloud.act(server, "unshelve", {"host": hosts.HOST2.name})
    wait_for("its host", lambda: cloud.host(server) == hosts.HOST2.name, SLOW, 0.05)
    _kill("source", hosts.HOST2.name)
    cloud.until(server, "ACTIVE")
    assert cloud.host(server) == hosts.HOST2.name
    until_it_answers(cloud.address(server))
