"""Reads the body of a request: JSON that every database and every message can hold, or a 400."""
from __future__ import annotations

from typing import Any

from nova_lite import exception, json_in
from nova_lite.api.openstack import faults

CONTENT_TYPES = ("application/json", "application/vnd.openstack.compute+json")
_UNSAID = ("", "text/plain")
"""Content types that servers put in for none."""


def read_json(environ: dict[str, Any]) -> Any:
    """The body as JSON. Raises MalformedRequestBody (also for no body), UnsupportedMediaType or RequestTooLarge."""
    raw = read_body(environ)
    if not raw:
        raise exception.MalformedRequestBody()
    content_type = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if content_type not in CONTENT_TYPES and content_type not in _UNSAID:
        raise faults.UnsupportedMediaType(content_type=content_type)
    try:
        value = json_in.loads(raw)
        if b"\\u" in raw:
            json_in.check_texts(value)
    except ValueError:
        raise exception.MalformedRequestBody() from None
    return value


def read_body(environ: dict[str, Any]) -> bytes:
    """All bytes of the body; a chunked one is read to its end."""
    length = environ.get("CONTENT_LENGTH")
    if length:
        if not length.isascii() or not length.isdigit():
            raise exception.MalformedRequestBody()
        return environ["wsgi.input"].read(int(length))
    if environ.get("wsgi.input_terminated") or "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return environ["wsgi.input"].read()
    return b""
