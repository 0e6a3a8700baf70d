"""Discovery: the versions of the API at ``/``, one of them at ``/v2.1`` and ``/v2``, without authentication."""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from nova_lite.api.openstack import faults, links, loading, microversions, parameters
from nova_lite.api.openstack.microversions import VERSION
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

MEDIA_TYPE = "application/vnd.openstack.compute+json;version="
_VERSION_AT_END = re.compile(r"/v\d+(?:\.\d+)?$")


def _known() -> list[dict[str, Any]]:
    return [
        {"id": "v2.0", "path": "v2", "status": "DEPRECATED", "version": "", "min_version": "",
         "updated": "2025-07-04T12:00:00Z", "media": "2"},
        {"id": "v2.1", "path": "v2.1", "status": "CURRENT", "version": microversions.MAX, "min_version": microversions.MIN,
         "updated": "2013-07-23T11:33:21Z", "media": "2.1"},
    ]


def _media_types(version: dict[str, Any]) -> list[dict[str, str]]:
    return [{"base": "application/json", "type": MEDIA_TYPE + version["media"]}]


def _brief(version: dict[str, Any], root: str) -> dict[str, Any]:
    return {"id": version["id"], "status": version["status"], "version": version["version"],
            "min_version": version["min_version"], "updated": version["updated"],
            "links": [{"rel": "self", "href": f"{root}/{version['path']}/"}]}


def _full(version: dict[str, Any], root: str) -> dict[str, Any]:
    view = _brief(version, root)
    view["links"].append({"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
    return {**view, "media-types": _media_types(version)}


def _choice(version: dict[str, Any], root: str, path: str) -> dict[str, Any]:
    return {"id": version["id"], "status": version["status"], "media-types": _media_types(version),
            "links": [{"rel": "self", "href": f"{root}/{version['path']}/{path.strip('/')}"}]}


def show(req: Request, version_id: str) -> dict[str, Any]:
    """One version of the Compute API."""
    wanted = "v2.0" if microversions.LEGACY_V2 in req.environ else version_id
    for version in _known():
        if version["id"] == wanted:
            return {"version": _full(version, links.bookmark(req))}
    raise faults.ResourceNotFound()


class Versions:
    """The application at ``/``: 200 with all versions for the path itself, 300 with the same path below each for any other.
    As in Nova, the method does not matter here and below."""

    def __init__(self, link_prefix: str) -> None:
        self.link_prefix = link_prefix

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        root, path = links.public_url(environ, self.link_prefix), environ.get("PATH_INFO", "")
        if not path.strip("/"):
            return _answer(environ, start_response, "200 OK", {"versions": [_brief(version, root) for version in _known()]})
        return _answer(environ, start_response, "300 Multiple Choices",
                       {"choices": [_choice(version, root, path) for version in _known()]})


class OneVersion:
    """The application at ``/v2.1``, which tells the microversion, and at ``/v2``, which has none."""

    def __init__(self, version_id: str, link_prefix: str) -> None:
        self.version_id, self.link_prefix = version_id, link_prefix

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        root = _VERSION_AT_END.sub("", links.public_url(environ, self.link_prefix))
        version = next(version for version in _known() if version["id"] == self.version_id)
        headers: list[tuple[str, str]] = []
        if version["version"]:
            environ[VERSION] = microversions.requested(environ)
            headers = microversions.headers_of(environ[VERSION])
        return _answer(environ, start_response, "200 OK", {"version": _full(version, root)}, headers)


def _answer(environ: dict[str, Any], start_response: Callable[..., Any], status: str, content: dict[str, Any],
            headers: Sequence[tuple[str, str]] = ()) -> list[bytes]:
    body = json.dumps(content, separators=(",", ":")).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


def factory(global_conf: dict[str, str], version: str = "", **_local: str) -> Callable[..., Any]:
    """Paste application factory: of one ``version``, or of the list."""
    prefix = loading.current(global_conf).conf.api.link_prefix
    return OneVersion(version, prefix) if version else Versions(prefix)


_TEXT = {"type": "string"}
_RESPONSE = {"type": "object", "required": ["version"], "additionalProperties": False, "properties": {"version": {
    "type": "object", "additionalProperties": False,
    "required": ["id", "status", "version", "min_version", "updated", "links", "media-types"],
    "properties": {"id": _TEXT, "status": {"enum": ["CURRENT", "DEPRECATED"]}, "version": _TEXT, "min_version": _TEXT,
                   "updated": {"type": "string", "format": "date-time"}, "links": parameters.links(),
                   "media-types": {"type": "array"}}}}}

ROUTES = [Route("GET", "/versions/{version_id}", show, None, response=_RESPONSE)]
