"""cheroot on a socket that somebody else has bound, with TLS handshakes in the worker threads. Imported only where used."""
from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from cheroot import errors, wsgi
from cheroot import ssl as cheroot_ssl
from cheroot.makefile import MakeFile
from cheroot.server import HTTPConnection
from oslo_log import log

from nova_lite.wsgi_server import tell_failed_tls

LOG = log.getLogger(__name__)


def make(app: Callable[..., Any], sock: socket.socket, tls: ssl.SSLContext | None, threads: int,
         keepalive: int) -> BoundServer:
    """A prepared server; run its ``serve`` in a thread."""
    server = BoundServer(sock, app, threads, keepalive)
    if tls is not None:
        server.ssl_adapter = LazyTLS(tls)
    server.prepare()
    # another worker may be faster at accepting; the slower one must not wait for the next client
    sock.setblocking(False)
    return server


class Connection(HTTPConnection):
    """One whose TLS handshake, in a worker, fails in one line."""

    _is_new = True

    def communicate(self) -> bool:
        """The next request; whether the connection stays open."""
        is_new, self._is_new = self._is_new, False
        try:
            if is_new and isinstance(self.socket, ssl.SSLSocket):
                self.socket.do_handshake()
                # with TLS 1.3 a client says after the handshake that it does not take the certificate
                self.rfile.peek(1)
        except OSError as error:        # ssl.SSLError is one
            tell_failed_tls(self.remote_addr, error)
            return False
        return bool(super().communicate())


class BoundServer(wsgi.Server):
    """A cheroot server that does not bind."""

    ConnectionClass = Connection

    def __init__(self, sock: socket.socket, app: Callable[..., Any], threads: int, keepalive: int) -> None:
        super().__init__(sock.getsockname()[:2], app, numthreads=threads, timeout=keepalive, shutdown_timeout=3600,
                         request_queue_size=1024, server_name="nova-lite")
        self._bound = sock

    def bind(self, family: Any, type: Any, proto: int = 0) -> socket.socket:     # noqa: A002  cheroot's signature
        self.socket = self._bound
        return self._bound

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        LOG.warning("%s", msg, exc_info=traceback)


class LazyTLS(cheroot_ssl.Adapter):
    """TLS whose handshake happens before the first read, in a worker: a client that never speaks stops nobody else."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__("", "")
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        try:
            return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), self.get_environ()
        except ssl.SSLError as error:       # it has reset its connection
            raise errors.FatalSSLAlert(str(error)) from None

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return MakeFile(sock, mode, bufsize)
