"""The bytes of a request's body, as they come from the server."""
from __future__ import annotations

from typing import Any

from nova_lite import exception


def guard(environ: dict[str, Any]) -> None:
    """Put a :class:`Body` in place of the server's input file. A chunked body ends by itself; eventlet's server does not mark
    that."""
    environ["wsgi.input"] = Body(environ["wsgi.input"], environ.get("CONTENT_LENGTH") or "")
    environ.pop("webob.is_body_seekable", None)
    if "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        environ["wsgi.input_terminated"] = True


class Body:
    """The ``wsgi.input`` of a server as a file. A client that disconnects, or sends less than it announced, gets a 400: servers
    raise various errors for that, or return the part that has arrived."""

    def __init__(self, stream: Any, length: str) -> None:
        self._stream = stream
        self._left = int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None

    def read(self, size: int = -1) -> bytes:
        """Like a file's read. Raises RequestAborted."""
        try:
            data: bytes = self._stream.read() if size < 0 else self._stream.read(size)
        except (OSError, ValueError) as error:
            raise exception.RequestAborted() from error
        if self._left is not None:
            self._left -= len(data)
            if self._left > 0 and (size < 0 or len(data) < size):
                raise exception.RequestAborted()
        return data
