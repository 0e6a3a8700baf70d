"""One cluster for all tests of this directory."""
from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.ceph.cluster import Ceph, missing

POOL = "vms"
CAPABILITIES = ("mon", "profile rbd", "osd", f"profile rbd pool={POOL}", "mgr", f"profile rbd pool={POOL}")


@pytest.fixture(scope="session")
def ceph() -> Iterator[Ceph]:
    """With a pool and the user ``nova`` that may do in it what Ceph's documentation gives to Nova."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ceph-"))
    try:
        with Ceph(directory) as cluster:
            cluster.make_pool(POOL)
            cluster.key = cluster.make_user("nova", *CAPABILITIES)
            yield cluster
    finally:
        shutil.rmtree(directory, ignore_errors=True)
