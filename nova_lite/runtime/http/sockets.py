"""Listening sockets, TLS contexts, addresses of clients, and answers that go out within a time."""
from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import time
from http import HTTPStatus

from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)
BACKLOG = 1024
SEND_SECONDS = 10.0         # for an answer to go out, ...
SEND_RATE = 1024            # ... and a second more for each so many bytes
_LINGER_SECONDS, _LINGER_BYTES, _LINGER_PART = 1.0, 1 << 20, 8192


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError when the address cannot be used.

    A service binds before it forks its workers. So the workers share the socket, and a port in use is reported at once.
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
    """The context of PEM files; the key may be in the file of the certificate. Raises ConfigError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        raise exception.ConfigError(reason=f"TLS certificate {certificate}, key {key or certificate}: "
                                           f"{error.strerror or error}") from None
    return context


def tell_failed_tls(address: str, error: OSError) -> None:
    """Log one line for a failed TLS handshake; a client that only connects, as load balancers do, is not logged."""
    level = LOG.debug if isinstance(error, (ssl.SSLEOFError, ConnectionError, TimeoutError)) else LOG.info
    level("TLS with %s failed: %s", address, error)


def network_of(address: str) -> str:
    """The network that limits by address count: an IPv4 address, or the /64 of an IPv6 address, which belongs to one customer.
    Raises ValueError for text that is not an address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def send_all(sock: socket.socket, data: bytes | memoryview, seconds: float) -> None:
    """Send all within ``seconds``; ``sendall`` of TLS and of green sockets has its time-out for each part. Raises OSError."""
    left, deadline = memoryview(data), time.monotonic() + seconds
    while left:
        more = deadline - time.monotonic()
        if more <= 0:
            raise TimeoutError("the client does not read")
        sock.settimeout(more)
        left = left[sock.send(left):]


def refusal(error: exception.NovaLiteError) -> bytes:
    """The answer to what is no request."""
    body = f"{error}\n".encode()
    return (f"HTTP/1.1 {error.code} {HTTPStatus(error.code).phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


def linger(sock: socket.socket) -> None:
    """Let the client read the answer: bytes that come to a closed socket would take it away. For a moment, and some bytes."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        deadline, seen = time.monotonic() + _LINGER_SECONDS, 0
        while seen < _LINGER_BYTES and (seconds := deadline - time.monotonic()) > 0:
            sock.settimeout(seconds)
            more = sock.recv(_LINGER_PART)
            if not more:
                return
            seen += len(more)
