"""Parameters of queries and paths."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nova_lite import units
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.wsgi import Request

T = TypeVar("T")


def last(req: Request, name: str) -> str | None:
    """The value of a query parameter; the last one if it is given more than once."""
    values = req.params_in.get(name)
    return values[-1] if values else None


def slice_of(req: Request, found: Sequence[T]) -> Sequence[T]:
    """The part of a list that ``offset`` and ``limit`` ask for, at most [api] max_limit items; a limit of 0 is none."""
    offset = units.number(last(req, "offset") or "0") or 0
    return found[offset:offset + (pagination.limit(req) or req.services.conf.api.max_limit)]
