from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nova_lite.runtime.http import sockets
from nova_lite.runtime.http.listener import Limits
from nova_lite.runtime.http.server import WSGIServer
from tests.unit.runtime.http.served import Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application; the answer is the port."""
    made = []

    def start(app: Any, limits: Limits | None = None, host: str = "127.0.0.1") -> int:
        made.append(WSGIServer(app, sockets.bind(host, 0), None, limits))
        made[-1].start()
        return made[-1].port
    yield start
    for server in made:
        server.stop()
