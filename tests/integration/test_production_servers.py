"""The API under gunicorn and under uWSGI, as the README starts them, in place of nova-lite-api."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
import requests

from tests.support.client import Compute
from tests.support.cloud import Services, healthy
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import BIN, Process, free_port, wait_for

APPLICATION = "nova_lite.wsgi.compute:application"
SERVERS = {
    "gunicorn": [str(BIN / "gunicorn"), "--threads", "20", "--no-control-socket", "--bind", "127.0.0.1:{port}", APPLICATION],
    "uwsgi": [str(BIN / "pyuwsgi"), "--master", "--need-app", "--die-on-term", "--enable-threads", "--threads", "20",
              "--add-header", "Connection:close", "--http-socket", "127.0.0.1:{port}", "--module", APPLICATION]}


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


@pytest.fixture(params=SERVERS.values(), ids=list(SERVERS))
def url(request: pytest.FixtureRequest, cloud: Services, tmp_path: pathlib.Path) -> Iterator[str]:
    port = free_port()
    server = Process("server", [part.format(port=port) for part in request.param], tmp_path,
                     {**os.environ, "NOVA_LITE_CONF": str(cloud.config)})
    server.start()
    try:
        wait_for("the server", lambda: server.alive() and healthy(f"http://127.0.0.1:{port}"), 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()


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
