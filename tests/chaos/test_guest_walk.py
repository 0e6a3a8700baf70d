"""The walk with real guests: two libvirt hosts, of which daemon and libvirtd are killed and the power fails, with RabbitMQ and
MariaDB.

A round takes about a minute on an idle machine, so only ``make walk GUESTS=real`` takes any (``NOVA_LITE_GUEST_WALK_ROUNDS``).
"""
from __future__ import annotations

import os
import random
import shutil

import pytest

from tests.chaos import rounds
from tests.chaos.guest_checks import GuestChecks
from tests.chaos.guest_cloud import GuestCloud
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for

ROUNDS = int(os.environ.get("NOVA_LITE_GUEST_WALK_ROUNDS", "0"))
SERVERS = 4

pytestmark = [
    pytest.mark.skipif(not ROUNDS, reason="make walk GUESTS=real"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")]


@pytest.fixture
def cloud(tmp_path):
    rabbit, maria = RabbitMQ(tmp_path / "rabbitmq", "0.0.0.0"), MariaDB(tmp_path / "mariadb")  # noqa: S104
    made = None
    try:
        rabbit.start()
        maria.start()
        made = GuestCloud(tmp_path / "cloud", rabbit, maria, random.Random(rounds.SEED))
        yield made.start()
    finally:
        if made is not None:
            made.end()
        rabbit.close()
        maria.close()


def _delete_all(cloud: GuestCloud) -> None:
    client = cloud.walker()
    for server in cloud.servers():
        client.action(server, "forceDelete")
    wait_for("all servers to go", lambda: not cloud.servers(), 300, 1)


@pytest.mark.timeout(600 + 1500 * ROUNDS)
def test_a_walk_of_real_guests_leaves_the_cloud_in_order(cloud):
    checks = GuestChecks(cloud)
    rounds.walk(checks, random.Random(rounds.SEED), ROUNDS, SERVERS)
    _delete_all(cloud)
    wait_for("nothing to be left", lambda: not checks.left(), 60, 1)
