"""The OpenAPI 3.1 document of one microversion, made of the tables that route and validate requests.

Served at ``/v2.1/openapi.json`` and printed by ``nova-lite-manage api openapi``. The document has only the contents of the
tables: a route without response schema has an answer without content.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from nova_lite import version as product
from nova_lite.api.openstack import microversions
from nova_lite.api.openstack import request_id as request_id_filter
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.registry import Entry, Registry
from nova_lite.api.openstack.routes import at_version, response_at, status_at

_ERRORS = {"400": "what was sent is not right", "401": "no valid token", "403": "not allowed, or over quota",
           "404": "no such resource, or not at this microversion",
           "406": "no such microversion", "409": "not possible in the present state", "413": "too much was sent",
           "415": "the body is not JSON", "501": "not possible with the drivers of this cloud",
           "503": "a service that is needed does not answer"}
_OF_ERRORS = {"413": {"Retry-After": "seconds"}}
_OF_THE_WEB_SERVER = {"414": {"description": "the URL is too long"}}
_FAULT = {"type": "object", "maxProperties": 1, "additionalProperties": {
    "type": "object", "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}}}


def document(registry: Registry, microversion: str = microversions.MAX) -> dict[str, Any]:
    """The document of one microversion ("2.1" to the newest). Raises InvalidGlobalAPIVersion (406) for any other."""
    microversions.check_known(microversion)
    paths: dict[str, dict[str, Any]] = {}
    tags = set()
    for path, operations in sorted(_by_path(registry, microversion).items()):
        item: dict[str, Any] = {}
        parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", path)]
        if parameters:
            item["parameters"] = parameters
        for method, entries in operations.items():
            made = _operation(method, path, entries, microversion)
            tags.update(made["tags"])
            item[method.lower()] = made
        paths[path] = item
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenStack Compute API", "version": microversion,
                 "description": f"nova_lite {product.VERSION}; every request carries the header "
                                f"{microversions.HEADER}: compute {microversion}.",
                 "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "servers": [{"url": "/v2.1"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in sorted(tags)],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
                       "schemas": {"Fault": _FAULT},
                       "headers": _headers(microversion),
                       "parameters": {"microversion": {
                           "name": microversions.HEADER, "in": "header", "required": False,
                           "schema": {"type": "string", "const": f"compute {microversion}"}}},
                       "responses": {**{code: _fault(code) for code in _ERRORS}, **_OF_THE_WEB_SERVER}}}


def _headers(microversion: str) -> dict[str, Any]:
    """The headers that all answers of success have, and those of the request's id all others, too."""
    request_id = {"description": "the id of the request, as in the log", "required": True, "schema": {"type": "string"}}
    said = {microversions.HEADER: f"compute {microversion}", microversions.LEGACY_HEADER: microversion}
    return {**{name: {"description": "the microversion of the answer", "required": True,
                      "schema": {"type": "string", "const": text}} for name, text in said.items()},
            **dict.fromkeys(request_id_filter.HEADERS, request_id)}


def _named(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _by_path(registry: Registry, microversion: str) -> dict[str, dict[str, list[Entry]]]:
    """The entries that answer at a microversion: path -> method -> one entry, or the actions of that path."""
    found: dict[str, dict[str, list[Entry]]] = {}
    for entry in registry.entries:
        if entry.first <= as_tuple(microversion) <= entry.last:
            found.setdefault(entry.route.path, {}).setdefault(entry.route.method, []).append(entry)
    return found


def _operation(method: str, path: str, entries: list[Entry], microversion: str) -> dict[str, Any]:
    first = entries[0].route
    module = first.handler.__module__.rpartition(".")[2]
    made: dict[str, Any] = {
        "tags": [module if not first.action else "server_actions"],
        "operationId": f"{module}.{first.handler.__name__}" if not first.action else f"action{path.replace('/', '.')}",
        "summary": _summary(entries),
        "parameters": [{"$ref": "#/components/parameters/microversion"}, *_query(first, microversion)],
        "responses": {**_answers(entries, microversion),
                      **{code: {"$ref": f"#/components/responses/{code}"} for code in (*_ERRORS, *_OF_THE_WEB_SERVER)}}}
    bodies = [body for entry in entries if (body := _body(entry, microversion)) is not None]
    if bodies:
        schema = bodies[0] if len(bodies) == 1 else {"oneOf": bodies}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return made


def _summary(entries: Iterable[Entry]) -> str:
    def line(entry: Entry) -> str:
        words = " ".join((entry.route.handler.__doc__ or entry.route.handler.__name__).split())
        return re.split(r"(?<=\.) ", words, maxsplit=1)[0]

    found = list(entries)
    if found[0].route.action:
        return "One of the actions " + ", ".join(sorted(str(entry.route.action) for entry in found))
    return line(found[0])


def _body(entry: Entry, microversion: str) -> dict[str, Any] | None:
    schema = at_version(entry.route.body, microversion)
    if schema is None:
        if entry.route.action is None:
            return None
        return {"type": "object", "title": entry.route.action, "required": [entry.route.action]}
    return {"title": entry.route.action or entry.route.handler.__name__, **schema}


def _query(route: Any, microversion: str) -> list[dict[str, Any]]:
    schema = at_version(route.query, microversion) or {}
    made = []
    for name, value in schema.get("properties", {}).items():
        item = dict(value.get("items", {}))
        once = value.get("maxItems") == 1
        made.append({"name": name, "in": "query", "required": name in schema.get("required", ()),
                     "schema": item if once else {"type": "array", "items": item}})
    patterns = {pattern: value.get("items", {}) for pattern, value in schema.get("patternProperties", {}).items()}
    if patterns:        # an object that is exploded: its properties are the parameters, whatever its own name
        made.append({"name": "others", "in": "query", "style": "form", "explode": True, "schema": {
            "type": "object", "patternProperties": patterns, "additionalProperties": False}})
    return made


def _answers(entries: Iterable[Entry], microversion: str) -> dict[str, Any]:
    by_code: dict[str, list[Any]] = {}
    headers: dict[str, Any] = {}
    for entry in entries:
        headers |= at_version(entry.route.headers, microversion) or {}
        for number in filter(None, (status_at(entry.route, microversion), entry.route.also)):
            schema = response_at(entry.route, microversion) if number != HTTPStatus.NO_CONTENT else None
            by_code.setdefault(str(number), []).append(schema)
    made: dict[str, dict[str, Any]] = {}
    for told, schemas in sorted(by_code.items()):
        known = [schema for schema in schemas if schema and schema.get("type") != "null"]      # null: no content
        own = headers if int(told) != HTTPStatus.NO_CONTENT else {}
        made[told] = {"description": HTTPStatus(int(told)).phrase, "headers": {**_named(_headers(microversion)), **own}}
        if known:
            schema = known[0] if len(known) == 1 else {"anyOf": known}
            made[told]["content"] = {"application/json": {"schema": schema}}
    return made


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _fault(code: str) -> dict[str, Any]:
    own = {name: {"description": text, "schema": {"type": "string"}} for name, text in _OF_ERRORS.get(code, {}).items()}
    return {"description": _ERRORS[code], "headers": {**_named(request_id_filter.HEADERS), **own},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}}
