"""A conductor or scheduler of another cloud, on the broker of one that runs, ends with one line; the cloud does not notice."""
from __future__ import annotations

import re
import signal
import time

import pytest

from tests.support.cloud import Services
from tests.support.engines import RabbitMQ
from tests.support.process import wait_for


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    directory = tmp_path_factory.mktemp("cloud")
    services = Services(directory, broker.url, f"sqlite:///{directory}/nova.sqlite")
    try:
        broker.start()
        services.processes.pop("api-metadata")
        services.start()
        services.add_image()
        yield services
    finally:
        services.stop()
        broker.close()


@pytest.fixture(scope="module")
def stranger(cloud, tmp_path_factory):
    """The options of another cloud's services, which have this one's broker."""
    directory = tmp_path_factory.mktemp("stranger")
    services = Services(directory, cloud.processes["api"].command[-1], f"sqlite:///{directory}/nova.sqlite")
    services.config.write_text(cloud.config.read_text().replace(str(cloud.directory), str(directory)))
    services.manage("db", "sync")
    return services


def _ends(stranger, name: str, **options: object) -> str:
    """What a service that does not start says at last; it has one line to say."""
    process = stranger.another(name, f"{name}-{time.monotonic_ns()}", **options)
    started = time.monotonic()
    process.start()
    try:
        wait_for(f"the end of the {name}", lambda: not process.alive(), 30)
    finally:
        process.send(signal.SIGKILL)
    assert process.popen.returncode == 1
    assert time.monotonic() - started < 20
    lines = [line for line in process.log.read_text().splitlines() if line.startswith(f"nova-lite-{name}: ")]
    assert len(lines) == 1
    assert "Traceback" not in process.log.read_text()
    assert "is ready" not in process.log.read_text()
    return lines[0]


def _boot(client, name: str) -> None:
    flavor = client.ok("GET", "/flavors")["flavors"]
    made = flavor[0]["id"] if flavor else client.ok("POST", "/flavors", json={
        "flavor": {"name": "tiny", "ram": 1, "vcpus": 1, "disk": 1}})["flavor"]["id"]
    client.wait(client.boot(name, made, networks="none")["id"], "ACTIVE", 60)


@pytest.mark.parametrize("name", ["conductor", "scheduler"])
@pytest.mark.parametrize("mode", ["eventlet", "threading"])
@pytest.mark.parametrize("workers", [1, 2])
def test_it_does_not_start(cloud, stranger, name, mode, workers):
    stranger.env["NOVA_LITE_CONCURRENCY"] = mode
    line = _ends(stranger, name, **{f"{name}__workers": workers})
    assert "and the conductor on node, which answers at transport_url, is of cloud" in line
    _boot(cloud.client(), f"after-{name}-{mode}-{workers}")


def test_nor_while_only_the_hosts_are_there(cloud, stranger):
    for name in ("conductor", "scheduler"):
        cloud.processes[name].kill(signal.SIGTERM)
    assert "and the compute on node," in _ends(stranger, "conductor")
    for name in ("conductor", "scheduler"):
        cloud.processes[name].start()
    cloud.wait_ready()
    _boot(cloud.client(), "after-the-restart")


def test_a_second_conductor_of_this_cloud_does_start(cloud):
    for mode, workers in (("eventlet", 1), ("eventlet", 2), ("threading", 2)):
        second = cloud.another("conductor", f"second-{mode}-{workers}", host="second", conductor__workers=workers)
        second.env["NOVA_LITE_CONCURRENCY"] = mode
        second.start()
        try:
            wait_for("it", lambda second=second, workers=workers: second.log.read_text().count("is ready") == workers, 30)
            _boot(cloud.client(), f"with-{mode}-{workers}")
        finally:
            assert second.kill(signal.SIGTERM) == 0


def test_nor_with_an_old_schema_or_without_a_connection(cloud, tmp_path):
    services = Services(tmp_path, "", f"sqlite:///{tmp_path}/nova.sqlite")
    services.config.write_text(cloud.config.read_text().replace(str(cloud.directory), str(tmp_path)))
    services.manage("db", "sync", "--revision", "0011")
    assert "schema" in _ends(services, "conductor")
    services.config.write_text(re.sub("^connection = .*$", "", services.config.read_text(), flags=re.MULTILINE))
    assert "[database] connection is not set" in _ends(services, "conductor")
    _boot(cloud.client(), "unnoticed")
