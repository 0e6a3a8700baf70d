"""Reads the requests of one connection: h11 parses their heads; the other rules of HTTP, limits and deadlines are here.

RFC 9112 leaves a server some choices. A front end may choose differently, and see other requests in the same bytes. Where that
is possible, the answer is 400, and the connection is closed.
"""
from __future__ import annotations

import io
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import h11

from nova_lite.runtime.http.bodies import Body, Chunked, Framing, Length
from nova_lite.runtime.http.errors import BadRequest, HeadTooLarge, MethodNotImplemented, RequestTimeout, VersionNotSupported

HEAD_BYTES = 65536          # request line and headers
HEAD_FIELDS = 100
HEAD_SECONDS = 10.0         # for the whole head
KEEPALIVE_SECONDS = 75.0    # between two requests
HELD_BYTES = 128 * 1024     # a body up to this size, and so any JSON, is read before the application is called
_RECEIVE_BYTES = 16384
_BROKEN = re.compile(rb"\r(?!\n)|\r\n[ \t]")
_LENGTH = re.compile(rb"^content-length[ \t]*:", re.IGNORECASE | re.MULTILINE)
_NAME = rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
_HOST = re.compile(rb"(?:" + _NAME + rb")?")
_ABSOLUTE = re.compile(rb"(?i:https?)://(" + _NAME + rb")(/[^?]*)?(?:\?(.*))?")

_Fields = dict[bytes, bytes]        # by name; of a name that is there twice, the last


@dataclass
class Incoming:
    """One request: its head, and the file of its body.

    ``headers``: those of the head, as a list; names are in lower case. ``keeps_alive``: the client may send another request
    after this one. ``stream`` is the body, which is read on demand of the application.
    """

    head: h11.Request
    headers: list[tuple[bytes, bytes]]
    keeps_alive: bool
    framing: Framing
    path: bytes
    query: bytes
    host: bytes
    body: BinaryIO = field(default_factory=io.BytesIO)
    stream: Body | None = None


class Requests:
    """The requests of a connection, one after the other. ``sock`` may be a TLS socket. ``hold`` gets the number of bytes that
    are kept of an incomplete request."""

    def __init__(self, sock: socket.socket, hold: Callable[[int], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._sock, self._hold, self._clock = sock, hold, clock
        self._rest = b""

    def next(self, idle_seconds: float) -> Incoming | None:
        """The next request, or None when the client sends no more; it may be silent for ``idle_seconds`` before.

        Raises an error of ``errors`` (the connection can only be closed then), OSError.
        """
        raw = self._head(idle_seconds)
        if raw is None:
            return None
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        try:
            protocol.receive_data(raw)
            head = protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(str(error)) from None
        if not isinstance(head, h11.Request):
            raise BadRequest("the head has no end")
        headers = list(head.headers)
        fields = dict(headers)
        _check(raw, head, fields)
        request = Incoming(head, headers, _keeps_alive(head, headers), _framing(fields),
                           *_target(head.target, head.method, fields.get(b"host", b"")))
        self._begin_body(request, len(raw), fields, protocol.they_are_waiting_for_100_continue)
        return request

    def end(self, request: Incoming) -> bool:
        """After the answer: whether the next request may come."""
        self._rest = request.framing.rest
        return request.framing.ended

    def _head(self, idle_seconds: float) -> bytes | None:
        """All bytes of a head. The bytes after it stay for the body."""
        raw, seen, began = bytearray(self._rest), 0, False
        self._rest = b""
        deadline = self._clock() + idle_seconds
        while True:
            while raw.startswith(b"\r\n"):       # RFC 9112, 2.2
                del raw[:2]
                seen = 0
            if raw and not began:
                began, deadline = True, self._clock() + HEAD_SECONDS
            end = raw.find(b"\r\n\r\n", max(0, seen - 3))
            stop = len(raw) if end < 0 else end
            if stop > HEAD_BYTES:
                raise HeadTooLarge()
            if raw.count(b"\n", seen, stop) != raw.count(b"\r\n", max(0, seen - 1), stop):
                raise BadRequest("a line ends without a carriage return")
            if end >= 0:
                self._rest = bytes(raw[end + 4:])
                return bytes(raw[:end + 4])
            seen = len(raw)
            if seen:
                self._hold(seen)
            more = self._receive(deadline, began)
            if not more:
                if raw:
                    raise BadRequest("the connection ended within a head")
                return None
            raw += more

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

    def _begin_body(self, request: Incoming, head_bytes: int, fields: _Fields, waits_for_100: bool) -> None:
        """Read a small body now: a client that sends it slowly has only its own thread then. Larger ones as they are read."""
        came, self._rest = self._rest, b""
        body = Body(self._sock, request.framing, came, waits_for_100, self._clock)
        held = bytearray()
        if _length(fields) <= HELD_BYTES:
            while len(held) <= HELD_BYTES:
                if not request.framing.ended:
                    self._hold(head_bytes + len(held))
                part = body.next()
                if not part:
                    request.body = io.BytesIO(bytes(held))
                    return
                held += part
        request.stream, request.body = body, cast(BinaryIO, body.stream(bytes(held)))


def _keeps_alive(head: h11.Request, headers: list[tuple[bytes, bytes]]) -> bool:
    return head.http_version == b"1.1" and not any(
        option.strip().lower() == b"close" for name, value in headers if name == b"connection" for option in value.split(b","))


def _length(fields: _Fields) -> int:
    return int(fields.get(b"content-length", b"0"))


def _framing(fields: _Fields) -> Framing:
    return Chunked() if b"transfer-encoding" in fields else Length(_length(fields))


def _target(target: bytes, method: bytes, host: bytes) -> tuple[bytes, bytes, bytes]:
    """Path, query and host. A proxy may send the whole URL, which says the host then (RFC 9112, 3.2.2)."""
    if not _HOST.fullmatch(host):
        raise BadRequest("the Host is not valid")
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
        return path, query, host
    if target == b"*" and method == b"OPTIONS":
        return target, b"", host
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise BadRequest("the target is neither a path nor a URL")
    return match[2] or b"/", match[3] or b"", match[1]


def _check(raw: bytes, head: h11.Request, fields: _Fields) -> None:
    """What h11 allows, and a front end may read otherwise."""
    if head.http_version not in (b"1.0", b"1.1"):
        raise VersionNotSupported()
    if head.method == b"CONNECT":
        raise MethodNotImplemented()
    if len(head.headers) > HEAD_FIELDS:
        raise HeadTooLarge()
    if _BROKEN.search(raw):
        raise BadRequest("a line is folded, or has a carriage return alone")
    lengths = len(_LENGTH.findall(raw))
    if lengths > 1:
        raise BadRequest("more than one Content-Length")
    if b"transfer-encoding" in fields:
        if lengths:
            raise BadRequest("Content-Length beside Transfer-Encoding")
        if head.http_version == b"1.0":
            raise BadRequest("Transfer-Encoding in HTTP/1.0")
