"""The walk with real guests: two libvirt hosts, whose daemons are killed and which lose their power, with RabbitMQ and MariaDB.

A round takes about a minute on an idle machine, so only ``make walk GUESTS=real`` takes any (``NOVA_LITE_GUEST_WALK_ROUNDS``).
"""
from __future__ import annotations

import os
import random
import shutil
import time

import pytest

from tests.chaos.guest_checks import GuestChecks
from tests.chaos.guest_cloud import GuestCloud
from tests.chaos.test_walk import SEED
from tests.chaos.walk import Walk
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
        made = GuestCloud(tmp_path / "cloud", rabbit, maria, random.Random(SEED))
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
    print(f"\nNOVA_LITE_WALK_SEED={SEED} NOVA_LITE_GUEST_WALK_ROUNDS={ROUNDS}", flush=True)
    walk, checks = Walk(cloud, random.Random(SEED), SERVERS), GuestChecks(cloud)
    for number in range(1, ROUNDS + 1):
        began = time.monotonic()
        walk.round()
        cloud.let_up()
        checks.settled()
        settled = time.monotonic()
        problems = checks.problems(walk)
        print(f"round {number}: {settled - began:.0f} s, looked at for {time.monotonic() - settled:.0f} s; killed: "
              f"{', '.join(walk.kills)}; {'; '.join(map(str, walk.steps))}", flush=True)
        assert not problems, "\n".join([
            f"NOVA_LITE_WALK_SEED={SEED}, round {number}, killed {walk.kills}:", *problems, *map(str, walk.steps),
            cloud.logs()])
    _delete_all(cloud)
    wait_for("nothing to be left", lambda: not checks.left(), 60, 1)
