"""Reads JSON that a client or another service sent."""
from __future__ import annotations

import json
from typing import Any

MOST_LEVELS = 64


def loads(text: str, **options: Any) -> Any:
    """As ``json.loads``, for at most 64 levels of lists and objects: what is deeper ends the recursion of the next reader.
    Raises ValueError."""
    try:
        value = json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_levels(value)
    return value


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, (dict, list))]
        if not level:
            return
    raise ValueError("nested too deeply")
