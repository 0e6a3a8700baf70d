"""An HTTP reverse proxy in front of one neighbour that can fail in the ways neighbours fail, and counts what it is asked.

``Proxies`` puts one before each neighbour of nova_lite: the one of Keystone rewrites the catalog in the tokens, so that the
services under test find the others by the catalog as ever, and need no option but ``auth_url``.
"""
from __future__ import annotations

import collections
import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade"}
PASS, ERROR, HANG, LOSE, LATE = "pass", "error", "hang", "lose", "late"
LATENESS = 6.0      # seconds after which a LATE request is carried out


@dataclass
class Rule:
    """Answers requests of ``method`` whose path matches ``path`` (a regular expression) itself; ``times`` of them.

    ``mode`` ERROR: with ``status`` and ``body``. HANG: never. LOSE: passes the request on, and hangs up on the answer.
    LATE: hangs up, and passes the request on some seconds later. PASS: just calls ``before``, as all do, with the path.
    """

    method: str
    path: str
    status: int = 500
    body: Any = None
    mode: str = ERROR
    times: float = float("inf")
    before: Any = None
    hits: int = 0


@dataclass
class _State:
    mode: str = PASS
    rules: list[Rule] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class FaultProxy:
    """``mode`` is pass, error (500), hang or lose; ``stop`` and ``start`` are those of the neighbour's process."""

    def __init__(self, upstream: str, rewrite: Mapping[str, str] | None = None) -> None:
        self.upstream, self.rewrite = urlsplit(upstream), dict(rewrite or {})
        self._state = _State()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self.port = 0
        self.start()
        self.rewrite[f"{self.upstream.scheme}://{self.upstream.netloc}"] = self.url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def mode(self) -> str:
        return self._state.mode

    @mode.setter
    def mode(self, mode: str) -> None:
        """What hung until now is let go."""
        self._state.mode = mode
        self._state.ended.set()
        self._state.ended = threading.Event()

    def refuse(self, method: str, path: str, status: int, body: Any, **more: Any) -> Rule:
        """Add a rule; the last one that fits counts."""
        rule = Rule(method, path, status, body, **more)
        with self._lock:
            self._state.rules.insert(0, rule)
        return rule

    def heal(self) -> None:
        """Everything passes again, from a running process."""
        with self._lock:
            self._state.rules.clear()
        self.mode = PASS
        if self._server is None:
            self.start()

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(method, path without query) since ``forget``, in order; discovery of versions is left out."""
        with self._lock:
            return [c for c in self._state.calls if re.search(r"/v[\d.]+/.", c[1])]

    def counts(self) -> collections.Counter[str]:
        """How often which method and path was asked for, ids as {id}."""
        return collections.Counter(f"{m} {re.sub(r'[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}', '{id}', p)}" for m, p in self.calls)

    def forget(self) -> None:
        with self._lock:
            self._state.calls.clear()

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), self._handler())
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """As if the process were killed: open connections break, new ones are refused."""
        if self._server is not None:
            server, self._server = self._server, None
            server.end()

    def close(self) -> None:
        self.heal()
        self.stop()

    def _rule(self, method: str, path: str) -> Rule | None:
        with self._lock:
            self._state.calls.append((method, path))
            for rule in self._state.rules:
                if rule.method == method and re.search(rule.path, path) and rule.hits < rule.times:
                    rule.hits += 1
                    return rule
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True      # headers and body are sent apart

            def _any(self) -> None:
                body = _body(self)
                path = self.path.partition("?")[0]
                rule = proxy._rule(self.command, path)
                if rule is not None and rule.before is not None:
                    rule.before(path)
                mode = rule.mode if rule is not None else proxy._state.mode
                if mode == HANG:
                    proxy._state.ended.wait(300)
                if mode == LOSE:
                    proxy._ask(self, body).read()
                if mode == LATE:
                    threading.Timer(LATENESS, lambda: proxy._ask(self, body).read()).start()
                if mode in (HANG, LOSE, LATE):
                    self.close_connection = True
                elif mode == ERROR:
                    text = rule.body if rule is not None else {"message": "Internal Server Error (of the proxy)"}
                    _answer(self, rule.status if rule is not None else 500, [("Content-Type", "application/json")],
                            text if isinstance(text, bytes) else json.dumps(text).encode())
                else:
                    self._pass_on(body)

            def _pass_on(self, body: bytes) -> None:
                try:
                    answer = proxy._ask(self, body)
                    content = answer.read()
                except OSError as error:
                    _answer(self, 502, [], f"upstream: {error}".encode())
                    return
                headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in HOP_BY_HOP]
                if "json" in answer.getheader("Content-Type", ""):
                    for old, new in proxy.rewrite.items():
                        content = content.replace(old.encode(), new.encode())
                _answer(self, answer.status, headers, content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler

    def _ask(self, asked: BaseHTTPRequestHandler, body: bytes) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.upstream.hostname or "", self.upstream.port, timeout=120)
        headers = {n: v for n, v in asked.headers.items() if n.lower() not in HOP_BY_HOP | {"host", "accept-encoding"}}
        connection.request(asked.command, asked.path, body or None, {**headers, "Connection": "close",
                                                                     "Content-Length": str(len(body))})
        return connection.getresponse()


class Proxies:
    """Before Keystone, Glance, Neutron and Cinder, by these names in small letters."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.glance, self.neutron, self.cinder = (FaultProxy(urls[name]) for name in ("glance", "neutron", "cinder"))
        self.all = {"glance": self.glance, "neutron": self.neutron, "cinder": self.cinder}
        self.keystone = FaultProxy(urls["keystone"], {urls[name].rstrip("/"): proxy.url for name, proxy in self.all.items()})
        self.all["keystone"] = self.keystone

    def forget(self) -> None:
        for proxy in self.all.values():
            proxy.forget()

    def heal(self) -> None:
        for proxy in self.all.values():
            proxy.heal()

    def close(self) -> None:
        for proxy in self.all.values():
            proxy.close()

    @contextlib.contextmanager
    def healed_after(self) -> Iterator[Proxies]:
        try:
            yield self
        finally:
            self.heal()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 200

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up."""

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _body(asked: BaseHTTPRequestHandler) -> bytes:
    if asked.headers.get("Transfer-Encoding", "").lower() == "chunked":
        body = b""
        while size := int(asked.rfile.readline(), 16):
            body += asked.rfile.read(size)
            asked.rfile.readline()
        asked.rfile.readline()
        return body
    return asked.rfile.read(int(asked.headers.get("Content-Length") or 0))


def _answer(asked: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    asked.send_response(status)
    for name, value in headers:
        asked.send_header(name, value)
    if status != 204:
        asked.send_header("Content-Length", str(len(body)))
    asked.end_headers()
    if status != 204 and asked.command != "HEAD":
        asked.wfile.write(body)
