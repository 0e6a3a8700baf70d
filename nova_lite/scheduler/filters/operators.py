"""The comparison language of flavor extra specs: ``>= 4``, ``s== ssd``, ``<in> sse``, ``<or> a <or> b``, or plain text."""
from __future__ import annotations

import operator
from collections.abc import Callable

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,       # historical: a plain "=" means "at least"
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq, "s!=": operator.ne, "s<": operator.lt, "s<=": operator.le, "s>": operator.gt, "s>=": operator.ge}


def match(value: str, wanted: str) -> bool:
    """Does ``value`` (of an aggregate) satisfy ``wanted`` (of a flavor)?"""
    words = wanted.split()
    if not words:
        return value == wanted
    first, rest = words[0], words[1:]
    if first == "<or>":
        return value in [choice.strip() for choice in wanted.split("<or>")[1:]]
    if first == "<in>":
        return " ".join(rest) in value
    if first == "<all-in>":
        return all(word in value for word in rest)
    if first in _TEXTS and rest:
        return _TEXTS[first](value, " ".join(rest))
    if first in _NUMBERS and rest:
        try:
            return _NUMBERS[first](float(value), float(rest[0]))
        except ValueError:
            return False
    return value == wanted
