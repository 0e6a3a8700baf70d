"""One server for WSGI applications, over real sockets: what goes in and out, and when connections stay."""
from __future__ import annotations

import contextlib
import http.client
import io
import logging
import socket
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from wsgiref.validate import validator

import pytest

from nova_lite import exception
from nova_lite.runtime.http.incoming import HELD_BYTES
from nova_lite.runtime.http.server import NATIVE_THREADS
from tests.support.process import wait_for
from tests.unit.runtime.http.served import Serve, Start, echo, exchange, silent


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
    assert b"GET /a?b=c " in exchange(serve(echo), b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")


def test_names_with_an_underscore_are_no_headers(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])
        return [environ.get("HTTP_X_ROLES", "none").encode()]
    assert exchange(serve(app), b"GET / HTTP/1.1\r\nHost: x\r\nX_Roles: admin\r\n\r\n").endswith(b"none")


def test_repeated_headers_are_joined(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])
        return [f"{environ['HTTP_X_A']} {environ['HTTP_COOKIE']}".encode()]
    sent = b"GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n"
    assert exchange(serve(app), sent).endswith(b"1,2 a=1;b=2")


@pytest.mark.parametrize("size", [0, 10, 300_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_bodies_come_whole(serve: Serve, size: int, framing: str) -> None:
    body = b"0123456789" * (size // 10)
    client = http.client.HTTPConnection("127.0.0.1", serve(echo), timeout=5)
    for _ in range(2):      # on the same connection
        chunks = [body[at:at + 7000] for at in range(0, len(body), 7000)]
        client.request("POST", "/", body if framing == "length" else iter(chunks), encode_chunked=framing == "chunked")
        assert client.getresponse().read() == b"POST /? " + body


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_client_that_waits_for_100_gets_it(serve: Serve, size: int) -> None:
    with socket.create_connection(("127.0.0.1", serve(echo)), 5) as sock:
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
    answer = exchange(serve(app), sent)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nConnection: close\r\n" in answer


def test_several_requests_at_once_are_answered_in_turn(serve: Serve) -> None:
    one = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
    answer = exchange(serve(echo), one % 1 + one % 2 + one % 3)
    assert [answer.count(b"POST /%d? ab" % n) for n in (1, 2, 3)] == [1, 1, 1]
    assert answer.index(b"/1?") < answer.index(b"/2?") < answer.index(b"/3?")


@pytest.mark.parametrize(("version", "header", "stays"), [
    (b"1.1", b"", True), (b"1.1", b"Connection: close\r\n", False), (b"1.0", b"", False)])
def test_connections_stay_as_the_client_asks(serve: Serve, version: bytes, header: bytes, stays: bool) -> None:
    with socket.create_connection(("127.0.0.1", serve(echo)), 5) as sock:
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
    assert exchange(serve(_parts), b"GET / HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nonetwo")


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


@pytest.mark.parametrize(("status", "headers"), [
    ("200 OK", [("X-One", "1\r\nX-Two: 2")]), ("200 OK", [("X One", "1")]), ("200 OK", [("X-One: 1\r\nX-Two", "2")]),
    ("200 OK", [("Content-Length: 1, X", "2")]),
    ("200 OK\r\nX-Two: 2", []), ("OK", []), ("", []), ("200 OK", [("Transfer-Encoding", "chunked")]),
    ("200 OK", [("Content-Length", "1"), ("content-length", "1")]), ("200 OK", [("Content-Length", "-1")]),
    ("200 OK", [("Content-Length", "2")]), ("200 OK", [("Content-Length", "0")])])
def test_an_answer_that_is_no_http_is_a_500(serve: Serve, status: str, headers: list[tuple[str, str]]) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start(status, headers)
        return [b"x"]
    client = http.client.HTTPConnection("127.0.0.1", serve(app), timeout=5)
    for _ in range(2):
        client.request("GET", "/")
        answer = client.getresponse()
        assert (answer.status, answer.read(), answer.headers["X-Two"]) == (500, b"", None)


@pytest.mark.parametrize("length", ["5", "7"])
def test_the_connection_ends_after_parts_that_are_not_as_long_as_announced(serve: Serve, length: str) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", [("Content-Length", length)])
        yield b"one"
        yield b"two"
    with socket.create_connection(("127.0.0.1", serve(app)), timeout=5) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        got = b"".join(iter(lambda: sock.recv(1000), b""))
    assert got.count(b"HTTP/1.1") == 1
    assert len(got.partition(b"\r\n\r\n")[2]) == {"5": 3, "7": 6}[length]


def test_write_is_supported(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        start("200 OK", [])(b"one ")
        return [b"two"]
    assert exchange(serve(app), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"one two")


def test_an_application_that_fails_is_a_500_and_a_line_of_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        if environ["PATH_INFO"] == "/known":
            raise exception.Forbidden()
        raise OSError("a disk")
    port = serve(app)
    with caplog.at_level(logging.ERROR):
        assert exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert "a disk" in caplog.text
    assert exchange(port, b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_an_answer_that_breaks_off_is_seen_by_the_client(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", [])
        yield b"half"
        raise OSError("a disk")
    client = http.client.HTTPConnection("127.0.0.1", serve(app), timeout=5)
    client.request("GET", "/")
    with pytest.raises(http.client.IncompleteRead):
        client.getresponse().read()


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


def _counts(environ: dict[str, Any], start: Start) -> list[bytes]:
    size = 0
    while part := environ["wsgi.input"].read(10_000):
        size += len(part)
    start("200 OK", [])
    return [b"%d" % size]


def test_slow_uploads_keep_nobody_from_work(serve: Serve) -> None:
    port, size = serve(_counts), HELD_BYTES + 1
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(silent(port, "127.0.0.2")) for _ in range(NATIVE_THREADS + 5)]
        for sock in slow:
            sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx" % size)
        assert exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"0")
        for sock in slow:
            sock.sendall(b"x" * (size - 1))
            assert sock.recv(1000).endswith(b"%d" % size)


def test_slow_downloads_keep_nobody_from_work(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", [])
        return [b"quick"] if environ["PATH_INFO"] == "/quick" else (b"x" * 65536 for _ in range(1000))
    port = serve(app)
    with contextlib.ExitStack() as stack:
        for _ in range(NATIVE_THREADS + 5):
            sock = stack.enter_context(silent(port, "127.0.0.2"))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(10)
        assert exchange(port, b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"quick")


def test_no_more_than_so_many_are_at_work_at_a_time(serve: Serve) -> None:
    at_work, most, lock = [0], [0], threading.Lock()

    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        environ["wsgi.input"].read()
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.02)
        with lock:
            at_work[0] -= 1
        if environ["PATH_INFO"] == "/fails":
            raise OSError("a disk")
        start("200 OK", [])
        return [b"done"]
    port, size = serve(app), HELD_BYTES + 1

    def one(path: str) -> int:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        client.request("PUT", path, b"x" * size)
        return client.getresponse().status
    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(one, ["/", "/fails"] * 60))
    assert answers == [200, 500] * 60
    assert most[0] <= NATIVE_THREADS
