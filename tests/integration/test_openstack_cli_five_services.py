"""The stock ``openstack`` command against five processes with the embedded identity, image and network APIs."""
from __future__ import annotations

import pytest

from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.openstack_cli import Openstack, tour


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp("five")
    rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
    services = None
    try:
        rabbit.start()
        maria.start()
        services = Services(directory / "cloud", rabbit.url, maria.new_database(), api__auth_strategy="embedded",
                            network__driver="fake")
        yield services.start()
    finally:
        if services is not None:
            services.stop()
        rabbit.close()
        maria.close()


def test_the_same_tour_as_on_the_standalone_cloud(cloud, tmp_path):
    openstack = Openstack(cloud.directory / "clouds.yaml")
    try:
        tour(openstack, tmp_path)
    finally:
        openstack.close()
