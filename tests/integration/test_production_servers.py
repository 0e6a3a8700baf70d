"""The API and the metadata service under gunicorn and under uWSGI, as the README starts them."""
from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

import pytest
import requests

from tests.support.client import Compute
from tests.support.cloud import Services, healthy
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import BIN, Process, free_port, wait_for

COMPUTE, METADATA = "nova_lite.wsgi.compute:application", "nova_lite.wsgi.metadata:application"
SERVERS = {
    "gunicorn": [str(BIN / "gunicorn"), "--threads", "20", "--no-control-socket", "--bind", "127.0.0.1:{port}",
                 "{application}"],
    "uwsgi": [str(BIN / "pyuwsgi"), "--master", "--need-app", "--die-on-term", "--enable-threads", "--threads", "20",
              "--add-header", "Connection:close", "--http-socket", "127.0.0.1:{port}", "--module", "{application}"]}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    directory = tmp_path_factory.mktemp("production")
    rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
    services = None
    try:
        rabbit.start()
        maria.start()
        services = Services(directory / "cloud", rabbit.url, maria.new_database(), api__auth_strategy="embedded")
        yield services.start()
    finally:
        if services is not None:
            services.stop()
        rabbit.close()
        maria.close()


@contextlib.contextmanager
def _served(command: list[str], application: str, cloud: Services, directory: pathlib.Path) -> Iterator[str]:
    """The URL at which a server answers."""
    port = free_port()
    server = Process("server", [part.format(port=port, application=application) for part in command], directory,
                     {**os.environ, "NOVA_LITE_CONF": str(cloud.config)})
    server.start()
    try:
        wait_for("the server", lambda: server.alive() and healthy(f"http://127.0.0.1:{port}"), 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()


@pytest.fixture(params=SERVERS.values(), ids=list(SERVERS))
def command(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture
def url(command: list[str], cloud: Services, tmp_path: pathlib.Path) -> Iterator[str]:
    with _served(command, COMPUTE, cloud, tmp_path) as found:
        yield found


def test_a_server_is_built_and_deleted(cloud: Services, url: str) -> None:
    client = Compute(f"{url}/v2.1", cloud.token, "2.90")
    server = client.boot("made-there")["id"]
    assert client.wait(server, "ACTIVE")["name"] == "made-there"
    client.delete(server)
    client.wait_gone(server)


def test_bodies_are_read_and_refused(cloud: Services, url: str) -> None:
    headers = {"X-Auth-Token": cloud.token, "Content-Type": "application/json"}
    assert requests.post(f"{url}/v2.1/servers", b"{", headers=headers, timeout=10).status_code == 400
    assert requests.post(f"{url}/v2.1/servers", b"x" * 200_000, headers=headers, timeout=10).status_code == 413
    chunked = requests.post(f"{url}/v2.1/servers", iter([b'{"server": ', b"{}}"]), headers=headers, timeout=10)
    assert chunked.status_code == 400       # uWSGI hands no chunked bodies on; gunicorn's lacks the name
    assert requests.get(f"{url}/v2.1/servers", timeout=10).status_code == 401


def test_metadata(cloud: Services, command: list[str], tmp_path: pathlib.Path) -> None:
    with _served(command, METADATA, cloud, tmp_path) as url:
        assert "latest" in requests.get(f"{url}/", timeout=10).text.split()
        assert requests.get(f"{url}/openstack/latest/meta_data.json", timeout=10).status_code == 404     # no guest is there
