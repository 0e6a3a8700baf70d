"""TLS of the API's two servers: a handshake that fails is one line, and nobody else's business."""
from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
import struct
import subprocess
import sys
import time

import pytest

from tests.support.process import Process, free_port, wait_for

SERVER = """
import logging, sys, time
from nova_lite.runtime import concurrency
concurrency.setup()
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
from nova_lite.runtime.http import server, sockets
def app(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.url_scheme"].encode()]
port, certificate, key = sys.argv[1:]
server.WSGIServer(app, sockets.bind("127.0.0.1", int(port)), sockets.tls_context(certificate, key)).start()
while True:
    time.sleep(1)
"""


@pytest.fixture(params=["eventlet", "threading"])
def server(request, tmp_path):
    key, certificate, port = tmp_path / "key.pem", tmp_path / "cert.pem", free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key,
                    "-out", certificate], check=True, capture_output=True)
    process = Process("server", [sys.executable, "-W", "ignore", "-c", SERVER, str(port), str(certificate), str(key)], tmp_path,
                      {"NOVA_LITE_CONCURRENCY": request.param, "PYTHONPATH": str(pathlib.Path(__file__).parents[4])})
    process.start()
    wait_for("the server", lambda: _listens(port), 30)
    process.port = port
    yield process
    process.kill()


def _listens(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _plain(port):
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            sock.recv(100)


def _distrusts(port):
    with socket.create_connection(("127.0.0.1", port), 5) as sock, pytest.raises(ssl.SSLError):
        ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")


def _goes(port):
    socket.create_connection(("127.0.0.1", port), 5).close()


def _resets(port):
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(b"\x16\x03\x01")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _asks(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 5) as sock, context.wrap_socket(sock) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while more := secure.recv(1000):
            answer += more
    return answer


@pytest.mark.parametrize(("client", "lines"), [(_plain, 1), (_distrusts, 1), (_goes, 0), (_resets, None)])
def test_a_handshake_that_fails_is_one_line_and_ends_nothing(server, client, lines):
    before = server.log.read_text()
    client(server.port)
    answer = _asks(server.port)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith((b"https", b"https\r\n0\r\n\r\n"))
    if lines:
        wait_for("the line", lambda: "TLS" in server.log.read_text()[len(before):], 5)
    time.sleep(0.2)
    told = server.log.read_text()[len(before):].splitlines()
    assert "Traceback" not in str(told)
    if lines is not None:
        assert len(told) == lines, told
