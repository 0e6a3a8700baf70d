"""Limits hold when services that use different nodes of the database compete."""
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.db.core import make_engine
from tests.cluster.nodes import MARIAS, Cluster
from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.process import free_port, wait_for

QUOTA, ROOM = 20, 8


class SpreadServices(Services):
    """An API, a scheduler and a conductor for each node of the database, which use this node only."""

    def __init__(self, directory: Any, cluster: Cluster, **options: object) -> None:
        self.urls = cluster.new_maria()
        super().__init__(directory, cluster.transport_url, self.urls["maria-1"], **options)
        ports = {"maria-1": self.port}
        for node in MARIAS[1:]:
            ports[node] = free_port()
            for service in ("api", "scheduler", "conductor"):
                self.processes[f"{service}-{node}"] = self.another(
                    service, f"{service}-{node}", host=f"control-{node}", database__connection=self.urls[node],
                    api__port=ports[node])
        self.endpoints = [f"http://127.0.0.1:{port}/v2.1" for port in ports.values()]

    def clients(self) -> list[Compute]:
        """One for each API."""
        return [Compute(endpoint, self.token, "2.90") for endpoint in self.endpoints]


@pytest.fixture
def services(cluster: Cluster, tmp_path: Any) -> Iterator[SpreadServices]:
    made = SpreadServices(tmp_path, cluster, quota__instances=QUOTA, fake__vcpus=ROOM, compute__cpu_allocation_ratio=1.0)
    try:
        made.start()
        made.add_image()
        yield made
    finally:
        for process in made.processes.values():
            if process.alive():
                process.kill()


def test_quotas_and_claims_of_different_nodes(services: SpreadServices) -> None:
    flavor = services.client().flavor()
    image = services.client().ok("GET", "/images", "2.1")["images"][0]["id"]

    def post(number: int) -> int:
        client = services.clients()[number % len(MARIAS)]
        return int(client.request("POST", "/servers", json={"server": {
            "name": f"race-{number}", "imageRef": image, "flavorRef": flavor, "networks": "none"}}).status_code)

    with ThreadPoolExecutor(12) as pool:
        answers = Counter(pool.map(post, range(3 * QUOTA)))
    assert answers == {202: QUOTA, 403: 2 * QUOTA}
    engine = make_engine(services.urls["maria-2"])
    instances, nodes, claims = models.instances.c, models.compute_nodes.c, models.allocations
    try:
        def states() -> Counter[str]:
            with engine.connect() as connection:
                return Counter(connection.scalars(sa.select(instances.vm_state).where(instances.deleted == 0)))
        wait_for("the builds", lambda: not states()["building"], 120, 1)
        assert states() == {"active": ROOM, "error": QUOTA - ROOM}
        with engine.connect() as connection:
            assert connection.scalar(sa.select(nodes.vcpus_used)) == ROOM
            assert connection.scalar(sa.select(sa.func.count()).select_from(claims)) == ROOM
    finally:
        engine.dispose()


def test_a_node_that_is_behind_answers_when_it_has_caught_up(services: SpreadServices, cluster: Cluster) -> None:
    """A POST by one node, and at once a GET by a node that applies nothing for some seconds."""
    flavor = services.client().flavor()
    first, behind = services.clients()[:2]
    assert behind.request("GET", "/servers").status_code == 200
    with cluster.applies_nothing("maria-2", seconds=3) as until:
        server = first.boot(flavor=flavor, networks="none")["id"]
        began = time.monotonic()
        assert behind.request("GET", f"/servers/{server}").status_code == 200
        assert began < until <= time.monotonic()
