"""A WSGI filter: one line of log for each request."""
from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite.api.openstack.microversions import VERSION

LOG = log.getLogger(__name__)
# the token of a console opens it
_TOKEN = re.compile("(/os-console-auth-tokens/)[^/?]+")


class RequestLog:
    """Method, path, status, length of the answer, microversion and seconds; never headers or bodies."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        begin = time.perf_counter()
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        if environ.get("QUERY_STRING"):
            path += "?" + environ["QUERY_STRING"]
        answer: list[Any] = ["500", []]

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            answer[:] = status, headers
            return start_response(status, headers, *exc_info)

        try:
            return self.app(environ, start)
        finally:
            length = next((value for name, value in answer[1] if name.lower() == "content-length"), "0")
            LOG.info('%s "%s %s" status: %s len: %s microversion: %s time: %.6f', environ.get("REMOTE_ADDR", "-"),
                     environ["REQUEST_METHOD"], _TOKEN.sub(r"\1***", path), answer[0][:3], length,
                     environ.get(VERSION, "-"), time.perf_counter() - begin)


def factory(_global_conf: dict[str, str], **_local: str) -> type[RequestLog]:
    """Paste filter factory."""
    return RequestLog
