"""Requests in bytes to a server of the test, and what comes back."""
from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

Start = Callable[..., Any]
Serve = Callable[..., int]


def exchange(port: int, *sent: bytes) -> bytes:
    """All that comes back until the server closes: the client sends no more requests, and says so."""
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        for part in sent:
            sock.sendall(part)
        answer = b""
        with contextlib.suppress(OSError):      # the server has closed the connection already
            sock.shutdown(socket.SHUT_WR)
        while more := sock.recv(65536):
            answer += more
    return answer


def echo(environ: dict[str, Any], start: Start) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']} ".encode(), body]


def silent(port: int, address: str) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(5)
    sock.bind((address, 0))
    sock.connect(("127.0.0.1", port))
    return sock
