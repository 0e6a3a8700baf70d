"""Five services on a real broker and a real database, for tests that kill them."""
from __future__ import annotations

import pytest

from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    directory = tmp_path_factory.mktemp("engines")
    rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
    try:
        yield rabbit.start(), maria.start()
    finally:
        rabbit.close()
        maria.close()


@pytest.fixture(scope="module")
def cloud(engines, tmp_path_factory):
    """Two fake hosts whose operations take a while, so that every kill meets work in flight."""
    rabbit, maria = engines
    directory = tmp_path_factory.mktemp("cloud")
    services = Services(directory, rabbit.url, maria.new_database(), fake__hosts=2, fake__delay=0.5,
                        fake__state_file=directory / "guests.json", conductor__lease_seconds=6, conductor__sweep_interval=1,
                        conductor__max_attempts=20, compute__report_interval=2,
                        # the restarts of broker, conductor and hosts come one upon the other: all of it is no dead host
                        compute__service_down_time=40,
                        oslo_messaging_rabbit__kombu_reconnect_delay=0.5)
    services.rabbit = rabbit
    try:
        services.start(hosts=2)
        services.add_image()
        yield services
    finally:
        for process in services.processes.values():
            if process.alive():
                process.kill()
