"""Limits hold when services that use different nodes of the database compete."""
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances, migration, models
from nova_lite.db.core import Database, make_engine
from nova_lite.objects.action import COMPUTE
from tests.cluster.nodes import MARIAS, Cluster
from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.process import free_port, wait_for
from tests.support.servers import add_server

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


def test_the_owner_of_a_lease_that_another_node_gives_away_writes_nothing(cluster: Cluster) -> None:
    urls = cluster.new_maria()
    old, new = (Database(conf_module.load([], config_files=[], database__connection=urls[node])) for node in MARIAS[:2])
    migration.sync(old.conf)
    server = add_server(old).uuid
    context = RequestContext(user_id="u", project_id="p", overwrite=False)
    [action] = old.write(actions.create, context, "stop", [server], 30, COMPUTE, "h")
    old.write(actions.claim, [action], "old", -1, COMPUTE)      # has ended already
    try:
        with old.engine.connect() as connection:
            actions.check_held(connection, action, "old")
            instances.update(connection, server, {"display_description": "written by the old owner"})
            assert [one.id for one in new.write(actions.claim, [action], "new", 30, COMPUTE)] == [action]
            with pytest.raises(sa.exc.OperationalError, match="1213"):
                connection.commit()
        with old.read() as connection:
            assert instances.get(connection, server).display_description is None
    finally:
        for database in (old, new):
            database.dispose()


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
