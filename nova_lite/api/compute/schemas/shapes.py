"""Small builders for the schemas of bodies, queries and answers."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import parameters, validation

Json = dict[str, Any]

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
MAYBE_STRING: Json = {"type": ["string", "null"]}
MAYBE_INTEGER: Json = {"type": ["integer", "null"]}
TIME: Json = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6}|Z)$"}
MAYBE_TIME: Json = {**TIME, "type": ["string", "null"]}
TEXTS: Json = {"type": "object", "additionalProperties": STRING}
LINKS: Json = parameters.links()
NO_BODY: Json = {"type": "null"}
LOCATION: Json = {"Location": {"description": "the URL of what is made", "schema": {"type": "string"}}}
ANY_PARAM: Json = validation.multi(STRING)
PAGE: Json = {"limit": validation.multi(parameters.QUERY_LIMIT), "marker": ANY_PARAM}


def closed(required: Json, optional: Json | None = None, **more: Any) -> Json:
    """An object with these properties and no others."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": sorted(required),
            "additionalProperties": False, **more}


def wrapped(key: str, schema: Json) -> Json:
    """``{"key": ...}``."""
    return closed({key: schema})


def listing(key: str, item: Json, paged: bool = False) -> Json:
    """``{"key": [...]}``, with ``key_links`` if ``paged``."""
    return closed({key: {"type": "array", "items": item}}, {f"{key}_links": LINKS} if paged else None)


def without(schema: Json, *names: str) -> Json:
    """A closed object without some of its properties."""
    kept = {name: value for name, value in schema["properties"].items() if name not in names}
    return {**schema, "properties": kept, "required": [name for name in schema["required"] if name not in names]}


def plus(schema: Json, required: Json, optional: Json | None = None) -> Json:
    """A closed object with more properties (or other ones of the same name)."""
    kept = {name: value for name, value in schema["properties"].items() if name not in (optional or {})}
    needed = {name: value for name, value in kept.items() if name in schema["required"]}
    free = {name: value for name, value in kept.items() if name not in schema["required"]}
    return closed({**needed, **required}, {**free, **(optional or {})})


def query(properties: Json, strict: bool = False) -> Json:
    """A query; ``strict``: other parameters are refused."""
    return {"type": "object", "properties": properties, "additionalProperties": not strict}
