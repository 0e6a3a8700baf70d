"""Pages of lists: ``limit`` and ``marker`` in the query, a link to the next page in the answer."""
from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nova_lite import exception
from nova_lite.api.openstack import links

if TYPE_CHECKING:
    from nova_lite.api.openstack.wsgi import Request


def limit(req: Request) -> int:
    """How many items the answer may hold: the requested number, at most [api] max_limit; 0 holds none. Raises ValidationError
    (400) for a value that is not a number, or negative."""
    most: int = req.services.conf.api.max_limit
    values = req.params_in.get("limit")
    if not values:
        return most
    text = values[-1]
    if not text.isascii() or not text.isdigit():
        raise exception.ValidationError(detail="limit must be >= 0" if text.startswith("-") else "limit must be an integer")
    return min(int(text), most) if len(text) < 19 else most


def marker(req: Request) -> str | None:
    """The id of the last item of the page before."""
    values = req.params_in.get("marker")
    return values[-1] if values else None


def next_links(req: Request, name: str, ids: list[str], *path: str) -> dict[str, list[dict[str, str]]]:
    """``{"<name>_links": [...]}`` when there may be more items than the answer holds, else nothing.

    ``ids`` are those of the answer's items, ``path`` what follows version and project in the URL:
    ``{"servers": [...], **next_links(req, "servers", ids, "servers", "detail")}``.
    """
    if not ids or len(ids) < limit(req):
        return {}
    query = [(key, value) for key in sorted(req.params_in) if key != "marker" for value in req.params_in[key]]
    href = f"{links.self_link(req, *path)}?{urlencode([*query, ('marker', ids[-1])])}"
    return {f"{name}_links": [{"rel": "next", "href": href}]}
