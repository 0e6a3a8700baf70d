"""The one place that makes a fault of an error.

``{"<name>": {"code": N, "message": "..."}}``. The message is the public text of the error. An error without a public text is
shown by the name of its class, and logged with its traceback.
"""
from __future__ import annotations

import http
import json
import logging
from collections.abc import Callable
from typing import Any

import webob.exc
from oslo_log import log

from nova_lite import exception
from nova_lite.api.openstack import body

LOG = log.getLogger(__name__)
NAMES = {400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod",
         409: "conflictingRequest", 413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented",
         503: "serviceUnavailable"}
_TYPE = "application/json; charset=UTF-8"
_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in http.HTTPStatus}

Answer = tuple[str, list[tuple[str, str]], bytes]
"""Status line, headers and body."""


class ResponseMismatch(AssertionError):
    """An answer that its own schema does not allow: a defect of ours. Raised through everything, in tests only."""


class ResourceNotFound(exception.NotFound):
    """Not at the microversion that was asked for."""

    msg_fmt = "The resource could not be found."


class UnsupportedMediaType(exception.NovaLiteError):
    msg_fmt = "Unsupported Content-Type %(content_type)s; send application/json."
    code = 415


class NoSuchAction(exception.Invalid):
    msg_fmt = "There is no such action: %(action)s"


def status_line(code: int) -> str:
    """404 -> '404 Not Found'."""
    return _PHRASES.get(code) or f"{code} Unknown"


def make(error: Exception) -> Answer:
    """The answer to a request that ended in ``error``; what is our fault is logged with its traceback."""
    code, message, headers = _read(error)
    content: dict[str, Any] = {"code": code, "message": message}
    if code in (413, 429):
        seconds = next((value for name, value in headers if name.lower() == "retry-after"), None)
        if seconds is None:
            seconds = "0"
            headers.append(("Retry-After", seconds))
        content["retryAfter"] = seconds
    body = json.dumps({NAMES.get(code, "computeFault"): content}, separators=(",", ":")).encode()
    return status_line(code), [("Content-Type", _TYPE), ("Content-Length", str(len(body))), *headers], body


def _read(error: Exception) -> tuple[int, str, list[tuple[str, str]]]:
    headers = list(getattr(error, "headers", None) or [])
    if isinstance(error, exception.NovaLiteError):
        if error.code < 500 or error.safe or error.code == 501 or error.public_fmt is not None:
            # details that the user does not see
            LOG.log(logging.DEBUG if error.public == error.message else logging.WARNING, "fault %s: %s", error.code, error)
            return error.code, error.public, headers
        LOG.exception("request failed: %s", error)
        return error.code, _unexpected(error), headers
    if isinstance(error, webob.exc.HTTPException):
        response = error.wsgi_response
        kept = [(name, value) for name, value in response.headerlist
                if name.lower() not in ("content-type", "content-length")]
        return response.status_code, str(getattr(error, "detail", None) or getattr(error, "explanation", error)), kept
    from nova_lite.db import core  # loads SQLAlchemy, 15 MiB, which the metadata API does not need otherwise

    if core.is_unavailable(error):
        LOG.exception("the database failed")
        return 503, "The database does not answer. Try again.", []
    LOG.exception("unexpected error: %s", type(error).__name__)
    return 500, _unexpected(error), []


def _unexpected(error: Exception) -> str:
    kind = type(error)
    return ("Unexpected API Error. Please report it with the log of nova-lite-api around this request.\n"
            f"<class '{kind.__module__}.{kind.__qualname__}'>")


def respond(error: Exception, start_response: Callable[..., Any]) -> list[bytes]:
    """Answer a WSGI request with the fault for ``error``."""
    status, headers, body = make(error)
    start_response(status, headers)
    return [body]


class FaultWrapper:
    """A WSGI filter: exceptions of the parts below become faults, and so does a body that does not arrive completely."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        body.guard(environ)
        try:
            return self.app(environ, start_response)
        except ResponseMismatch:
            raise
        except Exception as error:
            return respond(error, start_response)


def factory(_global_conf: dict[str, str], **_local: str) -> type[FaultWrapper]:
    """Paste filter factory of :class:`FaultWrapper`."""
    return FaultWrapper
