"""Heads that are refused, and how."""
from __future__ import annotations

import logging

import pytest

from tests.unit.runtime.http.served import Serve, echo, exchange

HOST = b" HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(("sent", "status"), [
    (b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\n\r\n", b"400"), (b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 140_000, b"431")])
def test_what_is_no_request_is_refused(serve: Serve, sent: bytes, status: bytes) -> None:
    answer = exchange(serve(echo), sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(("line", "status"), [
    (b"GET / HTTP/0.9", b"505"), (b"GET / HTTP/2.0", b"505"), (b"GET / HTTP/1.2", b"505"), (b"GET /", b"400"),
    (b"CONNECT x:1 HTTP/1.1", b"501"), (b"CONNECT /x HTTP/1.1", b"501"),
    (b"GET http://[ HTTP/1.1", b"400"), (b"GET http:// HTTP/1.1", b"400"), (b"GET ftp://x/ HTTP/1.1", b"400"),
    (b"GET x HTTP/1.1", b"400"), (b"GET * HTTP/1.1", b"400"), (b"GET http://a@b/ HTTP/1.1", b"400")])
def test_request_lines_that_are_refused(serve: Serve, line: bytes, status: bytes) -> None:
    answer = exchange(serve(echo), line + b"\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(("host", "status"), [
    (b"a b", b"400"), (b"a/b", b"400"), (b"a@b", b"400"), (b"[::1", b"400"), (b"a:x", b"400"), (b"a:1:2", b"400"),
    (b"", b"200"), (b"a_b.example:80", b"200"), (b"[::1]:8774", b"200"), (b"127.0.0.1", b"200")])
def test_the_host_is_one(serve: Serve, host: bytes, status: bytes) -> None:
    assert exchange(serve(echo), b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").startswith(b"HTTP/1.1 " + status)


def test_a_reason_does_not_repeat_the_request(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    port = serve(echo)
    with caplog.at_level(logging.INFO):
        answer = exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"\0" * 60_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert len(answer) < 1000
    assert 0 < len(caplog.text) < 1000


def test_transfer_encoding_is_none_of_http_1_0(serve: Serve) -> None:
    answer = exchange(serve(echo), b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_empty_lines_before_a_request_are_ignored(serve: Serve) -> None:
    assert b" 200 OK" in exchange(serve(echo), b"\r\n\r", b"\nGET /" + HOST)
    assert exchange(serve(echo), b"\nGET /" + HOST).startswith(b"HTTP/1.1 400 ")
