"""Listening sockets and TLS contexts."""
from __future__ import annotations

import socket
import ssl

from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)
BACKLOG = 1024


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError when the address cannot be had.

    A service binds before it forks its workers. So the workers share the socket, and a port that is taken is told at once.
    """
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


def tell_failed_tls(address: str, error: OSError) -> None:
    """One line for a client that cannot speak with us; a client that only connects, as load balancers do, is worth none."""
    level = LOG.debug if isinstance(error, (ssl.SSLEOFError, ConnectionError, TimeoutError)) else LOG.info
    level("TLS with %s failed: %s", address, error)
