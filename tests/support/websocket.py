"""A websocket client of a page: it says what the server did, byte by byte."""
from __future__ import annotations

import base64
import os
import socket
import struct
import time
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The server answered something else than 101; ``args[0]`` is its status."""


class WebSocket:
    """Connects at once. Raises Refused."""

    def __init__(self, url: str, timeout: float = 60, **headers: str) -> None:
        parts = urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port or 80), timeout)
        self._buffer = b""
        wanted = {"Host": parts.netloc, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **headers}
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in wanted.items())]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        self.answer = self._until(b"\r\n\r\n").decode()
        status = int(self.answer.split()[1])
        if status != 101:
            self.close()
            raise Refused(status)

    def send(self, data: bytes | str) -> None:
        """One message."""
        kind, payload = (TEXT, data.encode()) if isinstance(data, str) else (BINARY, data)
        length = len(payload)
        head = struct.pack(">BB", 0x80 | kind, 0x80 | length) if length < 126 else struct.pack(
            ">BBH", 0x80 | kind, 0x80 | 126, length) if length < 65536 else struct.pack(">BBQ", 0x80 | kind, 0x80 | 127, length)
        mask = os.urandom(4)
        self.sock.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def receive(self) -> bytes | None:
        """The data of the next message; None when the server has hung up."""
        message = b""
        while True:
            head = self._exactly(2)
            if head is None:
                return None
            length = head[1] & 127
            if length > 125:
                size, form = (2, ">H") if length == 126 else (8, ">Q")
                length = struct.unpack(form, self._exactly(size) or b"")[0]
            payload = self._exactly(length) or b""
            kind = head[0] & 15
            if kind == CLOSE:
                return None
            if kind not in (PING, PONG):
                message += payload
                if head[0] & 0x80:
                    return message

    def read_until(self, *texts: bytes, timeout: float = 120) -> bytes:
        """All that comes until one of the texts is in it; AssertionError when the time is over or the server hangs up."""
        found, deadline = b"", time.monotonic() + timeout
        while not any(text in found for text in texts):
            self.sock.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                more = self.receive()
            except TimeoutError:
                more = None
            assert more is not None, f"{texts} did not come, only {found[-500:]!r}"
            found += more
        return found

    def read_until_end(self) -> bytes:
        """All that comes until the server hangs up."""
        return b"".join(iter(self.receive, None))

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            more = self.sock.recv(65536)
            if not more:
                break
            self._buffer += more
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            try:
                more = self.sock.recv(65536)
            except ConnectionError:
                return None
            if not more:
                return None
            self._buffer += more
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found
