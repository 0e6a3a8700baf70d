"""A client without a token, at 127.0.0.2, opens connections and sends bytes; clients at 127.0.0.1 are served as before."""
from __future__ import annotations

import contextlib
import pathlib
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from tests.support.cloud import Standalone
from tests.support.process import wait_for

ATTACKER = "127.0.0.2"
SOCKETS = 2000
SECONDS = 4             # that an attack lasts
ANSWER_SECONDS = 3      # a machine with other work is slower than the second that users are promised
MIB = 50


@pytest.fixture(scope="module", params=["eventlet", "threading"])
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    made = Standalone(tmp_path_factory.mktemp("attacked"), {"NOVA_LITE_CONCURRENCY": request.param}, "--virt-driver", "fake")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """As many sockets as the attacks open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * SOCKETS + 500)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _connect(port: int) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(5)
    # else the ports of thousands of closed connections are nobody else's for a minute
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((ATTACKER, 0))
    sock.connect(("127.0.0.1", port))
    return sock


def _rss(cloud: Standalone) -> float:
    """MiB of the service."""
    assert cloud.process.popen is not None
    status = pathlib.Path(f"/proc/{cloud.process.popen.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def _silent(port: int, stop: threading.Event) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(SOCKETS):
            stack.enter_context(_connect(port))
        stop.wait()


def _dripping(port: int, stop: threading.Event) -> None:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(_connect(port)) for _ in range(SOCKETS)]
        for byte in b"GET / HTTP/1.1\r\nHost: " + b"x" * 1000:
            for sock in opened:
                with contextlib.suppress(OSError):
                    sock.send(bytes([byte]))
            if stop.wait(1):
                return


def _endless(begin: bytes) -> Callable[[int, threading.Event], None]:
    def attack(port: int, stop: threading.Event) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), _connect(port) as sock:
                sock.sendall(begin)
                while not stop.is_set():
                    sock.sendall(b"1" * 65536)
    return attack


CHUNKED = b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ATTACKS = {
    "silent": _silent, "dripping": _dripping,
    "chunk size": _endless(b"POST /v2.1/servers" + CHUNKED),
    "chunk extension": _endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"1;"),
    "chunk": _endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"fffffffff\r\n"),
    "trailer": _endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"0\r\nX: "),
    "header": _endless(b"GET / HTTP/1.1\r\nHost: x\r\nX: "),
    "request line": _endless(b"GET /")}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_others_are_served_and_memory_stays(cloud: Standalone, attack: Callable[[int, threading.Event], None]) -> None:
    stop, before, headers = threading.Event(), _rss(cloud), {"X-Auth-Token": cloud.token()}
    threads = [threading.Thread(target=attack, args=(port, stop)) for port in (cloud.port, cloud.metadata_port)]
    questions = [(f"{cloud.url}/healthcheck", {}, 200), (f"{cloud.url}/v2.1/servers", headers, 200),
                 (f"http://127.0.0.1:{cloud.metadata_port}/", {}, 200)]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + SECONDS
        longest, most = 0.0, 0.0
        while time.monotonic() < end:
            for url, sent, status in questions:
                asked = time.monotonic()
                assert requests.get(url, headers=sent, timeout=ANSWER_SECONDS).status_code == status
                longest = max(longest, time.monotonic() - asked)
            most = max(most, _rss(cloud) - before)
            time.sleep(0.1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"longest answer {longest:.2f} s, memory grew by {most:.0f} MiB")
    assert most < MIB


def test_a_head_that_drips_is_ended_after_ten_seconds(cloud: Standalone) -> None:
    with _connect(cloud.port) as sock:
        sock.settimeout(1)
        begun, answer = time.monotonic(), b""
        while not answer and time.monotonic() < begun + 30:
            with contextlib.suppress(OSError):
                sock.sendall(b"G")
            with contextlib.suppress(TimeoutError):
                answer = sock.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408 ")


HIDDEN = b"GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLED = {
    "two Content-Length": b"Content-Length: 0\r\nContent-Length: %d\r\n",
    "the same Content-Length twice": b"Content-Length: %d\r\n" * 2,
    "a list of lengths": b"Content-Length: 0, %d\r\n",
    "Content-Length beside Transfer-Encoding": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n",
    "a blank before the colon": b"Content-Length : %d\r\n",
    "a negative length": b"Content-Length: -%d\r\n",
    "a signed length": b"Content-Length: +%d\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\nX: %d\r\n",
    "a coding before chunked": b"Transfer-Encoding: gzip, chunked\r\nX: %d\r\n",
    "identity": b"Transfer-Encoding: identity\r\nX: %d\r\n",
    "a line feed alone": b"X: 1\nContent-Length: %d\r\n",
    "a carriage return alone": b"X: 1\rContent-Length: %d\r\n",
    "a folded line": b"X: 1\r\n Content-Length: %d\r\n",
    "two hosts": b"Host: y\r\nX: %d\r\n"}


@pytest.mark.parametrize("lines", SMUGGLED.values(), ids=SMUGGLED)
def test_no_hidden_request_is_answered(cloud: Standalone, lines: bytes) -> None:
    sent = b"POST /healthcheck HTTP/1.1\r\nHost: x\r\n" + lines.replace(b"%d", b"%d" % len(HIDDEN)) + b"\r\n" + HIDDEN
    with _connect(cloud.port) as sock:
        sock.sendall(sent)
        answer = b""
        while more := sock.recv(65536):
            answer += more
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"400"]


def test_what_is_left_of_a_refused_body_is_not_read(cloud: Standalone) -> None:
    with _connect(cloud.port) as sock:
        sock.sendall(b"POST /v2.1/servers HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 1000)
        answer = sock.recv(65536)
        assert re.match(rb"HTTP/1.1 (401|413) ", answer)
        assert b"\r\nConnection: close\r\n" in answer

        def ended() -> bool:
            try:
                sock.sendall(b"x" * 65536)
            except OSError:
                return True
            return False
        wait_for("the end of the connection", ended, 10, 0.01)
