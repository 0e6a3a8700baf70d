"""Compute hosts and the conductor come and go in any order, on a real broker, without long waits."""
from __future__ import annotations

import signal
import sqlite3
import time

import pytest

from tests.support.cloud import Services
from tests.support.engines import RabbitMQ
from tests.support.process import wait_for


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory):
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_a_compute_host_before_and_after_the_conductor(rabbit, tmp_path, mode):
    services = Services(tmp_path, f"{rabbit.url}", f"sqlite:///{tmp_path}/nova.sqlite",
                        {"NOVA_LITE_CONCURRENCY": mode}, rpc__exchange=f"nova_lite_{mode}", fake__hosts=5,
                        compute__report_interval=1)
    compute, conductor = services.processes["compute"], services.processes["conductor"]
    services.manage("db", "sync")

    def up() -> int:
        with sqlite3.connect(tmp_path / "nova.sqlite") as db:
            return db.execute("SELECT count(*) FROM services WHERE binary = 'nova-compute'").fetchone()[0]
    try:
        # no conductor has ever been there: the broker knows no queue and drops the first messages
        compute.start()
        wait_for("compute", lambda: "is ready" in compute.tail(), 30)
        wait_for("the first ping that nobody hears", lambda: "waiting for a conductor" in compute.tail(400), 30)
        conductor.start()
        wait_for("five hosts", lambda: up() == 5, 60)
        # they have asked whether it is there; a report that nobody takes would have cost them its whole timeout
        assert "did not answer" not in compute.log.read_text()
        conductor.kill(signal.SIGTERM)
        time.sleep(3)               # now reports are under way that nobody answers, and for all else there is nothing to do
        assert compute.kill(signal.SIGTERM, 60) == 0
        told = compute.log.read_text().partition("is stopping")[2]
        assert "has stopped" in told
        assert "asking again" not in told
        assert "Traceback" not in compute.log.read_text()
    finally:
        for process in (compute, conductor):
            if process.alive():
                process.kill()
