"""Paging: what the query asks for, and the link to the next page."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from nova_lite.api.openstack.wsgi import Request


def last(req: Request, name: str) -> str | None:
    """The value of a query parameter, the last one if it stands there more than once."""
    values = req.params_in.get(name)
    return values[-1] if values else None


def limit(req: Request) -> int:
    """How many items the answer may hold: ``limit`` of the query, at most [api] max_limit."""
    most = req.services.conf.api.max_limit
    asked = last(req, "limit")
    return min(most, int(asked)) if asked else most


def links(req: Request, collection: str, items: Sequence[Any], marker: Any, *path: str) -> dict[str, Any]:
    """``{"<collection>_links": [...]}`` when there may be more than ``items``, else nothing.

    ``marker`` is the last item's id, ``path`` what follows the version in the URL.
    """
    size = limit(req)
    if not size or len(items) < size:
        return {}
    query = [(name, value) for name, values in req.params_in.items() if name != "marker" for value in values]
    href = f"{req.link('self', *path)}?{urlencode([*query, ('marker', marker)])}"
    return {f"{collection}_links": [{"rel": "next", "href": href}]}
