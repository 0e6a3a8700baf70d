"""A WSGI filter: every request gets an id, and every answer says it in two headers."""
from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from nova_lite.context import RequestContext

HEADERS = ("x-compute-request-id", "x-openstack-request-id")
REQUEST_ID = "openstack.request_id"
GLOBAL_REQUEST_ID = "openstack.global_request_id"
_FORM = re.compile(r"req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class RequestId:
    """The caller's own ``X-OpenStack-Request-ID: req-<uuid>`` is kept as the global request id; any other form is ignored."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        request_id = environ[REQUEST_ID] = f"req-{uuid.uuid4()}"
        global_id = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        if _FORM.fullmatch(global_id):
            environ[GLOBAL_REQUEST_ID] = global_id
        # what is logged before authentication must not carry the id of this thread's last request
        RequestContext(request_id=request_id, global_request_id=environ.get(GLOBAL_REQUEST_ID))

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, [*headers, *((name, request_id) for name in HEADERS)], *exc_info)

        return self.app(environ, start)


def factory(_global_conf: dict[str, str], **_local: str) -> type[RequestId]:
    """Paste filter factory."""
    return RequestId
