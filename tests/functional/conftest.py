"""The whole cloud in one process (nova-lite-standalone with the fake hypervisor) behind real HTTP.

Each test is run with green threads, which are the default, and with native ones.
"""
from __future__ import annotations

import pytest

from tests.support.cloud import Standalone


@pytest.fixture(scope="session", params=["eventlet", "threading"])
def concurrency(request):
    """The environment of the cloud."""
    return {"NOVA_LITE_CONCURRENCY": request.param}


@pytest.fixture(scope="session")
def standalone(tmp_path_factory, concurrency):
    cloud = Standalone(tmp_path_factory.mktemp("standalone"), concurrency, "--virt-driver", "fake",
                       "--set", "quota.instances=200", "--set", "quota.cores=200", "--set", "quota.ram=-1")
    try:
        yield cloud.start()
    finally:
        if cloud.process.popen is not None:
            assert cloud.stop() == 0, cloud.process.tail()


@pytest.fixture(scope="session")
def admin(standalone):
    return standalone.client("admin")


@pytest.fixture
def demo(standalone):
    """A plain member; its servers are deleted afterwards."""
    client = standalone.client("demo")
    yield client
    for server in client.ok("GET", "/servers")["servers"]:
        client.request("DELETE", f"/servers/{server['id']}")
    for server in client.ok("GET", "/servers")["servers"]:
        client.wait_gone(server["id"])
