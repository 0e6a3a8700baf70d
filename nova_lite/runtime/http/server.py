"""Runs a WSGI application on a listening socket, with green or native threads, as PEP 3333 says.

The request log is a filter of the application's pipeline. So the server logs only requests that do not reach the application.
"""
from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency
from nova_lite.runtime.http.incoming import HEAD_SECONDS, KEEPALIVE_SECONDS, Incoming, Requests
from nova_lite.runtime.http.listener import Client, Limits, Listener
from nova_lite.runtime.http.outgoing import Answer
from nova_lite.runtime.http.sockets import SEND_RATE, SEND_SECONDS, linger, send_all

LOG = log.getLogger(__name__)

App = Callable[..., Iterable[bytes]]
NATIVE_THREADS = 20         # requests at work at a time, where threads are native


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
        self._at_work = threading.BoundedSemaphore(sys.maxsize if concurrency.is_green() else NATIVE_THREADS)

    def start(self) -> None:
        """See Server."""
        self._listener.start()

    def stop(self) -> None:
        """See Server."""
        self._listener.stop()
        self._listener.finish()

    def _serve(self, client: Client) -> None:
        """All requests of one connection."""
        requests, idle_seconds = Requests(client.sock, client.hold), HEAD_SECONDS
        try:
            while (request := requests.next(idle_seconds)) is not None:
                client.begin()
                environ = self._environ(client, request)
                try:
                    exchange = _Exchange(client, request, self._listener.stopping, _Work(self._at_work))
                    exchange.run(self._app, environ)
                finally:
                    environ.clear()     # webob lets it refer to itself: the body would stay for long
                if not requests.end(request) or not exchange.keeps_alive:
                    linger(client.sock)
                    return
                idle_seconds = KEEPALIVE_SECONDS
                client.wait()
        except _ClientGone as error:
            LOG.debug("%s does not take an answer: %s", client.address, error)

    def _environ(self, client: Client, request: Incoming) -> dict[str, Any]:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.head.method.decode("ascii"), "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"), "QUERY_STRING": request.query.decode("latin-1"),
            "SERVER_NAME": self._name, "SERVER_PORT": str(self.port),
            "SERVER_PROTOCOL": f"HTTP/{request.head.http_version.decode('ascii')}", "REMOTE_ADDR": client.address,
            "REMOTE_PORT": str(client.port), "wsgi.version": (1, 0), "wsgi.url_scheme": self._scheme,
            "wsgi.input": request.body, "wsgi.input_terminated": True, "wsgi.errors": sys.stderr, "wsgi.multithread": True,
            "wsgi.multiprocess": False, "wsgi.run_once": False}
        for name, value in request.headers:
            if b"_" in name:        # X_Roles would be taken for X-Roles
                continue
            key = name.decode("ascii").upper().replace("-", "_")
            if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                key = f"HTTP_{key}"
            text = value.decode("latin-1")
            environ[key] = f"{environ[key]}{';' if key == 'HTTP_COOKIE' else ','}{text}" if key in environ else text
        if request.host:
            environ["HTTP_HOST"] = request.host.decode("latin-1")
        return environ


class _ClientGone(Exception):
    """An answer cannot be sent to its end."""


class _Work:
    """One of the requests at work. A request that waits for its client does not count: slow transfers do not block others."""

    def __init__(self, all_work: threading.BoundedSemaphore) -> None:
        self._all, self._begun = all_work, False

    def begin(self) -> None:
        self._all.acquire()
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self._begun = False
            self._all.release()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        begun = self._begun
        self.end()
        try:
            yield
        finally:
            if begun:
                self.begin()


class _Exchange:
    """The answer to one request."""

    def __init__(self, client: Client, request: Incoming, stopping: threading.Event, work: _Work) -> None:
        self._sock, self._request, self._stopping, self._work = client.sock, request, stopping, work
        self._status, self._headers = "", list[tuple[str, str]]()
        self._written = list[bytes]()
        self._began = self.keeps_alive = False

    def run(self, app: App, environ: dict[str, Any]) -> None:
        """Call the application and send its answer. Raises _ClientGone, and the error of reading the body."""
        result: Iterable[bytes] = ()
        if self._request.stream is not None:
            self._request.stream.outside = self._work.outside
        try:
            self._work.begin()
            result = app(environ, self._start)
            if isinstance(result, (list, tuple)):
                self._work.end()
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
            self._work.end()
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
        """Send head and body; known parts are sent at once."""
        if isinstance(result, (list, tuple)):
            parts = [*self._written, *result]
            answer = self._begin(sum(map(len, parts)))
            self._send(answer.head + answer.part(b"".join(parts)) + answer.end())
            return
        begun: Answer | None = None
        for part in [*self._written, *result] if self._written else result:
            if not part:
                continue
            if begun is None:
                begun = self._begin(None)
                self._send(begun.head + begun.part(part))
            else:
                self._send(begun.part(part))
        if begun is None:
            begun = self._begin(0)
            self._send(begun.head + begun.end())
        else:
            self._send(begun.end())

    def _begin(self, length: int | None) -> Answer:
        # what is left of the body is not read: the client may send without an end
        closes = self._stopping.is_set() or not self._request.framing.ended
        answer = Answer(self._request, self._status, self._headers, length, closes)
        self.keeps_alive = answer.keeps_alive
        return answer

    def _send(self, data: bytes) -> None:
        self._began = True
        try:
            with self._work.outside():
                send_all(self._sock, data, SEND_SECONDS + len(data) / SEND_RATE)
        except OSError as error:
            raise _ClientGone(str(error)) from None

