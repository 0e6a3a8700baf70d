"""Parameters of queries and paths."""
from __future__ import annotations

from nova_lite.api.openstack.wsgi import Request

_DIGITS = 18
"""Of a number that every database holds; more of them are no id of anything."""


def last(req: Request, name: str) -> str | None:
    """The value of a query parameter, the last one if it stands there more than once."""
    values = req.params_in.get(name)
    return values[-1] if values else None


def number(text: str) -> int | None:
    """A whole number of reasonable size, not negative; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
