"""The bytes of an answer, as RFC 9112 has them. The output of an application is checked first: a line feed in a header, or a
wrong length, would make a second answer of the bytes.
"""
from __future__ import annotations

import email.utils
import functools
import http
import re
import time
from wsgiref.util import is_hop_by_hop

from nova_lite.runtime.http.incoming import Incoming

Headers = list[tuple[str, str]]
_STATUS = re.compile(r"[2-5][0-9]{2} [\t\x20-\x7e\x80-\xff]*")
_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BODILESS = {http.HTTPStatus.NO_CONTENT, http.HTTPStatus.NOT_MODIFIED}


class Answer:
    """An answer to ``request``.

    ``length``: bytes of the body, if they are known; else a body goes in chunks, or until the connection is closed (HTTP/1.0).
    ``closes``: this is the last answer. Raises ValueError when status or headers are not valid.
    """

    def __init__(self, request: Incoming, status: str, headers: Headers, length: int | None, closes: bool) -> None:
        if not _STATUS.fullmatch(status):
            raise ValueError(f"the status {status!r} is not valid")
        lines, named = [f"HTTP/1.1 {status}"], dict[str, str]()
        for name, value in headers:
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or is_hop_by_hop(name):
                raise ValueError(f"the header {name!r}: {value!r} is not valid")
            named[name.lower()] = value
            lines.append(f"{name}: {value}")
        is_bodiless = int(status[:3]) in _BODILESS
        self._sends_body = not is_bodiless and request.head.method != b"HEAD"
        self._left = _length(headers, named)
        if self._left is None and not is_bodiless:
            self._left = length
            if length is not None:
                lines.append(f"Content-Length: {length}")
        self._is_chunked = self._sends_body and self._left is None and request.head.http_version == b"1.1"
        if self._is_chunked:
            lines.append("Transfer-Encoding: chunked")
        if "date" not in named:
            lines.append(_date(int(time.time())))
        self.keeps_alive = request.keeps_alive and not closes
        if not self.keeps_alive:
            lines.append("Connection: close")
        self.head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def part(self, data: bytes) -> bytes:
        """The next bytes of the body. Raises ValueError for more than the answer's length."""
        if not data or not self._sends_body:
            return b""
        if self._is_chunked:
            return b"%x\r\n%b\r\n" % (len(data), data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ValueError("the body is longer than its Content-Length")
        return data

    def end(self) -> bytes:
        """What ends the body. Raises ValueError when it is shorter than the answer's length."""
        if self._sends_body and self._left:
            raise ValueError("the body is shorter than its Content-Length")
        return b"0\r\n\r\n" if self._is_chunked else b""


def _length(headers: Headers, named: dict[str, str]) -> int | None:
    """The length that an application names."""
    text = named.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or sum(name.lower() == "content-length" for name, _ in headers) > 1:
        raise ValueError(f"the Content-Length {text!r} is not valid")
    return int(text)


@functools.lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return f"Date: {email.utils.formatdate(seconds, usegmt=True)}"
