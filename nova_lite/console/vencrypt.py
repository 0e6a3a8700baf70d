"""VNC by TLS between the proxy and the host, while the browser's part stays what it was: the browser's is protected by https.

RFB (RFC 6143) begins with the choice of a security type, before anything is encrypted. So the proxy takes part in that, on both
sides: with the host it takes type VeNCrypt with subtype X509None (TLS with certificates, and nothing besides), with the browser
type None. From there on it only passes bytes on. A host that does not offer that subtype is refused: nothing falls back to
plain.
"""
from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)

RFB = b"RFB 003.008\n"
_VERSION = re.compile(rb"RFB (\d{3})\.(\d{3})\n")
NONE, VENCRYPT = 1, 19                  # security types
VENCRYPT_VERSION = b"\x00\x02"
X509_NONE = 260                         # a subtype of VeNCrypt
OK = struct.pack(">I", 0)               # a SecurityResult
_REASON_BYTES = 1024
_PIECE = 1 << 15        # more than a TLS record, so that no part of one stays unread in the TLS library
_MOST_WAITING = 1 << 18


def context(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    """By ``[vnc] vencrypt_*``; None: consoles of this cloud are plain. Raises ConfigError."""
    options = conf.vnc
    authorities, certificate, key = options.vencrypt_ca_certs, options.vencrypt_client_cert, options.vencrypt_client_key
    if not authorities:
        if certificate or key:
            raise exception.ConfigError(reason="[vnc] vencrypt_client_cert and vencrypt_client_key need vencrypt_ca_certs, "
                                               "which is what turns TLS on")
        return None
    if bool(certificate) != bool(key):
        raise exception.ConfigError(reason="[vnc] vencrypt_client_cert and vencrypt_client_key go together")
    try:
        made = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authorities)
        if certificate:
            made.load_cert_chain(certificate, key)
    except OSError as error:
        raise exception.ConfigError(reason=f"[vnc] vencrypt_*: {', '.join(filter(None, (authorities, certificate, key)))}: "
                                           f"{error.strerror or error}") from None
    return made


def secured(console: socket.socket, tls: ssl.SSLContext, host: str) -> socket.socket:
    """A socket on the screen of a guest, whose VNC server is at the other end of ``console``: it carries the data of ``host``
    after the SecurityResult, and the data for it. The server's certificate must be that of ``host``. Raises OSError, and closes
    ``console``."""
    with contextlib.ExitStack() as on_error:
        on_error.callback(console.close)
        _negotiate(console)
        wrapped = tls.wrap_socket(console, server_hostname=host, do_handshake_on_connect=False)
        on_error.callback(wrapped.close)
        wrapped.do_handshake()
        _check_result(wrapped)          # in TLS 1.3 only now it is known whether our own certificate was liked
        ours, theirs = socket.socketpair()
        on_error.pop_all()
    threading.Thread(target=_relay, args=(wrapped, theirs), name=f"vnc-tls-{host}", daemon=True).start()
    return ours


def welcome(send: Callable[[list[bytes]], Any], receive: Callable[[], tuple[list[bytes], Any]]) -> bytes:
    """Be a VNC server without any security for the browser at the other end of a websocket (websockify's ``send_frames`` and
    ``recv_frames``). What the browser has sent beyond that. Raises OSError."""
    waiting = b""

    def exactly(size: int) -> bytes:
        nonlocal waiting
        while len(waiting) < size:
            more, closed = receive()
            waiting += b"".join(more)
            if closed and len(waiting) < size:
                raise ConnectionAbortedError("the client has gone")
        found, waiting = waiting[:size], waiting[size:]
        return found

    send([RFB])
    version = exactly(len(RFB))
    if version != RFB:
        raise ConnectionAbortedError(f"the client says {version!r}, which is not RFB 3.8")
    send([bytes([1, NONE])])
    chosen = exactly(1)[0]
    if chosen != NONE:
        raise ConnectionAbortedError(f"the client wants security type {chosen}, which was not offered")
    send([OK])
    return waiting


def _negotiate(server: socket.socket) -> None:
    """Up to where the TLS handshake begins."""
    version = _exactly(server, len(RFB))
    match = _VERSION.fullmatch(version)
    if match is None or (int(match[1]), int(match[2])) < (3, 8):
        raise ConnectionRefusedError(f"it says {version!r}, which is not RFB 3.8")
    server.sendall(RFB)
    types = _exactly(server, _exactly(server, 1)[0])
    if not types:
        raise ConnectionRefusedError(f"it refuses all security types: {_reason(server)}")
    if VENCRYPT not in types:
        raise ConnectionRefusedError(f"[vnc] vencrypt_ca_certs asks for TLS, and it offers none (only the security types "
                                     f"{', '.join(map(str, types))}): is vnc_tls on in its qemu.conf, and was the guest "
                                     "started since?")
    server.sendall(bytes([VENCRYPT]))
    offered = _exactly(server, 2)
    server.sendall(VENCRYPT_VERSION)
    if offered < VENCRYPT_VERSION or _exactly(server, 1) != b"\0":
        raise ConnectionRefusedError(f"it offers VeNCrypt {offered[0]}.{offered[1]}, not 0.2")
    count = _exactly(server, 1)[0]
    subtypes = struct.unpack(f">{count}I", _exactly(server, 4 * count))
    if X509_NONE not in subtypes:
        raise ConnectionRefusedError(f"it offers VeNCrypt, but not with certificates and nothing else ({X509_NONE}), only "
                                     f"{', '.join(map(str, subtypes)) or 'nothing'}: neither SASL nor a password can be given")
    server.sendall(struct.pack(">I", X509_NONE))
    if _exactly(server, 1) != b"\1":
        raise ConnectionRefusedError("it does not accept what it has offered")


def _check_result(server: socket.socket) -> None:
    if _exactly(server, len(OK)) != OK:
        raise ConnectionRefusedError(f"it refuses the connection: {_reason(server)}")


def _exactly(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = peer.recv(size - len(found))
        if not more:
            raise ConnectionResetError("it has closed the connection")
        found += more
    return found


def _reason(server: socket.socket) -> str:
    length = struct.unpack(">I", _exactly(server, 4))[0]
    return _exactly(server, min(length, _REASON_BYTES)).decode(errors="replace")


def _relay(console: ssl.SSLSocket, browser: socket.socket) -> None:
    """Pass data on in both directions, until one side ends. One thread does both: TLS libraries allow no more on a connection.
    Incoming bytes may be a message of TLS itself and no data; a thread that waited for data would not serve the browser
    meanwhile. So only ``ready`` waits."""
    with console, browser:
        for one in (console, browser):
            one.setblocking(False)
        try:
            _pass_on(console, browser)
        except OSError as error:        # either end may just go away
            LOG.debug("a console ended: %s", error)


def _pass_on(console: ssl.SSLSocket, browser: socket.socket) -> None:
    unready = ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError
    to_console, to_browser = b"", b""
    while True:
        readers: list[socket.socket] = [browser] if len(to_console) < _MOST_WAITING else []
        readers += [console] if len(to_browser) < _MOST_WAITING else []
        writers: list[socket.socket] = ([console] if to_console else []) + ([browser] if to_browser else [])
        readable, writable = concurrency.ready(readers, writers)
        if browser in readable:
            data = browser.recv(_PIECE)
            if not data:
                return
            to_console += data
        if console in readable:
            with contextlib.suppress(*unready):
                data = console.recv(_PIECE)
                if not data:
                    browser.setblocking(True)
                    browser.sendall(to_browser)
                    return
                to_browser += data
        if console in writable:
            with contextlib.suppress(*unready):
                to_console = to_console[console.send(to_console):]
        if browser in writable:
            with contextlib.suppress(*unready):
                to_browser = to_browser[browser.send(to_browser):]
