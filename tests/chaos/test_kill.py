"""Kill every service, and the broker, while 40 servers are built and then deleted: nothing is lost or left over."""
from __future__ import annotations

import json
import time

import pytest
import requests
import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.db.core import make_engine
from tests.support.cloud import NAMES
from tests.support.process import wait_for

COUNT = 40
# the lease time plus a sweep plus the restarts themselves, with room for a noisy machine
SETTLE = 150.0


@pytest.fixture
def engine(cloud):
    made = make_engine(next(line.partition("= ")[2] for line in cloud.config.read_text().splitlines()
                            if line.startswith("connection = ")))
    yield made
    made.dispose()


def _kill_everything(cloud) -> None:
    """SIGKILL and restart each of the five in turn, the broker once in the middle."""
    for number, name in enumerate(NAMES):
        cloud.restart(name)
        time.sleep(0.7)
        if number == 2:
            cloud.rabbit.restart()


def _poll(cloud, done, what: str) -> list[dict]:
    client = cloud.client()
    deadline = time.monotonic() + SETTLE
    servers: list[dict] = []
    while time.monotonic() < deadline:
        cloud.revive()
        try:
            servers = client.servers()
            if done(servers):
                return servers
        except (requests.RequestException, AssertionError):
            pass     # the API is one of those being restarted
        time.sleep(0.5)
    states = [(s["id"], s["status"], s["OS-EXT-STS:task_state"], s.get("fault")) for s in servers]
    raise AssertionError(f"not {what} after {SETTLE} s: {states}\n{cloud.logs()}")


def _allocations(engine) -> dict[str, tuple]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(models.allocations, models.compute_nodes.c.host).join(
            models.compute_nodes, models.compute_nodes.c.id == models.allocations.c.compute_node_id)).mappings().all()
    return {r["instance_uuid"]: (r["host"], r["vcpus"], r["memory_mb"]) for r in rows}


def _used(engine) -> dict[str, tuple]:
    with engine.connect() as connection:
        return {r["host"]: (r["vcpus_used"], r["memory_mb_used"], r["instances_used"])
                for r in connection.execute(sa.select(models.compute_nodes)).mappings()}


def _guests(cloud) -> list[str]:
    found: list[str] = []
    for path in cloud.directory.glob("guests.json*"):
        found += json.loads(path.read_text())
    return sorted(found)


def test_builds_survive_the_death_of_every_service(cloud, engine):
    client = cloud.client()
    flavor, image = client.flavor(), client.image()
    for batch in range(4):
        client.boot(f"chaos-{batch}", flavor, image, min_count=COUNT // 4, max_count=COUNT // 4)
    _kill_everything(cloud)
    servers = _poll(cloud, lambda s: len(s) == COUNT and all(x["OS-EXT-STS:task_state"] is None for x in s), "settled")
    assert {(s["status"], s.get("fault", {}).get("message")) for s in servers} == {("ACTIVE", None)}

    allocations = _allocations(engine)
    assert {s["id"]: s["OS-EXT-SRV-ATTR:host"] for s in servers} == {u: a[0] for u, a in allocations.items()}
    used = _used(engine)
    for host, (vcpus, memory, count) in used.items():
        mine = [a for a in allocations.values() if a[0] == host]
        assert (vcpus, memory, count) == (sum(a[1] for a in mine), sum(a[2] for a in mine), len(mine))
    assert _guests(cloud) == sorted(s["id"] for s in servers)


def test_deletes_survive_the_death_of_every_service(cloud, engine):
    client = cloud.client()
    ids = [s["id"] for s in client.servers()]
    assert len(ids) == COUNT, "the build test before this one left something else"
    for server_id in ids:
        client.delete(server_id)
    _kill_everything(cloud)
    _poll(cloud, lambda servers: not servers, "gone")
    assert _allocations(engine) == {}
    assert set(_used(engine).values()) == {(0, 0, 0)}
    # a host that was away for long finds when it is back that it has guests to remove
    wait_for("the guests to go", lambda: not _guests(cloud), SETTLE)
    with engine.connect() as connection:
        open_actions = connection.execute(sa.select(models.instance_actions.c.id, models.instance_actions.c.action).where(
            models.instance_actions.c.state.in_(("pending", "running")))).all()
        assert open_actions == []
        assert connection.execute(sa.select(sa.func.count()).select_from(models.instance_tags)).scalar() == 0
