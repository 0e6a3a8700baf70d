"""A client without a token, at 127.0.0.2, opens connections and sends bytes; clients at 127.0.0.1 are served as before."""
from __future__ import annotations

import collections
import contextlib
import pathlib
import re
import resource
import select
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from nova_lite.runtime.http.incoming import HEAD_SECONDS
from tests.support.cloud import Standalone
from tests.support.process import free_port, wait_for

ATTACKER = "127.0.0.2"
SOCKETS = 2000
STALLED = 300
ANSWER_SECONDS = 30           # seconds: an answer that takes longer is lost
MIB = 50


class Attacked(Standalone):
    """Its doors are an API, the metadata service and a console proxy."""

    def __init__(self, directory: pathlib.Path, concurrency: str) -> None:
        self.console_port = free_port()
        super().__init__(directory, {"NOVA_LITE_CONCURRENCY": concurrency}, "--virt-driver", "fake",
                         "--console-port", str(self.console_port))

    @property
    def doors(self) -> tuple[int, int, int]:
        return self.port, self.metadata_port, self.console_port


@pytest.fixture(scope="module", params=["eventlet", "threading"])
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    made = Attacked(tmp_path_factory.mktemp("attacked"), request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """As many sockets as the attacks open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * SOCKETS + 1000)), hard))
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


def _rss(cloud: Attacked) -> float:
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


def _stalled(head: bytes, part: bytes) -> Callable[[int, threading.Event], None]:
    """More requests than an address may have, without their last bytes; some are begun anew each second."""
    def attack(port: int, stop: threading.Event) -> None:
        opened = collections.deque[socket.socket]()
        while not stop.is_set():
            with contextlib.suppress(OSError):
                opened.append(_connect(port))
                opened[-1].settimeout(0.2)
                opened[-1].sendall(head + part)
            if len(opened) >= STALLED:
                for _ in range(20):
                    opened.popleft().close()
                stop.wait(1)
        while opened:
            opened.pop().close()
    return attack


POST = b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
# name: the attack, and the seconds that it lasts
ATTACKS = {
    "silent": (_silent, 2), "dripping": (_dripping, HEAD_SECONDS + 3),
    "chunk size": (_endless(b"POST /v2.1/servers" + CHUNKED), 2),
    "chunk extension": (_endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"1;"), 2),
    "chunk": (_endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"fffffffff\r\n"), 2),
    "trailer": (_endless(b"POST /identity/v3/auth/tokens" + CHUNKED + b"0\r\nX: "), 2),
    "header": (_endless(b"GET / HTTP/1.1\r\nHost: x\r\nX: "), 2),
    "request line": (_endless(b"GET /"), 2),
    "head": (_stalled(b"GET / HTTP/1.1\r\n", (b"X: " + b"x" * 600 + b"\r\n") * 98), 4),
    "body": (_stalled(b"POST /identity/v3/auth/tokens" + POST + b"Content-Length: 131072\r\n\r\n", b"x" * 131071), 5),
    "body in small chunks": (_stalled(b"POST /identity/v3/auth/tokens" + CHUNKED, b"1\r\nx\r\n" * 1000), 3),
    "console, silent": (_silent, 2), "console, header": (_endless(b"GET / HTTP/1.1\r\nHost: x\r\nX: "), 2),
    "console, head": (_stalled(b"GET / HTTP/1.1\r\n", (b"X: " + b"x" * 600 + b"\r\n") * 98), 3)}


def _ask(cloud: Attacked, token: str) -> list[float]:
    """Ask each door once; the seconds that each answer took. None is lost."""
    seconds = []
    for url, status in ((f"{cloud.url}/healthcheck", 200), (f"{cloud.url}/v2.1/servers", 200),
                        (f"http://127.0.0.1:{cloud.metadata_port}/", 200), (f"http://127.0.0.1:{cloud.console_port}/", 404)):
        asked = time.monotonic()
        assert requests.get(url, headers={"X-Auth-Token": token}, timeout=ANSWER_SECONDS).status_code == status
        seconds.append(time.monotonic() - asked)
    return seconds


@pytest.mark.parametrize("name", ATTACKS)
def test_others_are_served_and_memory_stays(cloud: Attacked, name: str) -> None:
    """Within a second, each of them; on a machine that has other work, the median within that, or as before the attack."""
    stop, before, token = threading.Event(), _rss(cloud), cloud.token()
    calm = max(max(_ask(cloud, token)) for _ in range(5))
    rounds, most, (attack, lasts) = list[list[float]](), 0.0, ATTACKS[name]
    attacked = [cloud.console_port] if name.startswith("console") else [cloud.port, cloud.metadata_port]
    with ThreadPoolExecutor(len(attacked)) as pool:
        attacks = [pool.submit(attack, port, stop) for port in attacked]
        try:
            end = time.monotonic() + lasts
            while time.monotonic() < end or len(rounds) < 5:
                rounds.append(_ask(cloud, token))
                most = max(most, _rss(cloud) - before)
                time.sleep(0.05)
        finally:
            stop.set()
    for ended in attacks:
        ended.result()
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    print(f"longest answer {max(map(max, rounds)):.2f} s, medians {medians}, calm {calm:.2f} s, memory grew by {most:.0f} MiB")
    assert max(medians) < max(1.0, 2 * calm)
    assert most < MIB


def test_heads_and_bodies_that_drip_are_ended_after_ten_seconds(cloud: Attacked) -> None:
    begins = (b"GET /", b"POST /" + POST + b"Content-Length: 1000\r\n\r\n", b"POST /" + CHUNKED + b"ffff\r\n")
    with contextlib.ExitStack() as stack:
        opened = []
        for port in cloud.doors:
            for begin in begins:
                opened.append(stack.enter_context(_connect(port)))
                opened[-1].sendall(begin)
        answers, end = dict[socket.socket, bytes](), time.monotonic() + ANSWER_SECONDS + 2 * HEAD_SECONDS
        while len(answers) < len(opened) and time.monotonic() < end:
            for sock in set(opened) - set(answers):
                with contextlib.suppress(OSError):
                    sock.sendall(b"1")
            for sock in select.select(list(set(opened) - set(answers)), [], [], 1)[0]:
                answers[sock] = sock.recv(1000)
    assert [answers[sock][:13] for sock in opened] == [b"HTTP/1.1 408 "] * len(opened)


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


TRAILING = {
    "a trailer": b"0\r\nX: 1\n\n", "line feed first": b"0\r\n\n\r\n", "no trailer": b"0\r\n\n", "a size": b"0\n\r\n",
    "after a chunk": b"1\r\nx\n0\r\n\r\n"}
SENT = {name: lines.replace(b"%d", b"%d" % len(HIDDEN)) + b"\r\n" for name, lines in SMUGGLED.items()} | {
    f"{name}: a line feed alone": b"Transfer-Encoding: chunked\r\n\r\n" + end for name, end in TRAILING.items()}


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_no_hidden_request_is_answered(cloud: Attacked, sent: bytes) -> None:
    for port in cloud.doors:
        with _connect(port) as sock:
            sock.sendall(b"POST /healthcheck HTTP/1.1\r\nHost: x\r\n" + sent + HIDDEN)
            answer = b""
            while more := sock.recv(65536):
                answer += more
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"400"]


def test_what_is_left_of_a_refused_body_is_not_read(cloud: Attacked) -> None:
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
