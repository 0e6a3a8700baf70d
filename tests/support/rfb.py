"""Both ends of RFB (RFC 6143) as far as consoles of tests need them: a client on a websocket, a VNC server with VeNCrypt."""
from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading

from tests.support.websocket import WebSocket

VERSION = b"RFB 003.008\n"


class Gone(Exception):
    """The console has closed."""


def framebuffer(console: WebSocket) -> tuple[int, int, str]:
    """Handshake without security up to ServerInit: width, height and name of the screen. Raises Gone."""
    read = _Reader(console).exactly
    assert read(12) == VERSION
    console.send(VERSION)
    assert read(read(1)[0]) == b"\x01"
    console.send(b"\x01")
    assert read(4) == bytes(4)
    console.send(b"\x01")           # ClientInit: others may look on
    width, height = struct.unpack(">HH", read(20)[:4])
    return width, height, read(struct.unpack(">I", read(4))[0]).decode()


def security_types(console: WebSocket) -> bytes:
    """What the server offers. Raises Gone."""
    read = _Reader(console).exactly
    assert read(12) == VERSION
    console.send(VERSION)
    return read(read(1)[0])


class _Reader:
    def __init__(self, console: WebSocket) -> None:
        self._console, self._waiting = console, b""

    def exactly(self, size: int) -> bytes:
        while len(self._waiting) < size:
            more = self._console.receive()
            if more is None:
                raise Gone
            self._waiting += more
        found, self._waiting = self._waiting[:size], self._waiting[size:]
        return found


class VncServer:
    """Greets, offers ``types`` and ``subtypes``, makes TLS, and then says back what it hears, for one connection after the
    other. What went wrong is in ``errors``."""

    types, subtypes, version, vencrypt, result = bytes([19]), [260], VERSION, b"\x00\x02", bytes(4)

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.tls, self._listener = tls, socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.errors: list[Exception] = []
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                connection.settimeout(60)
                try:
                    self._greet(connection)
                except Exception as error:      # looked at by the test
                    self.errors.append(error)

    def _greet(self, peer: socket.socket) -> None:
        peer.sendall(self.version)
        assert _read(peer, 12) == VERSION
        peer.sendall(bytes([len(self.types)]) + self.types)
        if not self.types:
            peer.sendall(struct.pack(">I", 4) + b"busy")
            return
        assert _read(peer, 1) == b"\x13"
        peer.sendall(self.vencrypt)
        assert _read(peer, 2) == b"\x00\x02"
        peer.sendall(b"\0" + bytes([len(self.subtypes)]) + struct.pack(f">{len(self.subtypes)}I", *self.subtypes))
        assert struct.unpack(">I", _read(peer, 4)) == (260,)
        peer.sendall(b"\x01")
        with self.tls.wrap_socket(peer, server_side=True) as secured:
            secured.sendall(self.result)
            if any(self.result):
                return
            assert _read(secured, 1) == b"\x01"
            # SecurityResult is followed by ServerInit
            secured.sendall(struct.pack(">HH16sI", 640, 480, bytes(16), 5) + b"guest")
            self._echo(secured)

    @staticmethod
    def _echo(secured: ssl.SSLSocket) -> None:
        with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
            while data := secured.recv(65536):
                secured.sendall(data)
                if data.endswith(b"end"):
                    break


def _read(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = peer.recv(size - len(found))
        assert more, f"closed after {found!r}"
        found += more
    return found
