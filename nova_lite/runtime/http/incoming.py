"""Reads the requests of one connection: h11 parses them; what h11 leaves to its user, limits and deadlines, is here.

RFC 9112 leaves a server some choices. A front end may choose otherwise and so see other requests in the same bytes. Where that
could be, the answer is 400, and the connection is closed.
"""
from __future__ import annotations

import io
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import h11

from nova_lite import exception

HEAD_BYTES = 65536          # request line and headers; also a line within a chunked body, and its trailers
HEAD_FIELDS = 100
HEAD_SECONDS = 10.0         # for the whole head
BODY_SECONDS = 10.0         # of waiting for a body, ...
BODY_RATE = 1024            # ... and a second more for each so many bytes that have come
HELD_BYTES = 256 * 1024     # a body up to this size is read before the application is called
_RECEIVE_BYTES = 65536
_BROKEN = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]")
_LENGTH = re.compile(rb"^content-length[ \t]*:", re.IGNORECASE | re.MULTILINE)


class BadRequest(exception.NovaLiteError):
    """The bytes are no request."""

    msg_fmt = "Bad request: %(reason)s"
    code = 400


class RequestTimeout(exception.NovaLiteError):
    """A head that takes too long, or a body below the least rate."""

    msg_fmt = "The request took too long to come"
    code = 408


class HeadTooLarge(exception.NovaLiteError):
    """Request line, headers or trailers."""

    msg_fmt = "The request line and the headers are too large"
    code = 431


@dataclass
class Incoming:
    """One request: its head, and the file of its body. ``protocol`` goes on with the answer."""

    head: h11.Request
    protocol: h11.Connection
    body: BinaryIO = field(default_factory=io.BytesIO)

    @property
    def is_chunked(self) -> bool:
        """The body's length is not told before."""
        return any(name == b"transfer-encoding" for name, _ in self.head.headers)


class Requests:
    """The requests of a connection, one after the other. ``sock`` may be a TLS socket."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._sock, self._clock = sock, clock
        self._rest = b""

    def next(self, idle_seconds: float) -> Incoming | None:
        """The next request, or None when the client sends no more; it may be silent for ``idle_seconds`` before.

        Raises BadRequest, RequestTimeout, HeadTooLarge (the connection can only be closed then), OSError.
        """
        raw = self._head(idle_seconds)
        if raw is None:
            return None
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        try:
            protocol.receive_data(raw)
            head = protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(reason=str(error)) from None
        if not isinstance(head, h11.Request):
            raise BadRequest(reason="the head has no end")
        found = Incoming(head, protocol)
        _check(raw[:raw.index(b"\r\n\r\n") + 2], found)
        self._begin_body(found)
        return found

    def end(self, request: Incoming) -> bool:
        """After the answer: whether the next request may come."""
        if request.protocol.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return False
        self._rest = request.protocol.trailing_data[0]
        return True

    def _head(self, idle_seconds: float) -> bytes | None:
        """All bytes up to the end of a head, and what has come with them."""
        raw = self._rest.lstrip(b"\r\n")
        deadline = self._clock() + (HEAD_SECONDS if raw else idle_seconds)
        while b"\r\n\r\n" not in raw:
            if len(raw) > HEAD_BYTES:
                raise HeadTooLarge()
            if b"\n\n" in raw:      # an end of a head for lenient servers; the check of the whole head would wait for more
                raise BadRequest(reason="a line ends without a carriage return")
            more = self._receive(deadline, began=bool(raw))
            if not more:
                if raw:
                    raise BadRequest(reason="the connection ended within a head")
                return None
            if not raw:
                more = more.lstrip(b"\r\n")
                if more:
                    deadline = self._clock() + HEAD_SECONDS
            raw += more
        if raw.index(b"\r\n\r\n") > HEAD_BYTES:
            raise HeadTooLarge()
        return raw

    def _receive(self, deadline: float, began: bool) -> bytes:
        """Some bytes; none at the end, and when a client between two requests is silent for too long."""
        seconds = deadline - self._clock()
        try:
            if seconds <= 0:
                raise TimeoutError
            self._sock.settimeout(seconds)
            return self._sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            if began:
                raise RequestTimeout() from None
            return b""

    def _begin_body(self, request: Incoming) -> None:
        """Read a small body now: a client that sends it slowly has only its own thread then. Larger ones as they are read."""
        body = _Body(self._sock, request.protocol, self._clock)
        announced = _length(request.head)
        if announced == 0 and not request.is_chunked:
            body.next()         # the end
        elif announced <= HELD_BYTES:
            held, size = list[bytes](), 0
            while size <= HELD_BYTES and (part := body.next()):
                held.append(part)
                size += len(part)
            whole = b"".join(held)
            if body.ended:
                request.body = io.BytesIO(whole)
            else:
                body.held = whole
                request.body = cast(BinaryIO, io.BufferedReader(body, _RECEIVE_BYTES))
        else:
            request.body = cast(BinaryIO, io.BufferedReader(body, _RECEIVE_BYTES))


class _Body(io.RawIOBase):
    """A body that is read from the connection when it is asked for. ``held`` comes first."""

    def __init__(self, sock: socket.socket, protocol: h11.Connection, clock: Callable[[], float]) -> None:
        self.held, self.ended = b"", False
        self._sock, self._protocol, self._clock = sock, protocol, clock
        self._waited, self._received = 0.0, 0

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
        while not self.ended:
            if self._protocol.they_are_waiting_for_100_continue:
                self._sock.settimeout(BODY_SECONDS)
                self._sock.sendall(self._protocol.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            try:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA:
                    self._protocol.receive_data(self._receive())
                    continue
            except h11.RemoteProtocolError as error:
                if error.error_status_hint == HeadTooLarge.code:
                    raise HeadTooLarge() from None
                raise BadRequest(reason=str(error)) from None
            if isinstance(event, h11.Data):
                return bytes(event.data)
            self.ended = True
        return b""

    def _receive(self) -> bytes:
        seconds = BODY_SECONDS + self._received / BODY_RATE - self._waited
        if seconds <= 0:
            raise RequestTimeout()
        before = self._clock()
        try:
            self._sock.settimeout(seconds)
            data = self._sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise RequestTimeout() from None
        except OSError as error:
            raise BadRequest(reason=f"the connection ended within a body: {error}") from None
        self._waited += self._clock() - before
        self._received += len(data)
        return data


def _length(head: h11.Request) -> int:
    return next((int(value) for name, value in head.headers if name == b"content-length"), 0)


def _check(raw: bytes, request: Incoming) -> None:
    """What h11 allows, and a front end may read otherwise."""
    if len(request.head.headers) > HEAD_FIELDS:
        raise HeadTooLarge()
    if _BROKEN.search(raw):
        raise BadRequest(reason="a line is folded, or ends without a carriage return and a line feed")
    lengths = len(_LENGTH.findall(raw))
    if lengths > 1:
        raise BadRequest(reason="more than one Content-Length")
    if lengths and request.is_chunked:
        raise BadRequest(reason="Content-Length beside Transfer-Encoding")
