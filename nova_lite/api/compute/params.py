"""Parameters of the query that stand there once."""
from __future__ import annotations

from nova_lite.api.openstack.wsgi import Request


def last(req: Request, name: str) -> str | None:
    """The value of a query parameter, the last one if it stands there more than once."""
    values = req.params_in.get(name)
    return values[-1] if values else None
