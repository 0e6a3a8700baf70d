"""A WSGI filter: a body of more than ``limit`` bytes (api-paste.ini says how many) gets a 413, announced or chunked."""
from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from nova_lite import exception
from nova_lite.api.openstack import faults

LIMIT = "114688"


class SizeLimit:
    """Refuses by the announced length at once, and counts while a body of unknown length is read. ``streams``: an expression of
    "METHOD path" for requests whose bodies may be of any size."""

    def __init__(self, app: Any, limit: int, streams: str = "") -> None:
        self.app, self.limit = app, limit
        self._streams = re.compile(streams) if streams else None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if self._streams and self._streams.fullmatch(f"{environ['REQUEST_METHOD']} {environ.get('PATH_INFO', '')}"):
            return self.app(environ, start_response)
        length = environ.get("CONTENT_LENGTH")
        if not length:
            environ["wsgi.input"] = _Counted(environ["wsgi.input"], self.limit)
        elif length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > self.limit):
            return faults.respond(exception.RequestTooLarge(limit=self.limit), start_response)
        return self.app(environ, start_response)


class _Counted:
    """The body as a file that raises RequestTooLarge past the limit."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit, self._seen = stream, limit, 0

    def read(self, size: int = -1) -> bytes:
        """Like a file's read."""
        room = self._limit - self._seen + 1
        data = self._stream.read(room if size < 0 else min(size, room))
        self._seen += len(data)
        if self._seen > self._limit:
            raise exception.RequestTooLarge(limit=self._limit)
        return data


def factory(_global_conf: dict[str, str], limit: str = LIMIT, streams: str = "", **_local: str) -> Callable[[Any], SizeLimit]:
    """Paste filter factory."""
    return partial(SizeLimit, limit=int(limit), streams=streams)
