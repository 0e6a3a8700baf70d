"""Nodes of the clusters fail, one after the other, while servers walk through all verbs: ``tests/chaos``."""
from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import requests
import sqlalchemy as sa

from nova_lite import retry
from tests.chaos import rounds
from tests.chaos.walk import Walk
from tests.chaos.walk_checks import Checks
from tests.chaos.walk_cloud import WalkCloud
from tests.chaos.walked import PROJECT, VERSION
from tests.cluster.nodes import FAULTS, MARIAS, RABBITS, Cluster
from tests.support.client import Compute
from tests.support.fake_neutron import FakeNeutron

T = TypeVar("T")
SECONDS = {"kill": 20, "hang": 60, "cut": 60}
RETRIES = retry.every(0.5, timeout=60.0)
BUSY = "503"      # what the API may say while the database or the broker changes


class _Engine:
    """Stands where a single broker or database stands in tests/chaos."""

    def __init__(self, url: str) -> None:
        self.url = url

    def new_database(self) -> str:
        return self.url

    def restart(self) -> None:
        """Nothing: these tests themselves choose which node fails."""


class RetryingClient(Compute):
    """Asks again when the API could not read the database, which says so: 503."""

    def request(self, method: str, path: str, version: str | None = None, **kwargs: Any) -> requests.Response:
        """See Compute."""
        return retry.poll(lambda: super(RetryingClient, self).request(method, path, version, **kwargs),
                          lambda answer: method != "GET" or str(answer.status_code) != BUSY, RETRIES)


def _read_again(read: Callable[[], T]) -> T:
    """``read()``, again when its connection goes to the node that fails."""
    return retry.on_error(read, sa.exc.OperationalError, RETRIES)


class ClusterCloud(WalkCloud):
    """With a second conductor and scheduler."""

    def __init__(self, directory: Any, cluster: Cluster, database_url: str, neutron: FakeNeutron, rng: random.Random) -> None:
        self.cluster = cluster
        # another cloud may still use the brokers
        super().__init__(directory, _Engine(cluster.transport_url), _Engine(database_url),  # type: ignore[arg-type]
                         neutron, rng, rpc__exchange=sa.make_url(database_url).get_backend_name())
        for service in ("conductor", "scheduler"):
            self.processes[f"{service}-2"] = self.another(service, f"{service}-2", host="node-2")
        self.begin()
        self.victims += ["conductor-2", "scheduler-2"]

    def walker(self) -> Compute:
        """See Walked."""
        return RetryingClient(self.endpoint, f"admin:{PROJECT}", VERSION)

    def servers(self) -> dict[str, dict[str, Any]]:
        """See Walked."""
        return _read_again(super().servers)


class ClusterChecks(Checks):
    """A request may be refused while the database or the broker changes."""

    def _look(self, walk: Walk) -> list[str]:
        def is_busy(problem: str) -> bool:
            return problem.startswith("the API said") and f" {BUSY} " in problem

        return [problem for problem in _read_again(lambda: super(ClusterChecks, self)._look(walk)) if not is_busy(problem)]

    def _under_way(self) -> list[str]:
        return _read_again(super()._under_way)


class Answers:
    """Asks the API twice a second, by GET, while the block runs. ``longest``: the seconds of the longest time without a good
    answer."""

    def __init__(self, cloud: ClusterCloud) -> None:
        self._cloud, self._ended, self.longest = cloud, threading.Event(), 0.0
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Answers:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(0.5):
            try:
                good = requests.get(f"{self._cloud.endpoint}/servers?limit=1", timeout=30,
                                    headers={"X-Auth-Token": self._cloud.token}).status_code == 200
            except requests.RequestException:
                good = False
            if good:
                self.longest, last = max(self.longest, time.monotonic() - last), time.monotonic()
        self.longest = max(self.longest, time.monotonic() - last)


class Walked:
    """A cloud on the cluster, and the walk of its servers."""

    def __init__(self, directory: Any, cluster: Cluster, database_url: str, neutron: FakeNeutron) -> None:
        rng = random.Random(rounds.SEED)
        self.cloud = ClusterCloud(directory, cluster, database_url, neutron, rng)
        self.walk, self.checks = Walk(self.cloud, rng), ClusterChecks(self.cloud)

    def settle(self, what: str, answers: Answers) -> None:
        """After a round: AssertionError with all that is not in order."""
        began = time.monotonic()
        self.cloud.let_up()
        self.checks.settled()
        print(f"{what}: {answers.longest:.1f} s without an answer of the API; {time.monotonic() - began:.0f} s until all is "
              f"done; killed: {', '.join(self.walk.kills)}", flush=True)
        problems = self.checks.problems(self.walk)
        assert not problems, "\n".join([f"NOVA_LITE_WALK_SEED={rounds.SEED}, {what}, killed {self.walk.kills}:", *problems,
                                        *map(str, self.walk.steps), self.cloud.logs()])


def _walked(directory: Any, cluster: Cluster, database_url: str) -> Iterator[Walked]:
    with FakeNeutron() as neutron:
        made = Walked(directory, cluster, database_url, neutron)
        try:
            made.cloud.start()
            yield made
        finally:
            made.cloud.end()


@pytest.fixture(scope="module")
def walked(cluster: Cluster, tmp_path_factory: Any) -> Iterator[Walked]:
    yield from _walked(tmp_path_factory.mktemp("maria"), cluster, cluster.new_maria()["balanced"])


@pytest.fixture
def walked_on_postgresql(cluster: Cluster, tmp_path: Any) -> Iterator[Walked]:
    yield from _walked(tmp_path, cluster, cluster.new_postgresql())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("node", [*RABBITS, *MARIAS])
def test_a_node_fails(walked: Walked, cluster: Cluster, node: str, fault: str) -> None:
    with Answers(walked.cloud) as answers, cluster.fault(node, fault, SECONDS[fault]):
        walked.walk.round()
    walked.settle(f"{node} {fault}", answers)


def test_the_standby_of_postgresql_is_promoted(walked_on_postgresql: Walked, cluster: Cluster) -> None:
    walked = walked_on_postgresql
    walked.walk.round()
    with Answers(walked.cloud) as answers, cluster.fault("postgres-1", "kill", 0):
        cluster.run("promote")
        walked.walk.round()
    walked.settle("postgres-1 kill, postgres-2 promoted", answers)
