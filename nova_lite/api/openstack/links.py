"""Links in answers: ``self`` has the version's prefix, ``bookmark`` has none; both repeat the project of the request's URL."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from nova_lite.api.openstack.wsgi import Request

PROJECT = "nova_lite.url_project"
"""Key of the environ: the project id that stands in the URL, if any."""
_CACHE = "nova_lite.url_prefixes"
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_TRAILING_VERSION = re.compile(r"/v\d+(?:\.\d+)?/?$")


def public_url(environ: dict[str, Any], link_prefix: str = "") -> str:
    """The URL of this application as a client sees it, without a slash at its end.

    ``link_prefix`` is [api] link_prefix: the public scheme, host and path before the version.
    """
    scheme = environ["wsgi.url_scheme"]
    host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    host = host.removesuffix(_DEFAULT_PORTS.get(scheme, ":"))
    path = quote(environ.get("SCRIPT_NAME", "").encode("latin-1"))
    if link_prefix:
        prefix = urlsplit(link_prefix)
        return urlunsplit((prefix.scheme, prefix.netloc, prefix.path.rstrip("/") + path, "", "")).rstrip("/")
    return f"{scheme}://{host}{path}".rstrip("/")


def _prefixes(req: Request) -> tuple[str, str]:
    known = req.environ.get(_CACHE)
    if known is None:
        versioned = public_url(req.environ, req.services.conf.api.link_prefix)
        project = req.environ.get(PROJECT)
        tail = f"/{quote(project)}" if project else ""
        known = versioned + tail, _TRAILING_VERSION.sub("", versioned) + tail
        req.environ[_CACHE] = known
    return known


def _join(prefix: str, parts: tuple[object, ...]) -> str:
    return "/".join((prefix, *(quote(str(part), safe="") for part in parts)))


def self_link(req: Request, *parts: object) -> str:
    """``self_link(req, "servers", uuid)`` -> http://host/v2.1/servers/<uuid>."""
    return _join(_prefixes(req)[0], parts)


def bookmark(req: Request, *parts: object) -> str:
    """The same without the version."""
    return _join(_prefixes(req)[1], parts)


def links(req: Request, *parts: object) -> list[dict[str, str]]:
    """Both links of a view."""
    return [{"rel": "self", "href": self_link(req, *parts)}, {"rel": "bookmark", "href": bookmark(req, *parts)}]
