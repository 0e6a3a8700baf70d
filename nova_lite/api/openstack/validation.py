"""Validation by JSON schema: bodies, queries and (in tests) answers.

A validator is compiled once per schema. Numbers in strings are compared with minimum and maximum as numbers, as clients send
both. A query is checked as an object of lists: ``?sort_key=a&sort_key=b`` is ``{"sort_key": ["a", "b"]}``; see
:func:`multi` and :func:`single`.
"""
from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError as SchemaError
from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.openstack import formats
from nova_lite.api.openstack.routes import Schema

_Draft = jsonschema.Draft202012Validator
MAX_MESSAGE = 1000
_SECRET = {"adminPass", "user_data", "personality", "contents"}
_HIDDEN = "***"


def multi(schema: Schema) -> dict[str, Any]:
    """A query parameter that may be given more than once."""
    return {"type": "array", "items": dict(schema)}


def single(schema: Schema) -> dict[str, Any]:
    """A query parameter that may be given once."""
    return {"type": "array", "items": dict(schema), "maxItems": 1}


def _number(instance: object) -> float | int | None:
    if isinstance(instance, bool):
        return None
    if isinstance(instance, (int, float)):
        return instance
    if isinstance(instance, str):
        if len(instance) > 400 and instance.strip().lstrip("+-").isdigit():
            # Python refuses to read thousands of digits, here and in the handler
            return -math.inf if instance.strip().startswith("-") else math.inf
        try:
            return int(instance)
        except ValueError:
            return None
    return None


def _minimum(_validator: Any, minimum: float, instance: object, _schema: Any) -> Iterator[SchemaError]:
    number = _number(instance)
    if number is not None and number < minimum:
        yield SchemaError(f"{instance!r} is less than the minimum of {minimum!r}")


def _maximum(_validator: Any, maximum: float, instance: object, _schema: Any) -> Iterator[SchemaError]:
    number = _number(instance)
    if number is not None and number > maximum:
        yield SchemaError(f"{instance!r} is greater than the maximum of {maximum!r}")


def _is_too_long(instance: object, schema: Mapping[str, Any]) -> bool:
    """Whether maxLength refuses the text: then the other checks are skipped, since they may take long for a long text."""
    return isinstance(instance, str) and len(instance) > schema.get("maxLength", math.inf)


def _pattern(_validator: Any, pattern: str, instance: object, schema: Mapping[str, Any]) -> Iterator[SchemaError]:
    if isinstance(instance, str) and not _is_too_long(instance, schema) and not _compiled(pattern).search(instance):
        yield SchemaError(f"{instance!r} does not match {pattern!r}")


def _format(validator: Any, name: str, instance: object, schema: Mapping[str, Any]) -> Iterator[SchemaError]:
    if not _is_too_long(instance, schema):
        yield from _Draft.VALIDATORS["format"](validator, name, instance, schema)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """As ECMA 262 has it, whose ``$`` is the end: Python's is also before a line feed at the end."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _drop_additional(_validator: Any, allowed: object, instance: object, schema: Mapping[str, Any]) -> Iterator[SchemaError]:
    """additionalProperties of /v2: what is not known is taken out instead of refused."""
    if allowed is False and isinstance(instance, dict):
        for key in _additional(instance, schema):
            del instance[key]
    elif isinstance(allowed, Mapping):
        yield from _Draft.VALIDATORS["additionalProperties"](_validator, allowed, instance, schema)


def _strip_names(_validator: Any, properties: Mapping[str, Any], instance: object, schema: Any) -> Iterator[SchemaError]:
    """properties of /v2: blanks around names are taken away instead of refused."""
    if isinstance(instance, dict):
        for key, rule in properties.items():
            if isinstance(instance.get(key), str) and _is_name(rule):
                instance[key] = instance[key].strip()
    yield from _Draft.VALIDATORS["properties"](_validator, properties, instance, schema)


def _is_name(schema: Mapping[str, Any]) -> bool:
    choices = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    return schema.get("format") in ("name", "az_name") or any(_is_name(choice) for choice in choices)


def _additional(instance: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return [key for key in instance if key not in known and not any(re.search(p, key) for p in patterns)]


# an integer is an int: 1.0 would reach handlers as a float
_TYPES = _Draft.TYPE_CHECKER.redefine("integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool))
_Strict = validators.extend(_Draft, {"minimum": _minimum, "maximum": _maximum, "pattern": _pattern, "format": _format},
                            type_checker=_TYPES)
_Relaxed = validators.extend(_Strict, {"additionalProperties": _drop_additional, "properties": _strip_names})


class Validator:
    """One compiled schema. ``relaxed``: additional properties, and blanks around names, are taken out of the value."""

    def __init__(self, schema: Schema, relaxed: bool = False) -> None:
        kind = _Relaxed if relaxed else _Strict
        self._validator = kind(dict(schema), format_checker=formats.CHECKER)

    def error(self, value: object) -> SchemaError | None:
        """The first fault of ``value``, None when there is none."""
        return next(self._validator.iter_errors(value), None)

    def check(self, value: object, what: str = "field/attribute") -> None:
        """Raise ValidationError (400) with the path, value and reason of the first fault."""
        error = self.error(value)
        if error is not None:
            raise exception.ValidationError(detail=describe(error, what))


def check_schema(schema: Schema) -> None:
    """Raise jsonschema.SchemaError for a value that is not a schema."""
    _Draft.check_schema(dict(schema))


def describe(error: SchemaError, what: str) -> str:
    """The text of a fault for the user."""
    cause = getattr(error, "cause", None)
    reason = str(cause) if isinstance(cause, formats.FormatError) else error.message
    path = list(error.absolute_path)
    shown = _HIDDEN if _SECRET.intersection(path) else _masked(error.instance)
    if shown != error.instance:
        reason = reason.replace(repr(error.instance), repr(shown))
    if not path:
        return _short(reason)
    # in a query the first part is the parameter, the second the number of its value
    name = path[-1] if what == "field/attribute" else path[0]
    return f"Invalid input for {what} {name}. Value: {_short(str(shown))}. {_short(reason)}"


def _masked(value: Any) -> Any:
    """What is no secret of a value, for faults and the log."""
    if isinstance(value, dict):
        return {key: _HIDDEN if key in _SECRET else _masked(one) for key, one in strutils.mask_dict_password(value).items()}
    return [_masked(one) for one in value] if isinstance(value, list) else value


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."


class QueryValidator:
    """A compiled query schema. What ``additionalProperties: False`` does not refuse and no property names is dropped."""

    def __init__(self, schema: Schema, strict: bool = False) -> None:
        schema = {**schema, "additionalProperties": False} if strict else schema
        self._schema = schema
        self._open = bool(schema.get("additionalProperties", True))
        self._validator = Validator(schema)

    def check(self, query: dict[str, list[str]]) -> dict[str, list[str]]:
        """The parameters that the schema knows; raises ValidationError (400)."""
        self._validator.check(query, "query parameters")
        if self._open:
            for key in _additional(query, self._schema):
                del query[key]
        return query


def parse_query(text: str) -> dict[str, list[str]]:
    """A query string as lists of values; raises ValidationError for bytes that are not UTF-8."""
    if not text:
        return {}
    if "%00" in text:
        # no name or id holds it, and PostgreSQL takes no text with it
        raise exception.ValidationError(detail="Query string holds a NUL character")
    try:
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError:
        raise exception.ValidationError(detail="Query string is not UTF-8 encoded") from None


def encode_query(query: Mapping[str, list[str]]) -> str:
    """The inverse of :func:`parse_query`."""
    return urlencode([(name, value) for name, values in query.items() for value in values])
