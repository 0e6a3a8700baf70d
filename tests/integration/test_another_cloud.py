"""A service that has no business on the broker of a running cloud (another cloud's database, none, one with an old schema)
ends with one line; the cloud does not notice."""
from __future__ import annotations

import pathlib
import signal
import subprocess
import time

import pytest

from tests.support.cloud import Services
from tests.support.engines import RabbitMQ
from tests.support.process import BIN, Process, free_port, wait_for

# what begins the line -> the command, and the status with which it ends
WSGI = "nova_lite.wsgi.compute"
OTHERS = {
    "gunicorn": (WSGI, [BIN / "gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}", f"{WSGI}:application"], 4),
    "uwsgi": (WSGI, [BIN / "pyuwsgi", "--master", "--need-app", "--enable-threads", "--http-socket", "127.0.0.1:{port}",
                     "--module", f"{WSGI}:application"], 4),
    "drain": ("nova-lite-manage", [BIN / "nova-lite-manage", "--config-file", "{config}", "host", "drain", "node"], 1)}
OTHERS |= {name: (f"nova-lite-{name}", [BIN / f"nova-lite-{name}", "--config-file", "{config}"], 1)
           for name in ("conductor", "scheduler", "api")}


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


@pytest.fixture(scope="module")
def unconnected(stranger):
    """The file of options of a service that names no database."""
    path = stranger.directory / "unconnected.conf"
    lines = stranger.config.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("connection = ")))
    return path


@pytest.fixture(scope="module")
def old(stranger):
    """The file of options of a service whose database has an old schema."""
    path = stranger.directory / "old.conf"
    path.write_text(stranger.config.read_text().replace("nova.sqlite", "old.sqlite"))
    subprocess.run([BIN / "nova-lite-manage", "--config-file", path, "db", "sync", "--revision", "0011"], check=True)
    return path


def _ends(process: Process, who: str, status: int = 1) -> str:
    """What a service that does not start says at last; it has one line to say."""
    started = time.monotonic()
    process.start()
    try:
        wait_for(f"the end of {process.name}", lambda: not process.alive(), 60)
    finally:
        process.send(signal.SIGKILL)
    log = process.log.read_text()
    assert process.popen.returncode == status, log
    assert time.monotonic() - started < 50
    lines = [line for line in log.splitlines() if line.startswith(f"{who}: ")]
    assert len(lines) == 1, log
    assert "Traceback" not in log
    assert "is ready" not in log
    return lines[0]


def _other(name: str, config: pathlib.Path) -> str:
    """What one of OTHERS says with these options."""
    who, words, status = OTHERS[name]
    command = [str(word).format(port=free_port(), config=config) for word in words]
    return _ends(Process(f"{name}-{time.monotonic_ns()}", command, config.parent, {"NOVA_LITE_CONF": str(config)}), who, status)


def _own(stranger, name: str, **options: object) -> str:
    return _ends(stranger.another(name, f"{name}-{time.monotonic_ns()}", **options), f"nova-lite-{name}")


def _boot(client, name: str) -> None:
    flavor = client.ok("GET", "/flavors")["flavors"]
    made = flavor[0]["id"] if flavor else client.ok("POST", "/flavors", json={
        "flavor": {"name": "tiny", "ram": 1, "vcpus": 1, "disk": 1}})["flavor"]["id"]
    client.wait(client.boot(name, made, networks="none")["id"], "ACTIVE", 60)


@pytest.mark.parametrize("name", ["conductor", "scheduler", "api"])
@pytest.mark.parametrize("mode", ["eventlet", "threading"])
@pytest.mark.parametrize("workers", [1, 2])
def test_it_does_not_start(cloud, stranger, name, mode, workers):
    stranger.env["NOVA_LITE_CONCURRENCY"] = mode
    line = _own(stranger, name, **{f"{name}__workers": workers})
    assert "and the conductor on node, which answers at transport_url, is of cloud" in line
    _boot(cloud.client(), f"after-{name}-{mode}-{workers}")


@pytest.mark.parametrize("name", ["gunicorn", "uwsgi", "drain"])
def test_nor_does_what_sends_messages_only(cloud, stranger, name):
    assert "and the conductor on node, which answers at transport_url, is of cloud" in _other(name, stranger.config)
    _boot(cloud.client(), f"after-{name}")


@pytest.mark.parametrize("name", OTHERS)
def test_nor_without_a_connection(cloud, unconnected, name):
    assert "[database] connection is not set" in _other(name, unconnected)
    _boot(cloud.client(), f"unconnected-{name}")


@pytest.mark.parametrize("name", OTHERS)
def test_nor_with_an_old_schema(cloud, old, name):
    assert "The database schema is at 0011" in _other(name, old)
    _boot(cloud.client(), f"old-{name}")


def test_it_refuses_the_hosts_when_only_they_are_there(cloud, stranger):
    """No service that has the cloud's id can tell the other cloud's conductor, which so starts."""
    for name in ("conductor", "scheduler"):
        cloud.processes[name].kill(signal.SIGTERM)
    other = stranger.another("conductor", "conductor-among-hosts")
    other.start()
    try:
        wait_for("a refusal", lambda: "refused a call of heartbeat by host node" in other.log.read_text(), 60)
        line = _ends(cloud.another("conductor", "conductor-too-late"), "nova-lite-conductor")
        assert "and the conductor on node, which answers at transport_url, is of cloud" in line
    finally:
        other.send(signal.SIGKILL)
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
