"""Runs a WSGI application on a listening socket, with green or native threads, as PEP 3333 says.

The request log is a filter of the application's pipeline. So the server logs only requests that do not reach the application.
"""
from __future__ import annotations

import contextlib
import email.utils
import functools
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

import h11
from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency
from nova_lite.runtime.http.incoming import HEAD_SECONDS, Incoming, Requests
from nova_lite.runtime.http.listener import Client, Limits, Listener

LOG = log.getLogger(__name__)

App = Callable[..., Iterable[bytes]]
NATIVE_THREADS = 20         # requests at work at a time, where threads are native
KEEPALIVE_SECONDS = 75.0
SEND_SECONDS = 10.0         # for an answer to go out, ...
SEND_RATE = 1024            # ... and a second more for each so many bytes
_LINGER_SECONDS, _LINGER_BYTES = 1.0, 1 << 20


class Server(Protocol):
    """What a service can start and stop."""

    port: int

    def start(self) -> None:
        """Serve in the background."""

    def stop(self) -> None:
        """Accept nothing new, finish the requests in flight, drop idle connections."""


class WSGIServer:
    """One application on one socket."""

    def __init__(self, app: App, sock: socket.socket, tls: ssl.SSLContext | None = None, limits: Limits | None = None) -> None:
        self._app, self._scheme = app, "http" if tls is None else "https"
        self._name, self.port = str(sock.getsockname()[0]), int(sock.getsockname()[1])
        self._listener = Listener(sock, self._serve, limits or Limits(), tls)
        # green threads wait for databases side by side; native ones would wait for the interpreter
        self._at_work: AbstractContextManager[Any] = (
            contextlib.nullcontext() if concurrency.is_green() else threading.BoundedSemaphore(NATIVE_THREADS))

    def start(self) -> None:
        """See Server."""
        self._listener.start()

    def stop(self) -> None:
        """See Server."""
        self._listener.stop()
        self._listener.finish()

    def _serve(self, client: Client) -> None:
        """All requests of one connection."""
        requests, idle_seconds = Requests(client.sock), HEAD_SECONDS
        try:
            while (request := requests.next(idle_seconds)) is not None:
                client.begin()
                environ = self._environ(client, request)
                try:
                    _Exchange(client, request, self._listener.stopping).run(self._app, environ, self._at_work)
                finally:
                    environ.clear()     # webob lets it refer to itself: the body would stay for long
                if not requests.end(request):
                    _linger(client.sock)
                    return
                idle_seconds = KEEPALIVE_SECONDS
                client.wait()
        except _ClientGone as error:
            LOG.debug("%s does not take an answer: %s", client.address, error)
        except exception.NovaLiteError as error:
            LOG.info("a request of %s was refused: %s", client.address, error)
            client.sock.settimeout(SEND_SECONDS)
            client.sock.sendall(_refusal(error))
            _linger(client.sock)

    def _environ(self, client: Client, request: Incoming) -> dict[str, Any]:
        head = request.head
        path, _, query = head.target.partition(b"?")
        if not path.startswith((b"/", b"*")):       # a proxy may send the whole URL
            path = urlsplit(path).path or b"/"
        environ: dict[str, Any] = {
            "REQUEST_METHOD": head.method.decode("ascii"), "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"), "QUERY_STRING": query.decode("latin-1"),
            "SERVER_NAME": self._name, "SERVER_PORT": str(self.port),
            "SERVER_PROTOCOL": f"HTTP/{head.http_version.decode('ascii')}", "REMOTE_ADDR": client.address,
            "REMOTE_PORT": str(client.port), "wsgi.version": (1, 0), "wsgi.url_scheme": self._scheme,
            "wsgi.input": request.body, "wsgi.input_terminated": True, "wsgi.errors": sys.stderr, "wsgi.multithread": True,
            "wsgi.multiprocess": False, "wsgi.run_once": False}
        for name, value in head.headers:
            if b"_" in name:        # X_Roles would be taken for X-Roles
                continue
            key = name.decode("ascii").upper().replace("-", "_")
            if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                key = f"HTTP_{key}"
            text = value.decode("latin-1")
            environ[key] = f"{environ[key]}{';' if key == 'HTTP_COOKIE' else ','}{text}" if key in environ else text
        return environ


class _ClientGone(Exception):
    """An answer cannot be sent to its end."""


class _Exchange:
    """The answer to one request."""

    def __init__(self, client: Client, request: Incoming, stopping: threading.Event) -> None:
        self._sock, self._request, self._stopping = client.sock, request, stopping
        self._status, self._headers = "", list[tuple[str, str]]()
        self._written = list[bytes]()
        self._began = False

    def run(self, app: App, environ: dict[str, Any], at_work: AbstractContextManager[Any]) -> None:
        """Call the application and send what it answers. Raises _ClientGone, and what reading the body raised."""
        result: Iterable[bytes] = ()
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(at_work)
                result = app(environ, self._start)
                if isinstance(result, (list, tuple)):
                    stack.close()       # whoever reads the answer slowly keeps nobody else from work
                self._answer(result)
        except _ClientGone:
            raise
        except Exception as error:
            if isinstance(error, exception.NovaLiteError) and not self._began:
                raise
            LOG.exception("%s %r failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            if self._began:     # the client sees that the answer is not whole
                raise _ClientGone("half of it was sent") from None
            self._status, self._headers, self._written = "500 Internal Server Error", [], []
            self._answer([])
        finally:
            with contextlib.suppress(AttributeError):
                result.close()  # type: ignore[attr-defined]

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        if exc_info and self._began:
            raise exc_info[1].with_traceback(exc_info[2])
        if self._status and not exc_info:
            raise RuntimeError("start_response was called twice")
        self._status, self._headers = status, headers
        return self._written.append

    def _answer(self, result: Iterable[bytes]) -> None:
        """Send head and body; what is known at once goes in one piece."""
        if isinstance(result, (list, tuple)):
            parts = [*self._written, *result]
            self._send(self._head(sum(map(len, parts))) + self._part(b"".join(parts)) + self._end())
            return
        data = b""
        for part in [*self._written, *result] if self._written else result:
            if not part:
                continue
            if not self._began:
                data = self._head(None)
            self._send(data + self._part(part))
            data = b""
        self._send((b"" if self._began else self._head(0)) + self._end())

    def _head(self, length: int | None) -> bytes:
        code, _, reason = self._status.partition(" ")
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers]
        names = {name.lower() for name, _ in headers}
        if length is not None and b"content-length" not in names and code[0] != "1" and code not in ("204", "304"):
            headers.append((b"Content-Length", str(length).encode()))
        if b"date" not in names:
            headers.append((b"Date", _date(int(time.time()))))
        # what is left of the body is not read: the client may send without an end
        if self._stopping.is_set() or self._request.protocol.their_state is not h11.DONE:
            headers.append((b"Connection", b"close"))
        self._began = True
        return self._request.protocol.send(h11.Response(
            status_code=int(code), headers=headers, reason=reason.encode("latin-1"))) or b""

    def _part(self, data: bytes) -> bytes:
        if not data or self._request.head.method == b"HEAD":
            return b""
        return self._request.protocol.send(h11.Data(data=data)) or b""

    def _end(self) -> bytes:
        return self._request.protocol.send(h11.EndOfMessage()) or b""

    def _send(self, data: bytes) -> None:
        try:
            self._sock.settimeout(SEND_SECONDS + len(data) / SEND_RATE)
            self._sock.sendall(data)
        except OSError as error:
            raise _ClientGone(str(error)) from None


@functools.lru_cache(maxsize=1)
def _date(seconds: int) -> bytes:
    return email.utils.formatdate(seconds, usegmt=True).encode()


def _refusal(error: exception.NovaLiteError) -> bytes:
    body = f"{error}\n".encode()
    return (f"HTTP/1.1 {error.code} {HTTPStatus(error.code).phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


def _linger(sock: socket.socket) -> None:
    """Let the client read the answer: bytes that come to a closed socket would take it away. For a moment, and some bytes."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        deadline, seen = time.monotonic() + _LINGER_SECONDS, 0
        while seen < _LINGER_BYTES and (seconds := deadline - time.monotonic()) > 0:
            sock.settimeout(seconds)
            more = sock.recv(65536)
            if not more:
                return
            seen += len(more)
