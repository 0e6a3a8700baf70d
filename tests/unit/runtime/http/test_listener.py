"""Limits of connections and of what they hold: whose connection is closed."""
from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import pytest

from nova_lite.runtime.http.listener import Limits
from nova_lite.runtime.http.sockets import network_of
from tests.unit.runtime.http.served import Serve, Start, echo, silent


def test_one_more_of_an_address_takes_the_place_of_its_longest_idle_connection(serve: Serve) -> None:
    port = serve(echo, Limits(10, 2))
    with silent(port, "127.0.0.2") as first, silent(port, "127.0.0.3") as other, silent(port, "127.0.0.2") as second, \
            silent(port, "127.0.0.2") as third:
        assert first.recv(10) == b""
        for sock in (second, third, other):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 OK" in sock.recv(1000)


def test_one_more_of_all_takes_the_place_of_the_address_with_most(serve: Serve) -> None:
    port = serve(echo, Limits(3, 3))
    with silent(port, "127.0.0.3") as other, silent(port, "127.0.0.2") as first, silent(port, "127.0.0.2") as second, \
            silent(port, "127.0.0.4") as third:
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
    with silent(port, "127.0.0.2") as one, silent(port, "127.0.0.2") as two:
        for sock in (one, two):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert at_work.acquire(timeout=5)
        with silent(port, "127.0.0.2") as third, contextlib.suppress(ConnectionResetError):
            assert third.recv(10) == b""
        go.set()
        for sock in (one, two):
            assert sock.recv(1000).endswith(b"done")


def test_the_address_that_holds_most_loses_its_largest_request(serve: Serve) -> None:
    port = serve(echo, Limits(20, 20, held_bytes=100_000))
    begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with silent(port, "127.0.0.3") as other, contextlib.ExitStack() as stack:
        other.sendall(begun % 30_000 + b"x" * 29_999)
        many = [stack.enter_context(silent(port, "127.0.0.2")) for _ in range(4)]
        for sock in many:
            sock.sendall(begun % 50_000 + b"x" * 40_000)
        ended = [sock for sock in many if _ends(sock)]
        assert 2 <= len(ended) < 4
        other.sendall(b"x")
        assert other.recv(1000).startswith(b"HTTP/1.1 200 ")
        for sock in set(many) - set(ended):
            sock.sendall(b"x" * 10_000)
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")


def _ends(sock: socket.socket) -> bool:
    sock.settimeout(1)
    try:
        return sock.recv(10) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    finally:
        sock.settimeout(5)


def test_a_head_without_an_end_counts_too(serve: Serve) -> None:
    port = serve(echo, Limits(20, 20, held_bytes=100_000))
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(silent(port, "127.0.0.2")) for _ in range(4)]
        for sock in many:
            sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
        assert 2 <= sum(_ends(sock) for sock in many) < 4


@pytest.mark.parametrize(("address", "network"), [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
    ("fe80::1%eth0", "fe80::/64")])
def test_an_address_of_ipv6_counts_with_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
