import os

import pytest

from nova_lite.scheduler import host_table
from tests.unit.conductor.cloud import Cloud


@pytest.fixture
def make_cloud(tmp_path, monkeypatch):
    """Makes the cloud of one test, with options of its own."""
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    monkeypatch.setattr(host_table, "CHECK_INTERVAL", 0.0)      # the scheduler sees at once who is silent
    made = []

    def make(*hosts, **options):
        made.append(Cloud(tmp_path, **options))
        for host in hosts:
            made[-1].add_host(host)
        return made[-1]
    yield make
    for one in made:
        one.delay(0.0)
        one.close()


@pytest.fixture
def cloud(make_cloud):
    """Two hosts: h1 and h2."""
    return make_cloud("h1", "h2")
