"""The table of all routes: found by entry points, checked once, compiled per microversion, matched by Routes."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jsonschema
import routes
import stevedore
from oslo_log import log

from nova_lite import exception
from nova_lite.api.openstack import faults, microversions, validation
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.routes import Route, Schema, at_version, response_at, status_at
from nova_lite.policies import third_party

LOG = log.getLogger(__name__)
NAMESPACE = third_party.EXTENSIONS
_STRICT_QUERIES = (2, 102)
_PATH = "_path"


def load_modules(namespace: str = NAMESPACE) -> list[ModuleType]:
    """The resource modules of all entry points, ours and others'. Raises ConfigError for one that cannot be imported."""
    def fail(_manager: Any, entry_point: Any, error: BaseException) -> None:
        raise exception.ConfigError(reason=f"API extension {entry_point.name} ({entry_point.value}) cannot be loaded: "
                                           f"{type(error).__name__}: {error}") from error

    found: stevedore.ExtensionManager[Any] = stevedore.ExtensionManager(namespace, invoke_on_load=False,
                                                                        on_load_failure_callback=fail)
    modules: list[Any] = [extension.plugin for extension in sorted(found, key=lambda extension: extension.name)]
    return modules


def routes_of(module: ModuleType) -> Sequence[Route]:
    """The table of a module. Raises ConfigError for one without."""
    try:
        return module.ROUTES
    except AttributeError:
        raise exception.ConfigError(reason=f"API extension {module.__name__} has no table ROUTES") from None


class Bound(NamedTuple):
    """A route at one microversion."""

    status: str
    body: validation.Validator | None
    query: validation.QueryValidator | None
    response: validation.Validator | None
    headers: Schema


class Entry:
    """A route and what was compiled of it so far."""

    def __init__(self, route: Route, check_schemas: bool) -> None:
        self.route = route
        self.first = as_tuple(route.first)
        self.last = as_tuple(route.last) if route.last else (9999, 0)
        self._check_schemas = check_schemas
        # most versions share their schemas with the one before; the route keeps them, so that their ids stay theirs
        self._validators: dict[tuple[int, bool], validation.Validator] = {}
        self._bound: dict[tuple[str, bool], Bound] = {}

    def __str__(self) -> str:
        return self.route.operation

    def at(self, version: str, legacy: bool) -> Bound:
        """The compiled route at ``version``; ``legacy``: below /v2."""
        known = self._bound.get((version, legacy))
        if known is None:
            known = self._bound[version, legacy] = self._bind(version, legacy)
        return known

    def _bind(self, version: str, legacy: bool) -> Bound:
        route = self.route
        query = at_version(route.query, version)
        strict = as_tuple(version) >= _STRICT_QUERIES
        if query is None and strict:
            query = {"type": "object"}
        elif query is not None and self._check_schemas:
            self._validator(query)      # checks it, once
        return Bound(faults.status_line(status_at(route, version)),
                     self._validator(at_version(route.body, version), relaxed=legacy),
                     validation.QueryValidator(query, strict) if query is not None else None,
                     self._validator(response_at(route, version)), at_version(route.headers, version) or {})

    def _validator(self, schema: Schema | None, relaxed: bool = False) -> validation.Validator | None:
        if schema is None:
            return None
        known = self._validators.get((id(schema), relaxed))
        if known is None:
            if self._check_schemas:
                self._check(schema)
            known = self._validators[id(schema), relaxed] = validation.Validator(schema, relaxed)
        return known

    def _check(self, schema: Schema) -> None:
        try:
            validation.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise exception.ConfigError(reason=f"{self}: broken schema: {error.message}") from error


class Endpoint:
    """All routes of one path: by method, then by action (None: not an action), one or more ranges of versions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.methods: dict[str, dict[str | None, list[Entry]]] = {}

    def add(self, entry: Entry) -> None:
        """Raises ConfigError for two routes that answer to one request."""
        entries = self.methods.setdefault(entry.route.method, {}).setdefault(entry.route.action, [])
        for other in entries:
            if entry.first <= other.last and other.first <= entry.last:
                raise exception.ConfigError(reason=f"two API extensions answer to {entry} at one microversion: "
                                                   f"{other.route.handler.__module__} and {entry.route.handler.__module__}")
        entries.append(entry)


class Registry:
    """The table and its mappers. Routes tries regular expressions one after the other. So there is one mapper per first word
    and number of words of a path: a request is compared with a few routes, not with two hundred."""

    def __init__(self, modules: Iterable[ModuleType], check_schemas: bool = False) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.entries: list[Entry] = []
        for module in modules:
            for route in routes_of(module):
                entry = Entry(route, check_schemas)
                self.entries.append(entry)
                self.endpoints.setdefault(route.path, Endpoint(route.path)).add(entry)
        self._mappers: dict[tuple[str, int], routes.Mapper] = {}
        # Routes takes the first match: literal words go before names
        for path in sorted(self.endpoints, key=lambda path: [word.startswith("{") for word in path.split("/")]):
            self._connect(path)
        for mapper in self._mappers.values():
            mapper.create_regs()
        self._collections = {first for first, _ in self._mappers}

    def _connect(self, path: str) -> None:
        words = path.split("/")[1:]
        if not path.startswith("/") or words[0].startswith("{") or not all(words):
            raise exception.ConfigError(reason=f"a path of the API must begin with a fixed word: {path!r}")
        mapper = self._mappers.get((words[0], len(words)))
        if mapper is None:
            mapper = self._mappers[words[0], len(words)] = routes.Mapper(explicit=True, register=False)
            mapper.minimization = False
            mapper.urlcache = None      # a cache of generated URLs, 25 KiB each: the API generates none by Routes
        names = [word.strip("{}") for word in words if word.startswith("{")]
        mapper.connect(None, path, requirements=dict.fromkeys(names, "[^/]+"), **{_PATH: path})

    def find(self, path: str) -> tuple[Endpoint, dict[str, str], str | None] | None:
        """Endpoint, path parameters and the project in the URL, if any; None: no such path."""
        words = path.split("/")[1:]
        project = None
        if words and words[0] not in self._collections:
            project, words = words[0], words[1:]
            path = "/" + "/".join(words)
        mapper = self._mappers.get((words[0], len(words))) if words else None
        match = mapper.match(path) if mapper is not None else None
        if match is None:
            return None
        return self.endpoints[match.pop(_PATH)], match, project

    def policies(self) -> dict[str, list[str]]:
        """The rules that routes name, with the routes that name them."""
        rules: dict[str, list[str]] = {}
        for entry in self.entries:
            if entry.route.rule is not None:
                rules.setdefault(entry.route.rule, []).append(str(entry))
        return rules

    def bind_all(self) -> None:
        """Compile every route at every version that it knows. Raises ConfigError for a broken schema. For tests."""
        newest = as_tuple(microversions.MAX)
        for entry in self.entries:
            for minor in range(entry.first[1], min(entry.last, newest)[1] + 1):
                entry.at(f"2.{minor}", legacy=False)
