"""Why a request is refused before any application sees it."""
from __future__ import annotations

from nova_lite import exception

_REASON = 200       # characters: h11 quotes what it does not understand


class BadRequest(exception.NovaLiteError):
    """The bytes are no request."""

    msg_fmt = "Bad request: %(reason)s"
    code = 400

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason if len(reason) <= _REASON else f"{reason[:_REASON]}...")


class RequestTimeout(exception.NovaLiteError):
    """A head that takes too long, or a body below the least rate."""

    msg_fmt = "The request took too long to arrive"
    code = 408


class HeadTooLarge(exception.NovaLiteError):
    """Request line, headers, a line between chunks, or trailers."""

    msg_fmt = "The request line and the headers are too large"
    code = 431


class MethodNotImplemented(exception.NovaLiteError):
    """We are no proxy."""

    msg_fmt = "The method CONNECT is not implemented"
    code = 501


class VersionNotSupported(exception.NovaLiteError):
    """Neither HTTP/1.0 nor HTTP/1.1."""

    msg_fmt = "The version of HTTP is not supported"
    code = 505
