"""A small Keystone and one neighbour in this process, on a real port: what they answer the test decides."""
from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from requests.structures import CaseInsensitiveDict

PROJECT = "5e41ce00000000000000000000000000"


@dataclass
class Call:
    """One request as it came."""

    method: str
    path: str
    headers: CaseInsensitiveDict[str]
    body: bytes


@dataclass
class Answer:
    """``hang``: seconds before anything is said. ``cut``: announce the whole body, send half and hang up. ``drop``: hang up."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0
    cut: bool = False
    drop: bool = False


Handler = Callable[[Call], Answer]


class FakeOpenStack:
    """``service`` answers what comes to the neighbour, ``calls`` holds it; Keystone's tokens are service-1, service-2 ...

    ``host``: the address of this machine by which both are reached, which may come to be only later.
    """

    def __init__(self, service_type: str, handler: Handler, versions: dict[str, str] | None = None, path: str = "",
                 host: str = "127.0.0.1") -> None:
        self.type, self.handler, self.versions, self.endpoint_path, self.host = service_type, handler, versions, path, host
        self.calls: list[Call] = []
        self.keystone_calls: list[Call] = []
        self.keystone_handler: Handler | None = None
        self.refusal: Answer | None = None      # what Keystone answers to the service user's password
        self.issued = 0
        self._released = threading.Event()
        self._listen = "0.0.0.0" if host != "127.0.0.1" else host       # noqa: S104
        self.keystone = _serve(self._keystone, self._released, self._listen)
        self.server = _serve(self._service, self._released, self._listen)
        self.port = self.server.server_address[1]
        self.options: dict[str, object] = {
            "auth_type": "password", "auth_url": f"http://{host}:{self.keystone.server_address[1]}/v3",
            "username": "nova-lite", "password": "secret", "project_name": "service", "user_domain_id": "default",
            "project_domain_id": "default"}

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def stop(self) -> None:
        """The neighbour alone: connections are refused from now on."""
        self.server.end()

    def restart(self) -> None:
        """On the same port."""
        self.server = _serve(self._service, self._released, self._listen, self.port)

    def close(self) -> None:
        self._released.set()
        self.keystone.end()
        self.server.end()

    def _keystone(self, call: Call) -> Answer:
        self.keystone_calls.append(call)
        if self.keystone_handler is not None:
            return self.keystone_handler(call)
        root = self.options["auth_url"]
        if call.method == "GET":
            version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{root}/"}]}
            return Answer(200, {"version": version})
        if self.refusal is not None:
            return self.refusal
        self.issued += 1
        endpoint = {"id": "e", "interface": "internal", "region": "one", "region_id": "one",
                    "url": self.url + self.endpoint_path}
        return Answer(201, {"token": {
            "methods": ["password"], "issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z",
            "audit_ids": ["a"], "roles": [{"id": "s", "name": "service"}],
            "user": {"id": "u", "name": "nova-lite", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": PROJECT, "name": "service", "domain": {"id": "default", "name": "Default"}},
            "catalog": [{"id": "c", "type": self.type, "name": self.type, "endpoints": [endpoint]}]}},
            {"X-Subject-Token": f"service-{self.issued}"})

    def _service(self, call: Call) -> Answer:
        if self.versions is not None and call.path.rstrip("/") == self.endpoint_path.rstrip("/"):
            versions = [{"id": name, "status": "CURRENT", "links": [{"rel": "self", "href": self.url + path}]}
                        for name, path in self.versions.items()]
            return Answer(300, {"versions": versions})
        self.calls.append(call)
        return self.handler(call)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    pause = 0.0     # seconds before the body of a request is read
    request_queue_size = 100

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
        """As if it were killed: its connections end too."""
        self.shutdown()
        self.server_close()
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _serve(handler: Handler, released: threading.Event, host: str, port: int = 0) -> _Server:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True      # headers and body are sent apart

        def _any(self) -> None:
            answer = handler(Call(self.command, self.path, CaseInsensitiveDict(self.headers.items()), self._body()))
            if answer.hang:
                released.wait(answer.hang)
            if answer.drop:
                self.close_connection = True
                return
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            kind = "text/html" if isinstance(answer.body, bytes) else "application/json"
            for name, value in {"Content-Type": kind, **answer.headers}.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:len(body) // 2] if answer.cut else body if answer.status != 204 else b"")
            self.close_connection = self.close_connection or answer.cut

        def _body(self) -> bytes:
            if "Transfer-Encoding" in self.headers:
                released.wait(server.pause)
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = _Server((host, port), Requests)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def wait_until(condition: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def write_conf(path: Any, cloud: FakeOpenStack, **options: object) -> str:
    """A configuration file whose [service_user] is that cloud's; its path."""
    lines = [f"{name} = {value}" for name, value in {**cloud.options, **options}.items()]
    path.write_text("[service_user]\n" + "\n".join(lines) + "\n")
    return str(path)
