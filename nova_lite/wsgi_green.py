"""eventlet's server with TLS whose handshake is each connection's own: one that fails ends this connection, and is one line.

Where the listening socket is wrapped, a client that resets its connection before the handshake ends the whole server.
"""
from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import eventlet.wsgi

from nova_lite.wsgi_server import tell_failed_tls


def serve(app: Callable[..., Any], sock: socket.socket, tls: ssl.SSLContext | None, keepalive: int, logger: Any) -> None:
    """Serve until this green thread is killed."""
    secure: dict[str, Any] = {}
    if tls is not None:
        secure = {"protocol": partial(_over_tls, tls), "environ": {"wsgi.url_scheme": "https", "HTTPS": "on"}}
    eventlet.wsgi.server(sock, app, log=logger, log_output=False, debug=False, socket_timeout=keepalive,
                         capitalize_response_headers=False, **secure)


def _over_tls(tls: ssl.SSLContext, state: list[Any], server: Any) -> None:
    """Called for each connection, with [address, socket, what it does], in a green thread of its own."""
    try:
        state[1] = tls.wrap_socket(state[1], server_side=True)
    except OSError as error:        # ssl.SSLError is one
        state[1].close()
        tell_failed_tls(state[0][0], error)
        return
    try:
        eventlet.wsgi.HttpProtocol(state, server)
    except ssl.SSLError as error:       # with TLS 1.3 a client says after the handshake that it does not take the certificate
        state[1].close()
        tell_failed_tls(state[0][0], error)
