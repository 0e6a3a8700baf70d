"""The stock ``openstack`` command against the standalone cloud, as the README tells a user to use it."""
from __future__ import annotations

import pytest

from tests.support.openstack_cli import Openstack, tour, volume_tour


@pytest.fixture(scope="session")
def openstack(standalone):
    client = Openstack(standalone.directory / "state" / "clouds.yaml")
    yield client
    client.close()


def test_a_tour_of_the_compute_commands(openstack, tmp_path):
    tour(openstack, tmp_path)


def test_a_tour_of_the_volume_commands(openstack):
    volume_tour(openstack)


@pytest.mark.parametrize("arguments", [
    ("flavor", "list"), ("keypair", "list"), ("hypervisor", "list"), ("compute", "service", "list"), ("aggregate", "list"),
    ("availability", "zone", "list", "--compute"), ("server", "group", "list"), ("limits", "show", "--absolute"),
    ("quota", "show", "--compute"), ("image", "list"), ("network", "list"), ("project", "list"), ("catalog", "list"),
    ("subnet", "list"), ("versions", "show"), ("limits", "show", "--reserved", "--absolute"), ("quota", "show", "--volume"),
    ("volume", "type", "list"), ("volume", "snapshot", "list"), ("availability", "zone", "list", "--volume"),
    ("volume", "attachment", "list", "--os-volume-api-version", "3.27")], ids=" ".join)
def test_list_commands(openstack, arguments):
    assert isinstance(openstack(*arguments), (list, dict))
