"""Reads JSON that a client or another service sent."""
from __future__ import annotations

import json
import math
from typing import Any

MOST_LEVELS = 64


def loads(text: str | bytes) -> Any:
    """As ``json.loads``, for UTF-8 and at most 64 levels of lists and objects: deeper ones exceed the recursion limit of later
    readers. Refuses NaN and Infinity; Python refuses numbers of 4300 digits. Raises ValueError. Texts may contain NUL and
    surrogates, see :func:`check_texts`."""
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_levels(value)
    return value


def check_texts(value: Any) -> None:
    """Raise ValueError for what no database stores and no message carries: NUL, and half of a surrogate pair."""
    plain = json.dumps(value, ensure_ascii=False)
    plain.encode("utf-8")
    if "\\u0000" in plain:
        raise ValueError("NUL")


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, (dict, list))]
        if not level:
            return
    raise ValueError("nested too deeply")


def _refuse(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
