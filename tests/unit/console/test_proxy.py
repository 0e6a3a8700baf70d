"""A console proxy on real sockets, before a console that echoes: pages, tokens, origins."""
import contextlib
import socket
import threading
import time

import pytest
import requests

from nova_lite.console.handler import refuse_origin, token_of, without_tokens
from nova_lite.console.proxy import Proxy
from nova_lite.objects.console import ConsoleAuthToken
from nova_lite.runtime.http import sockets
from nova_lite.runtime.http.listener import Limits
from tests.support.websocket import Refused, WebSocket

UUID = "11111111-2222-3333-4444-555555555555"


class Tokens:
    """Knows one token."""

    def __init__(self, port, path=None):
        self.known = ConsoleAuthToken(UUID, "host1", "novnc", "127.0.0.1", port, internal_access_path=path)

    def resolve(self, token):
        return self.known if token == "good" else None


@pytest.fixture
def console():
    """The port of a console that says hello, then echoes; what it was told first is in ``.heads``."""
    listener = socket.create_server(("127.0.0.1", 0))

    class Console:
        port, heads, answer = listener.getsockname()[1], [], b""

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                if Console.answer:
                    Console.heads.append(connection.recv(1000))
                    connection.sendall(Console.answer)
                connection.sendall(b"hello")
                while data := connection.recv(1000):
                    if data == b"end":
                        break
                    connection.sendall(data)
    threading.Thread(target=serve, daemon=True).start()
    yield Console
    listener.close()


@pytest.fixture
def proxy(console, tmp_path):
    made = []
    (tmp_path / "web" / "core").mkdir(parents=True)
    (tmp_path / "web" / "page.html").write_text("noVNC")
    (tmp_path / "secret").write_text("secret")

    def make(**values):
        made.append(Proxy(sockets.bind("127.0.0.1", 0), values.pop("tokens", None) or Tokens(console.port),
                          values.pop("allowed", ()), **{"web": str(tmp_path / "web"), **values}))
        made[-1].start()
        return made[-1]
    yield make
    for one in made:
        one.stop()


def test_a_token_opens_a_console(proxy):
    with WebSocket(f"ws://127.0.0.1:{proxy().port}/?token=good") as client:
        assert "Server: WebSockify" in client.answer
        assert client.receive() == b"hello"
        client.send(b"\x00\xffbytes")
        assert client.receive() == b"\x00\xffbytes"
        client.send(b"x" * 100_000)
        assert client.read_until(b"x" * 100_000)
        client.send(b"end")
        assert client.receive() is None


def test_no_console_without_a_token(proxy, console):
    port = proxy().port
    for path in ("", "?token=bad", "?token=", "?other=good"):
        with WebSocket(f"ws://127.0.0.1:{port}/{path}") as client:
            assert client.receive() is None, path


def test_a_console_that_is_not_there(proxy):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with WebSocket(f"ws://127.0.0.1:{proxy(tokens=Tokens(port)).port}/?token=good") as client:
        assert client.receive() is None


def test_one_port_with_many_consoles(proxy, console):
    console.answer = b"HTTP/1.1 200 OK\r\n\r\n"
    port = proxy(tokens=Tokens(console.port, "path-1")).port
    with WebSocket(f"ws://127.0.0.1:{port}/?token=good") as client:
        assert client.receive() == b"hello"
    assert console.heads == [b"CONNECT path-1 HTTP/1.1\r\n\r\n"]
    console.answer = b"HTTP/1.1 404 Not Found\r\n\r\n"
    with WebSocket(f"ws://127.0.0.1:{port}/?token=good") as client:
        assert client.receive() is None


def test_pages(proxy):
    url = f"http://127.0.0.1:{proxy().port}"
    session = requests.Session()
    session.trust_env = False
    assert session.get(f"{url}/page.html?path=%3Ftoken%3Dx", timeout=30).text == "noVNC"
    assert session.get(f"{url}/core/", timeout=30).status_code == 404        # no lists
    assert session.get(f"{url}/other.html", timeout=30).status_code == 404
    for path in ("/../secret", "/%2e%2e/secret", "//example.org/%2e%2e"):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda raw=raw: raw.recv(1000), b""))
        assert b"secret" not in answer
        assert b"ocation: //" not in answer      # nobody is sent elsewhere
    no_pages = f"http://127.0.0.1:{proxy(web='').port}/page.html"
    assert session.get(no_pages, timeout=30).status_code == 405


def test_pages_from_elsewhere(proxy):
    port = proxy(allowed=["dashboard.example.org"]).port
    url = f"ws://127.0.0.1:{port}/?token=good"
    for origin in (f"http://127.0.0.1:{port}", "https://dashboard.example.org"):
        with WebSocket(url, Origin=origin) as client:
            assert client.receive() == b"hello"
    for origin in ("http://evil.example.org", "null", "http://[::1", "http://127.0.0.1.evil.example.org"):
        with pytest.raises(Refused, match="403"):
            WebSocket(url, Origin=origin)


@pytest.mark.parametrize(("origin", "host", "tls", "refused"), [
    (None, "c.example.org:6080", True, False), ("https://c.example.org:6080", "c.example.org:6080", True, False),
    ("http://c.example.org:6080", "c.example.org:6080", False, False),
    ("https://c.example.org", "c.example.org:6080", False, False),
    ("http://c.example.org:6080", "c.example.org:6080", True, True), ("http://[::1]:6080", "[::1]:6080", False, False),
    ("http://[::1", "[::1]:6080", False, True), ("http://c.example.org", "[::1", False, True),
    ("http://[::2]:6080", "[::1]:6080", False, True), ("c.example.org", "c.example.org", False, True), ("", "x", False, True)])
def test_origins(origin, host, tls, refused):
    assert bool(refuse_origin(origin, host, (), tls)) == refused


def test_where_a_token_is():
    assert token_of("/?token=a") == token_of("?token=a") == token_of("/websockify?x=1&token=a") == "a"
    assert token_of("/websockify", "other=1; token=b") == "b"
    assert token_of("/?token=a", "token=b") == "a"
    assert token_of("/") == token_of("/", "other=1") == ""


def test_the_log_has_no_tokens():
    for text in ("GET /?token=SECRET HTTP/1.1", "GET /vnc.html?path=%3Ftoken%3DSECRET&x=1 HTTP/1.1", "Path: '/?token=SECRET'"):
        assert "SECRET" not in without_tokens(text)
        assert "token=***" in without_tokens(text)


def test_silent_connections_of_an_address_close_only_its_own(proxy):
    port = proxy(limits=Limits(10, 4)).port
    with WebSocket(f"ws://127.0.0.1:{port}/?token=good") as client, contextlib.ExitStack() as stack:
        assert client.receive() == b"hello"
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0))) for _ in range(40)]
        assert silent[0].recv(10) == b""
        client.send(b"still here")
        assert client.receive() == b"still here"
    with WebSocket(f"ws://127.0.0.1:{port}/?token=good") as another:
        assert another.receive() == b"hello"


def test_a_request_that_drips_is_cut_off(proxy):
    with socket.create_connection(("127.0.0.1", proxy().port), 5) as sock:
        sock.settimeout(0.5)
        end, ended = time.monotonic() + 25, False
        while not ended and time.monotonic() < end:
            try:
                sock.sendall(b"G")
                ended = sock.recv(10) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
    assert ended


def _get(sock, path=b"/page.html"):
    """A page, on a connection that stays."""
    sock.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"noVNC"):
        answer += sock.recv(1000)
    return answer


def test_a_connection_that_has_had_a_page_waits(proxy):
    port = proxy(limits=Limits(10, 4)).port
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            assert [_get(sock), _get(sock)]     # the connection stays
            sock.sendall(b"G")
        with WebSocket(f"ws://127.0.0.1:{port}/?token=good") as client:
            assert client.receive() == b"hello"


@pytest.mark.parametrize(("head", "status"), [
    (b"X: " + b"a" * 70_000 + b"\r\n", b"431"), (b"A: b\r\n" * 101, b"431"), ((b"X: " + b"a" * 40_000 + b"\r\n") * 2, b"431"),
    (b"X: 1\n", b"400"), (b"X: " + b"\0" * 60_000 + b"\r\n", b"400"), (b"Host: y\r\n", b"400")])
def test_heads_that_are_refused(proxy, head, status):
    with socket.create_connection(("127.0.0.1", proxy().port), 5) as sock:
        sock.sendall(b"GET /page.html HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
        answer = b"".join(iter(lambda: sock.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert len(answer) < 1000


def test_a_body_is_no_request(proxy):
    hidden = b"GET /page.html HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy().port), 5) as sock:
        sock.sendall(b"GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden)
        answer = b"".join(iter(lambda: sock.recv(1000), b""))
    assert answer.count(b"HTTP/1.1 404 ") == 1
    assert b"noVNC" not in answer
