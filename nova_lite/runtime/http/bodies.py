"""The body of a request: where it ends, how slowly it may arrive, and the file that an application reads.

h11 accepts a line feed alone as the end of a line between and after chunks. A front end may not, and would see other requests.
So chunks are decoded here.
"""
from __future__ import annotations

import contextlib
import io
import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nova_lite.runtime.http.errors import BadRequest, HeadTooLarge, RequestTimeout
from nova_lite.runtime.http.sockets import send_all

BODY_RATE = 1024            # bytes a second, ...
BODY_SECONDS = 10.0         # ... and by how many seconds a body that no worker reads yet may stay behind, ...
STREAM_SECONDS = 60.0       # ... and one that a worker reads
LINE_BYTES = 65536          # a chunk's size with its extensions; all trailers
TRAILERS = 100
OVERHEAD_BYTES = 4096       # by which the lines between chunks may be more than what is in the chunks
_RECEIVE_BYTES = 16384      # at a time: of a body that is held, of which there may be many, ...
_STREAM_BYTES = 65536       # ... and of one that a worker reads
_LINE_ENDS = 4              # bytes: after the size, and after the chunk
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Framing(Protocol):
    """Finds the end of a body. ``rest``: bytes of the next request, after the end."""

    @property
    def ended(self) -> bool: ...

    @property
    def rest(self) -> bytes: ...

    def feed(self, data: bytes) -> bytes:
        """The part of the body in the next bytes of the connection. Raises BadRequest, HeadTooLarge."""


class Length:
    """A body of so many bytes."""

    def __init__(self, length: int) -> None:
        self._left, self.rest = length, b""

    @property
    def ended(self) -> bool:
        """See Framing."""
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """See Framing."""
        part = data[:self._left]
        self._left -= len(part)
        self.rest += data[len(part):]
        return part


class Chunked:
    """A body in chunks, as RFC 9112 has it in section 7.1."""

    def __init__(self) -> None:
        self.ended = False
        self._raw = bytearray()
        self._left = 0              # bytes of the chunk
        self._overhead = 0
        # the kind of the next line; no bound method, which would be a reference cycle
        self._line = Chunked._size
        self._trailers = self._trailer_bytes = 0

    @property
    def rest(self) -> bytes:
        """See Framing."""
        return bytes(self._raw) if self.ended else b""

    def feed(self, data: bytes) -> bytes:
        """See Framing."""
        self._raw += data
        found, at = bytearray(), 0
        while not self.ended:
            if self._left:
                part = self._raw[at:at + self._left]
                if not part:
                    break
                found += part
                at += len(part)
                self._left -= len(part)
            else:
                end = self._end_of_line(at)
                if end is None:
                    break
                self._line(self, bytes(self._raw[at:end]))
                at = end + 2
        del self._raw[:at]
        return bytes(found)

    def _end_of_line(self, at: int) -> int | None:
        end = self._raw.find(b"\n", at)
        if (len(self._raw) if end < 0 else end) - at > LINE_BYTES:
            raise HeadTooLarge()
        if end < 0:
            return None
        if end == at or self._raw[end - 1] != ord("\r"):
            raise BadRequest("a line between or after chunks ends without a carriage return")
        return end - 1

    def _size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadRequest("the size of a chunk is not a hexadecimal number")
        self._left = int(match[1], 16)
        self._overhead = max(0, self._overhead + len(line) + _LINE_ENDS - self._left)
        if self._overhead > OVERHEAD_BYTES:
            raise BadRequest("the chunks are too small")
        self._line = Chunked._end_of_chunk if self._left else Chunked._trailer

    def _end_of_chunk(self, line: bytes) -> None:
        if line:
            raise BadRequest("a chunk is longer than its size")
        self._line = Chunked._size

    def _trailer(self, line: bytes) -> None:
        if not line:
            self.ended = True
            return
        self._trailers += 1
        self._trailer_bytes += len(line)
        if self._trailers > TRAILERS or self._trailer_bytes > LINE_BYTES:
            raise HeadTooLarge()
        if not _TRAILER.fullmatch(line):
            raise BadRequest("a trailer is not a header")


class Body(io.RawIOBase):
    """Reads a body from the connection on demand. ``came``: bytes that have arrived already; ``held`` is read first.
    ``outside``: entered during the wait for the client."""

    def __init__(self, sock: socket.socket, framing: Framing, came: bytes, waits_for_100: bool,
                 clock: Callable[[], float]) -> None:
        self.framing, self.held = framing, b""
        self.outside: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
        self._sock, self._came, self._clock = sock, came, clock
        self._receive_bytes = _RECEIVE_BYTES
        self._waits_for_100 = waits_for_100 and not came
        self._most_seconds = self._seconds = BODY_SECONDS

    def stream(self, held: bytes) -> io.BufferedReader:
        """The file for an application that reads the body as it comes."""
        self.held, self._most_seconds, self._seconds = held, STREAM_SECONDS, STREAM_SECONDS
        self._receive_bytes = _STREAM_BYTES
        return io.BufferedReader(self, _STREAM_BYTES)

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase. Raises BadRequest, RequestTimeout, HeadTooLarge."""
        view = memoryview(buffer)
        if not self.held:
            self.held = self.next()
        part, self.held = self.held[:len(view)], self.held[len(view):]
        view[:len(part)] = part
        return len(part)

    def next(self) -> bytes:
        """The next part; none after the last."""
        while True:
            data, self._came = self._came, b""
            part = self.framing.feed(data)
            if part or self.framing.ended:
                self._seconds = min(self._most_seconds, self._seconds + len(part) / BODY_RATE)
                return part
            self._came = self._receive()

    def _receive(self) -> bytes:
        if self._seconds <= 0:
            raise RequestTimeout()
        before = self._clock()
        try:
            with self.outside():
                if self._waits_for_100:
                    self._waits_for_100 = False
                    send_all(self._sock, _GO_ON, BODY_SECONDS)
                self._sock.settimeout(self._seconds)
                data = self._sock.recv(self._receive_bytes)
        except TimeoutError:
            raise RequestTimeout() from None
        except OSError as error:
            raise BadRequest(f"the connection ended within a body: {error}") from None
        self._seconds -= self._clock() - before
        if not data:
            raise BadRequest("the connection ended within a body")
        return data
