"""/healthcheck: whether this process should get requests. It calls no other service, so that a slow database does not take all
APIs out of service.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class Healthcheck:
    """200 OK; 503 while the file ``disable_by_file_path`` of the paste section exists (for taking a node out of a balancer)."""

    def __init__(self, disable_by_file_path: str = "") -> None:
        self.file = disable_by_file_path

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return [b""]
        disabled = bool(self.file) and os.path.exists(self.file)
        body = b"DISABLED BY FILE" if disabled else b"OK"
        start_response("503 Service Unavailable" if disabled else "200 OK",
                       [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


def factory(_global_conf: dict[str, str], disable_by_file_path: str = "", **_local: str) -> Healthcheck:
    """Paste application factory."""
    return Healthcheck(disable_by_file_path)
