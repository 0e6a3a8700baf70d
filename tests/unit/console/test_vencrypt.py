"""VNC by TLS: a proxy in a process of its own, with green and with native threads, between a websocket and a VNC server that
shows its certificate and wants to see the proxy's."""
import os
import socket
import ssl
import subprocess
import sys

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.console import vencrypt
from tests.support import rfb
from tests.support.certificates import Authority
from tests.support.many_files import many_files
from tests.support.process import wait_for
from tests.support.websocket import WebSocket


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("pki"))
    made.server, made.client = made.sign("server", "127.0.0.1"), made.sign("client", "proxy", client=True)
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Of an authority that nobody here trusts."""
    made = Authority(tmp_path_factory.mktemp("other"))
    made.server, made.client = made.sign("server", "127.0.0.1"), made.sign("client", "proxy", client=True)
    return made


@pytest.fixture
def server(pki):
    """Makes VNC servers; ``own`` is their certificate."""
    made = []

    def make(own=pki.server):
        made.append(rfb.VncServer(_context(pki, own)))
        return made[-1]
    yield make
    for one in made:
        one.close()


def _context(pki, own):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki.file)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(*own)
    return tls


class Process:
    def __init__(self, mode, server, pki, client, log):
        self.log = log
        with open(log, "wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.unit.console.vnc_proxy", str(server.port), str(pki.file), *map(str, client)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "NOVA_LITE_CONCURRENCY": mode})
        self.port = int(self._popen.stdout.readline() or 0)

    def stop(self):
        self._popen.stdin.close()
        self._popen.stdout.close()
        self._popen.wait(30)

    def open(self):
        return WebSocket(f"ws://127.0.0.1:{self.port}/?token=any")


@pytest.fixture(params=["eventlet", "threading"])
def proxy(request, pki, tmp_path):
    """Starts one before a server."""
    started = []

    def start(server, client=pki.client):
        started.append(Process(request.param, server, pki, client, tmp_path / "log"))
        return started[-1]
    yield start
    for one in started:
        one.stop()


def test_the_way_through(server, proxy):
    """The handshake of both sides, much data both ways at once, the end."""
    console = server()
    running = proxy(console)
    for _ in range(2):
        with running.open() as client:
            assert rfb.framebuffer(client) == (640, 480, "guest")
            sent = os.urandom(1 << 20).replace(b"end", b"END")        # which is the end's own
            for start in range(0, len(sent), 1 << 16):
                client.send(sent[start:start + (1 << 16)])
            client.send(b"end")
            assert client.read_until(b"end").startswith(sent)
            assert client.receive() is None
    with running.open() as client:      # who goes away leaves nothing behind
        assert rfb.framebuffer(client)[0] == 640
    wait_for("the console to be left", lambda: console.connections == 3 and not console.errors, 30)
    with running.open() as client:
        client.send(rfb.VERSION + b"\x01\x01hello")         # all at once, before anything was asked
        assert client.read_until(b"hello").startswith(rfb.VERSION + b"\x01\x01" + bytes(4))


def test_what_is_not_tls_is_no_console(server, proxy, stranger, pki, monkeypatch):
    """One line that says what is wrong, and nothing plain."""
    wrong_name = pki.sign("elsewhere", "192.0.2.1", "host7.example.org")
    console = server()
    running = proxy(console)
    lines = []
    for values, told in (({"types": b"\x01"}, "offers none (only the security types 1)"),
                         ({"types": b"\x02\x01"}, "offers none (only the security types 2, 1)"),
                         ({"types": b""}, "refuses all security types: busy"),
                         ({"subtypes": [261, 263]}, "only 261, 263"), ({"subtypes": []}, "only nothing"),
                         ({"vencrypt": b"\x00\x01"}, "offers VeNCrypt 0.1"),
                         ({"version": b"RFB 003.003\n"}, "not RFB 3.8"), ({"version": b"SSH-2.0-srv\n"}, "not RFB 3.8"),
                         ({"result": b"\0\0\0\1\0\0\0\2no"}, "refuses the connection: no"),
                         ({"tls": _context(pki, stranger.server)}, "CERTIFICATE_VERIFY_FAILED"),
                         ({"tls": _context(pki, wrong_name)}, "127.0.0.1")):
        with monkeypatch.context() as patch:
            for name, value in values.items():
                patch.setattr(console, name, value)
            with running.open() as client:
                assert client.receive() is None, values
        *before, line = [line for line in running.log.read_text().splitlines() if "is not reached" in line]
        assert (before, told in line) == (lines, True), values
        lines.append(line)
        assert console.connections == len(lines)


def test_who_shows_no_certificate_or_a_strange_one(server, proxy, stranger):
    for client in (("", ""), stranger.client):
        running = proxy(server(), client)
        with running.open() as opened:
            assert opened.receive() is None
        assert "is not reached" in running.log.read_text()
        running.stop()


def test_browsers_that_speak_otherwise(server, proxy):
    running = proxy(server())
    for said in (b"RFB 003.003\n", rfb.VERSION + b"\x02"):
        with running.open() as client:
            client.send(said)
            client.receive()
            assert client.read_until_end() in (b"", b"\x01\x01")
    assert running.log.read_text().count("has got no console") == 2


def test_a_proxy_with_many_open_files(server, pki):
    """With native threads, as here."""
    console = server()
    tls = vencrypt.context(options(ca_certs=pki.file, client_cert=pki.client[0], client_key=pki.client[1]))
    with many_files():
        browser = vencrypt.secured(socket.create_connection(("127.0.0.1", console.port)), tls, "127.0.0.1")
    with browser:
        browser.settimeout(60)
        browser.sendall(b"\1")
        screen = b""
        while len(screen) < 29:
            screen += (more := browser.recv(1024))
            assert more
        assert screen.endswith(b"guest")


def options(**values):
    return nova_conf.load([], config_files=[], **{f"vnc__vencrypt_{name}": str(value) for name, value in values.items()})


def test_options(pki, tmp_path):
    assert vencrypt.context(options()) is None
    assert vencrypt.context(options(ca_certs=pki.file)).verify_mode == ssl.CERT_REQUIRED
    certificate, key = pki.client
    for wrong in ({"client_cert": certificate, "client_key": key}, {"ca_certs": pki.file, "client_cert": certificate},
                  {"ca_certs": tmp_path / "none"}, {"ca_certs": key}, {"ca_certs": pki.file, "client_cert": certificate,
                                                                     "client_key": pki.server[1]}):
        with pytest.raises(exception.ConfigError, match="vencrypt"):
            vencrypt.context(options(**wrong))
