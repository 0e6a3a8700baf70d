"""Chunks and their end, to the letter; bodies that come slowly."""
from __future__ import annotations

import socket

import pytest

from nova_lite.runtime.http.bodies import Body, Chunked, Length
from nova_lite.runtime.http.errors import RequestTimeout
from tests.unit.runtime.http.served import Serve, echo, exchange

HEAD = b"POST /%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
ENDS = {
    "trailer": b"0\r\nX: 1\n\n", "empty trailer": b"0\r\n\n", "line feed first": b"0\r\n\n\r\n", "mixed": b"0\r\nX: 1\n\r\n",
    "carriage return": b"0\r\nX: 1\rY: 2\r\n\r\n", "size": b"0\n\r\n", "extension": b"0;a\n\r\n\r\n",
    "bare extension": b"1;a\rb\r\nx\r\n0\r\n\r\n",
    "after a chunk": b"1\r\nx\n0\r\n\r\n", "long chunk": b"1\r\nxy\r\n0\r\n\r\n", "blank": b"1 \r\nx\r\n0\r\n\r\n",
    "signed": b"+1\r\nx\r\n0\r\n\r\n", "prefix": b"0x1\r\nx\r\n0\r\n\r\n", "huge": b"f" * 17 + b"\r\nx\r\n0\r\n\r\n",
    "many small chunks": b"1\r\nx\r\n" * 1100 + b"0\r\n\r\n", "long extensions": b"1;" + b"a" * 20_000 + b"\r\nx\r\n0\r\n\r\n",
    "no size": b"\r\nx\r\n0\r\n\r\n", "no header": b"0\r\nGET /hidden HTTP/1.1\r\n\r\n",
    "folded": b"0\r\nX: 1\r\n Y: 2\r\n\r\n",
    "blank before the colon": b"0\r\nX : 1\r\n\r\n"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_other_end_of_a_line_hides_a_request(serve: Serve, end: bytes) -> None:
    answer = exchange(serve(echo), HEAD % b"first" + end + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"hidden?" not in answer
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(("trailers", "status"), [
    (b"A: b\r\n" * 100, b"200"), (b"A: b\r\n" * 101, b"431"), (b"A: " + b"b" * 40_000 + b"\r\n", b"200"),
    ((b"A: " + b"b" * 40_000 + b"\r\n") * 2, b"431"), (b"A: " + b"b" * 70_000 + b"\r\n", b"431")])
def test_trailers_are_few(serve: Serve, trailers: bytes, status: bytes) -> None:
    answer = exchange(serve(echo), HEAD % b"" + b"0\r\n" + trailers + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_chunks_may_come_in_any_pieces(serve: Serve) -> None:
    whole = HEAD % b"one" + b"3;a=b\r\nabc\r\nA \t;x\r\n0123456789\r\n000\r\nX: 1\r\n\r\n"
    framing, found = Chunked(), b""
    for byte in whole.partition(b"\r\n\r\n")[2]:
        found += framing.feed(bytes([byte]))
    assert (found, framing.ended, framing.rest) == (b"abc0123456789", True, b"")
    answer = exchange(serve(echo), whole + HEAD % b"two" + b"1\r\nx\r\n0\r\n\r\n" + HIDDEN)
    assert b"POST /one? abc0123456789" in answer
    assert answer.index(b"POST /two? x") < answer.index(b"GET /hidden? ")


def _body(sock: socket.socket, seconds_per_look: float) -> Body:
    now = [0.0]

    def clock() -> float:
        now[0] += seconds_per_look
        return now[0]
    return Body(sock, Length(1_000_000), b"", False, clock)


@pytest.mark.parametrize(("size", "ends"), [(1, True), (2000, False)])
def test_a_body_below_the_least_rate_is_ended(size: int, ends: bool) -> None:
    """Parts of ``size`` bytes, a second apart by the test's clock. A large part at the beginning is no credit for later."""
    client, server = socket.socketpair()
    with client, server:
        body, came = _body(server, 1.0), 0
        client.sendall(b"x" * 50_000)
        while came < 50_000:
            came += len(body.next())
        for _ in range(9):
            client.sendall(b"x" * size)
            body.next()
        client.sendall(b"x" * size)
        if ends:
            body.next()
            with pytest.raises(RequestTimeout):
                body.next()
        else:
            assert body.next()
