import os

import pytest

from tests.unit.compute.volumes.volume_cloud import VolumeCloud


@pytest.fixture
def make_volume_cloud(tmp_path, monkeypatch):
    """Makes the cloud of one test."""
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    made = []

    def make(*hosts, **options):
        made.append(VolumeCloud(tmp_path, hosts or ("h1",), **options))
        return made[-1]
    yield make
    for one in made:
        one.delay(0.0)
        for meddling in (one.api_volumes, one.conductor_volumes, *one.host_volumes.values(), *one.drivers.values()):
            meddling.heal()
        one.close()


@pytest.fixture
def cloud(make_volume_cloud):
    """One host: h1."""
    return make_volume_cloud()
