"""The clusters, which all tests share."""
from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only ``make cluster-test`` runs them: they take longer than all others together."""
    for item in items:
        if "cluster" in item.nodeid.split("/")[1:2]:
            item.add_marker(pytest.mark.timeout(1200))
            if not os.environ.get("NOVA_LITE_CLUSTER"):
                item.add_marker(pytest.mark.skip(reason="make cluster-test"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # a socket's path has 107 characters at most, and the user postgres may not pass through pytest's directories
    made = Cluster(pathlib.Path(tempfile.mkdtemp(prefix="nova-lite-cluster-")))
    try:
        print(made.run("up", "--engines-only"))
        yield made
    finally:
        made.run("down", "--wipe")
