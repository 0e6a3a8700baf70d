"""One server for WSGI applications, over real sockets: what goes in and out, when connections stay, and limits."""
from __future__ import annotations

import contextlib
import http.client
import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.validate import validator

import pytest

from nova_lite import exception
from nova_lite.runtime.http import sockets
from nova_lite.runtime.http.listener import Limits
from nova_lite.runtime.http.server import WSGIServer
from tests.support.process import wait_for

Start = Callable[..., Any]
Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application; the answer is the port."""
    made = []

    def start(app: Any, limits: Limits | None = None) -> int:
        made.append(WSGIServer(app, sockets.bind("127.0.0.1", 0), None, limits))
        made[-1].start()
        return made[-1].port
    yield start
    for server in made:
        server.stop()


def _exchange(port: int, *sent: bytes) -> bytes:
    """All that comes back until the server closes, or is silent."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        for part in sent:
            sock.sendall(part)
        answer = b""
        sock.settimeout(0.4)
        with contextlib.suppress(TimeoutError):
            while more := sock.recv(65536):
                answer += more
    return answer


def _echo(environ: dict[str, Any], start: Start) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']} ".encode(), body]


def test_the_application_sees_what_pep_3333_promises(serve: Serve) -> None:
    seen = {}

    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        seen.update(environ)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"fine"]
    client = http.client.HTTPConnection("127.0.0.1", serve(validator(app)), timeout=5)
    client.request("GET", "/a%20b/%C3%BC?x=%31", headers={"X-One": "1", "Accept": "a"})
    answer = client.getresponse()
    assert (answer.status, answer.reason, answer.read()) == (200, "OK", b"fine")
    assert answer.headers["Date"].endswith(" GMT")
    assert (seen["PATH_INFO"].encode("latin-1").decode(), seen["QUERY_STRING"]) == ("/a b/ü", "x=%31")
    assert (seen["HTTP_X_ONE"], seen["REMOTE_ADDR"], seen["SERVER_PROTOCOL"]) == ("1", "127.0.0.1", "HTTP/1.1")


@pytest.mark.parametrize("target", [b"/a?b=c", b"http://elsewhere:80/a?b=c"])
def test_a_proxy_may_send_the_whole_url(serve: Serve, target: bytes) -> None:
    assert b"GET /a?b=c " in _exchange(serve(_echo), b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")


def test_names_with_an_underscore_are_no_headers(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])
        return [environ.get("HTTP_X_ROLES", "none").encode()]
    assert _exchange(serve(app), b"GET / HTTP/1.1\r\nHost: x\r\nX_Roles: admin\r\n\r\n").endswith(b"none")


def test_repeated_headers_are_joined(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])
        return [f"{environ['HTTP_X_A']} {environ['HTTP_COOKIE']}".encode()]
    sent = b"GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n"
    assert _exchange(serve(app), sent).endswith(b"1,2 a=1;b=2")


@pytest.mark.parametrize("size", [0, 10, 300_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_bodies_come_whole(serve: Serve, size: int, framing: str) -> None:
    body = b"0123456789" * (size // 10)
    client = http.client.HTTPConnection("127.0.0.1", serve(_echo), timeout=5)
    for _ in range(2):      # on the same connection
        chunks = [body[at:at + 7000] for at in range(0, len(body), 7000)]
        client.request("POST", "/", body if framing == "length" else iter(chunks), encode_chunked=framing == "chunked")
        assert client.getresponse().read() == b"POST /? " + body


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_client_that_waits_for_100_gets_it(serve: Serve, size: int) -> None:
    with socket.create_connection(("127.0.0.1", serve(_echo)), 5) as sock:
        sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
                     b"Content-Length: %d\r\n\r\n" % size)
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"x" * size)
        answer = b""
        while more := sock.recv(65536):
            answer += more
    assert answer.endswith(b"PUT /? " + b"x" * size)


def test_a_large_body_that_is_refused_is_not_asked_for(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("401 Unauthorized", [])
        return [b"no"]
    sent = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
    answer = _exchange(serve(app), sent)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nConnection: close\r\n" in answer


def test_several_requests_at_once_are_answered_in_turn(serve: Serve) -> None:
    one = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
    answer = _exchange(serve(_echo), one % 1 + one % 2 + one % 3)
    assert [answer.count(b"POST /%d? ab" % n) for n in (1, 2, 3)] == [1, 1, 1]
    assert answer.index(b"/1?") < answer.index(b"/2?") < answer.index(b"/3?")


@pytest.mark.parametrize(("version", "header", "stays"), [
    (b"1.1", b"", True), (b"1.1", b"Connection: close\r\n", False), (b"1.0", b"", False)])
def test_connections_stay_as_the_client_asks(serve: Serve, version: bytes, header: bytes, stays: bool) -> None:
    with socket.create_connection(("127.0.0.1", serve(_echo)), 5) as sock:
        sock.sendall(b"GET / HTTP/" + version + b"\r\nHost: x\r\n" + header + b"\r\n")
        assert b" 200 OK" in sock.recv(1000)
        sock.settimeout(0.5 if stays else 5)
        if stays:
            with pytest.raises(TimeoutError):
                sock.recv(1000)
        else:
            assert sock.recv(1000) == b""


def _parts(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    start("200 OK", [])
    yield b"one"
    yield b""
    yield b"two"


def test_an_answer_without_a_length_is_chunked(serve: Serve) -> None:
    client = http.client.HTTPConnection("127.0.0.1", serve(_parts), timeout=5)
    for _ in range(2):
        client.request("GET", "/")
        answer = client.getresponse()
        assert (answer.headers["Transfer-Encoding"], answer.read()) == ("chunked", b"onetwo")


def test_a_client_of_http_1_0_gets_the_answer_up_to_the_end_of_the_connection(serve: Serve) -> None:
    assert _exchange(serve(_parts), b"GET / HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nonetwo")


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
def test_answers_without_a_body(serve: Serve, status: str) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start(status, [("Content-Length", "7")] if status == "200 OK" else [])
        return [b"ignored"] if status == "200 OK" else []
    client = http.client.HTTPConnection("127.0.0.1", serve(app), timeout=5)
    for _ in range(2):
        client.request("HEAD" if status == "200 OK" else "GET", "/")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (int(status[:3]), b"")
        assert answer.headers["Content-Length"] == ("7" if status == "200 OK" else None)


def test_write_is_supported(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])(b"one ")
        return [b"two"]
    assert _exchange(serve(app), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"one two")


def test_an_application_that_fails_is_a_500_and_a_line_of_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        if environ["PATH_INFO"] == "/known":
            raise exception.Forbidden()
        raise OSError("a disk")
    port = serve(app)
    with caplog.at_level(logging.ERROR):
        assert _exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert "a disk" in caplog.text
    assert _exchange(port, b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_an_answer_that_breaks_off_is_seen_by_the_client(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", [])
        yield b"half"
        raise OSError("a disk")
    client = http.client.HTTPConnection("127.0.0.1", serve(app), timeout=5)
    client.request("GET", "/")
    with pytest.raises(http.client.IncompleteRead):
        client.getresponse().read()


@pytest.mark.parametrize(("sent", "status"), [
    (b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\n\r\n", b"400"), (b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 140_000, b"431")])
def test_what_is_no_request_is_refused(serve: Serve, sent: bytes, status: bytes) -> None:
    answer = _exchange(serve(_echo), sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b"\r\nConnection: close\r\n" in answer


def test_a_body_that_ends_too_soon_is_told_to_the_application(serve: Serve) -> None:
    failures = []

    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        try:
            environ["wsgi.input"].read()
        except exception.NovaLiteError as error:
            failures.append(error.code)
        start("200 OK", [])
        return []
    with socket.create_connection(("127.0.0.1", serve(app)), 5) as sock:
        sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 5000)
    wait_for("the application", lambda: failures, 5)
    assert failures == [400]


def test_lines_of_a_large_body_can_be_read(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        body: io.BufferedReader = environ["wsgi.input"]
        start("200 OK", [])
        return [b"%d %d" % (len(body.readline()), len(list(body)))]
    body = b"x" * 99 + b"\n" + b"y\n" * 150_000
    client = http.client.HTTPConnection("127.0.0.1", serve(app), timeout=10)
    client.request("PUT", "/", body)
    assert client.getresponse().read() == b"100 150000"


def _silent(port: int, address: str) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(5)
    sock.bind((address, 0))
    sock.connect(("127.0.0.1", port))
    return sock


def test_one_more_of_an_address_takes_the_place_of_its_longest_idle_connection(serve: Serve) -> None:
    port = serve(_echo, Limits(10, 2))
    with _silent(port, "127.0.0.2") as first, _silent(port, "127.0.0.3") as other, _silent(port, "127.0.0.2") as second, \
            _silent(port, "127.0.0.2") as third:
        assert first.recv(10) == b""
        for sock in (second, third, other):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 OK" in sock.recv(1000)


def test_one_more_of_all_takes_the_place_of_the_address_with_most(serve: Serve) -> None:
    port = serve(_echo, Limits(3, 3))
    with _silent(port, "127.0.0.3") as other, _silent(port, "127.0.0.2") as first, _silent(port, "127.0.0.2") as second, \
            _silent(port, "127.0.0.4") as third:
        assert first.recv(10) == b""
        for sock in (second, third, other):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 OK" in sock.recv(1000)


def test_requests_at_work_are_never_cut_off_for_new_ones(serve: Serve) -> None:
    go, at_work = threading.Event(), threading.Semaphore(0)

    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        at_work.release()
        go.wait(10)
        start("200 OK", [])
        return [b"done"]
    port = serve(app, Limits(2, 2))
    with _silent(port, "127.0.0.2") as one, _silent(port, "127.0.0.2") as two:
        for sock in (one, two):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert at_work.acquire(timeout=5)
        with _silent(port, "127.0.0.2") as third, contextlib.suppress(ConnectionResetError):
            assert third.recv(10) == b""
        go.set()
        for sock in (one, two):
            assert sock.recv(1000).endswith(b"done")
