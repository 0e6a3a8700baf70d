"""A WSGI application on a TCP port: eventlet's server where threads are green, cheroot's where they are native.

The socket is bound before the process forks its workers, so that they share it and a port that is taken is told at once.
Access lines are the request log's business (a filter of the pipeline), so both servers are silent but for errors.
"""
from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from oslo_log import log

from nova_lite import concurrency, exception

LOG = log.getLogger(__name__)

App = Callable[..., Iterable[bytes]]
BACKLOG = 1024
NATIVE_THREADS = 20
KEEPALIVE_SECONDS = 75


class Server(Protocol):
    """What both servers can do."""

    port: int

    def start(self) -> None:
        """Serve in the background."""

    def stop(self) -> None:
        """Accept nothing new, finish the requests in flight, drop idle connections."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError when the address cannot be had."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # answers go out in one piece, without waiting for the client's acknowledgement of the headers
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        raise exception.ConfigError(reason=f"Cannot listen on {host}:{port}: {error.strerror or error}") from None
    return sock


def tls_context(certificate: str, key: str = "") -> ssl.SSLContext:
    """The context of PEM files; the key may stand in the certificate's file. Raises ConfigError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        raise exception.ConfigError(reason=f"TLS certificate {certificate}, key {key or certificate}: "
                                           f"{error.strerror or error}") from None
    return context


def tell_failed_tls(address: object, error: OSError) -> None:
    """One line for a client that cannot speak with us; who only knocks, as load balancers do, is worth none."""
    level = LOG.debug if isinstance(error, (ssl.SSLEOFError, ConnectionError, TimeoutError)) else LOG.info
    level("TLS with %s failed: %s", address, error)


def make(app: App, sock: socket.socket, tls: ssl.SSLContext | None = None) -> Server:
    """The server that fits the threads of this process."""
    return GreenServer(app, sock, tls) if concurrency.is_green() else NativeServer(app, sock, tls)


class GreenServer:
    """eventlet.wsgi: a green thread for each connection."""

    def __init__(self, app: App, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._app, self._socket, self._tls = app, sock, tls
        self.port: int = sock.getsockname()[1]
        self._thread: Any = None

    def start(self) -> None:
        import eventlet

        from nova_lite import wsgi_green

        self._thread = eventlet.spawn(wsgi_green.serve, self._app, self._socket, self._tls, KEEPALIVE_SECONDS, _Quiet())

    def stop(self) -> None:
        import greenlet

        if self._thread is None:
            return
        self._thread.kill()
        try:
            self._thread.wait()
        except greenlet.GreenletExit:
            LOG.debug("the server on port %d has stopped", self.port)


class _Quiet:
    """The logger that eventlet.wsgi wants: its tracebacks are worth a line, its access log is not."""

    def debug(self, message: str, *args: Any) -> None:
        """Connections come and go."""

    def info(self, message: str, *args: Any) -> None:
        LOG.debug(message, *args)

    def write(self, message: str) -> None:
        LOG.warning("%s", message.rstrip())


class NativeServer:
    """cheroot: a pool of native threads."""

    def __init__(self, app: App, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._app, self._socket, self._tls = app, sock, tls
        self.port: int = sock.getsockname()[1]
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        from nova_lite import wsgi_native

        self._server = wsgi_native.make(self._app, self._socket, self._tls, NATIVE_THREADS, KEEPALIVE_SECONDS)
        self._thread = threading.Thread(target=self._server.serve, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()
