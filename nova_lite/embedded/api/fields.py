"""Validates fields of request bodies. A body may be any JSON; accepted values become rows, files and rules on the hosts. Each
function raises InvalidInput that names the field.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_lite import exception

MAX_TEXT = 255
_MAX_INTEGER = 2 ** 31 - 1


def text(body: Mapping[str, Any], key: str, maximum: int = MAX_TEXT) -> str | None:
    """A text, or None where there is none."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > maximum:
        raise exception.InvalidInput(reason=f"{key} must be a text of at most {maximum} characters")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):      # no database takes these
        raise exception.InvalidInput(reason=f"{key} must be a text without NUL and surrogates")
    return value


def needed(body: Mapping[str, Any], key: str) -> str:
    """A text that has to be there."""
    value = text(body, key)
    if not value:
        raise exception.InvalidInput(reason=f"{key} is missing")
    return value


def integer(body: Mapping[str, Any], key: str) -> int | None:
    """A whole number from 0, which may be written as a text; None where there is none."""
    value = body.get(key)
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 12 else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MAX_INTEGER:
        raise exception.InvalidInput(reason=f"{key} must be an integer from 0 to {_MAX_INTEGER}")
    return number


def flag(body: Mapping[str, Any], key: str) -> bool:
    """True or false, which may be written as a text; false where there is none."""
    value = body.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    if not isinstance(value, str) or value.lower() not in ("true", "false"):
        raise exception.InvalidInput(reason=f"{key} must be true or false")
    return value.lower() == "true"


def texts(body: Mapping[str, Any], key: str) -> dict[str, str]:
    """An object of texts; empty where there is none."""
    value = {} if body.get(key) is None else body[key]
    if not isinstance(value, dict):
        raise exception.InvalidInput(reason=f"{key} must be an object")
    return {str(text({key: name}, key)): text(value, name) or "" for name in value}
