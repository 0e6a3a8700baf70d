"""Validates the fields of an image: a client may send any JSON, and stored values reach guests and databases."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nova_lite import exception

PUBLIC, COMMUNITY, SHARED, PRIVATE = "public", "community", "shared", "private"
VISIBILITIES = (PUBLIC, COMMUNITY, SHARED, PRIVATE)
_MAX_INTEGER = 2 ** 31 - 1
_MAX_TEXT = 255
MOST_TAGS = 128                         # of an image, as in Glance
MOST_PROPERTIES = 256                   # a snapshot has those of its image, and metadata of its maker's
MOST_BYTES = 1 << 16                    # of all properties of an image together


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as an image may have them. Raises InvalidInput, which names the field."""
    return {name: _CHECKS[name](name, value) for name, value in values.items()}


def _wrong(name: str, value: object, wanted: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=f"image attribute {name}: {str(value)[:_MAX_TEXT]!r} is not {wanted}")


def _text(name: str, value: object, maximum: int | None = _MAX_TEXT) -> str:
    if not isinstance(value, str) or (maximum is not None and len(value) > maximum):
        raise _wrong(name, value, f"a text of at most {maximum} characters")
    # no database takes these
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise _wrong(name, ascii(value), "a text without NUL and surrogates")
    return value


def _text_or_none(name: str, value: object) -> str:
    return "" if value is None else _text(name, value)


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INTEGER:
        raise _wrong(name, value, f"an integer from 0 to {_MAX_INTEGER}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def _visibility(name: str, value: object) -> str:
    if value not in VISIBILITIES:
        raise _wrong(name, value, f"one of {', '.join(VISIBILITIES)}")
    return str(value)


def _tags(name: str, value: object) -> list[str]:
    if not isinstance(value, list):
        raise _wrong(name, value, "a list of texts")
    found = list(dict.fromkeys(_text(name, one) for one in value))
    if len(found) > MOST_TAGS:
        raise _wrong(name, value, f"a list of at most {MOST_TAGS} tags")
    return found


def _properties(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object")
    found = {_text(f"{name}: the name", key): _text(str(key), one if isinstance(one, str) else str(one), None)
             for key, one in value.items() if one is not None}
    if len(found) > MOST_PROPERTIES:
        raise _wrong(name, ", ".join(found), f"a set of at most {MOST_PROPERTIES} properties")
    if sum(len(text.encode()) for pair in found.items() for text in pair) > MOST_BYTES:
        raise _wrong(name, ", ".join(found), f"a set of properties of at most {MOST_BYTES} bytes together")
    return found


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "name": _text_or_none, "visibility": _visibility, "owner": _text, "min_disk": _number, "min_ram": _number,
    "disk_format": _text_or_none, "container_format": _text_or_none, "properties": _properties, "tags": _tags,
    "protected": _flag}
