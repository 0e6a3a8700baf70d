"""The heart of the API: finds the route of a request, checks it, calls the handler, writes the answer."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import webob
import webob.exc

from nova_lite import exception
from nova_lite.api.openstack import faults, links, microversions, validation
from nova_lite.api.openstack.microversions import VERSION, as_tuple
from nova_lite.api.openstack.registry import Bound, Entry, Registry
from nova_lite.api.openstack.request_body import read_json
from nova_lite.api.openstack.wsgi import QUERY, Request
from nova_lite.context import RequestContext

if TYPE_CHECKING:
    from nova_lite.api.app import Services

CONTEXT = "nova_lite.context"
"""Key of the environ: the RequestContext that the authentication filters made."""
_encode = json.JSONEncoder(separators=(",", ":")).encode
_NO_BODY = ("204", "304")


class _Target(NamedTuple):
    """The routes of one path and method, by action; with the path parameters, and the project in the URL, if any."""

    actions: Mapping[str | None, list[Entry]]
    parameters: dict[str, Any]
    project: str | None


class Router:
    """The WSGI application behind /v2.1 and /v2.

    ``validate_responses``: hold every answer against its schema and raise ResponseMismatch for one that fails (for tests).
    """

    def __init__(self, services: Services, registry: Registry, validate_responses: bool = False) -> None:
        self.services = services
        self.registry = registry
        self.validate_responses = validate_responses
        for rule, named_by in registry.policies().items():
            if rule not in services.policy:
                raise exception.ConfigError(reason=f"{named_by[0]} names the policy {rule}, which does not exist")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        version: str | None = None
        try:
            target = self._target(environ)
            if target is None:
                return webob.exc.HTTPNotFound()(environ, start_response)
            version = environ[VERSION] = microversions.requested(environ)
            status, headers, body = self._answer(environ, version, target)
        except faults.ResponseMismatch:
            raise
        except Exception as error:
            status, headers, body = faults.make(error)
        start_response(status, headers + microversions.answer_headers(environ, version))
        return [body]

    def _answer(self, environ: dict[str, Any], version: str, target: _Target) -> faults.Answer:
        context: RequestContext = environ[CONTEXT]
        self.services.policy.set_admin(context)
        legacy = microversions.LEGACY_V2 in environ
        entry, document = self._entry(environ, version, context, target)
        route, parameters = entry.route, target.parameters
        bound = entry.at(version, legacy)
        if bound.body is not None:
            if route.action is None:
                document = read_json(environ)
            bound.body.check(document)
        if bound.query is not None:
            self._check_query(environ, bound)
        # what webob's own attributes would do, at once; filters before us may have set theirs
        environ.setdefault("webob.adhoc_attrs", {}).update(
            context=context, version=version, services=self.services, json_in=document,
            argument=document[route.action] if route.action is not None else None)
        request = Request(environ)
        instance = None
        if route.server is not None and "server_id" in parameters:
            parameters["instance"] = instance = route.server(request, parameters.pop("server_id"))
        if route.policy is not None:
            request.can(route.policy, route.target(request, **parameters) if route.target is not None else instance)
        result = route.handler(request, **parameters)
        return self._write(entry, bound, result)

    def _target(self, environ: dict[str, Any]) -> _Target | None:
        """What path and method lead to; None: nowhere, at no microversion. Raises Invalid."""
        try:
            path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8")
        except UnicodeError:
            raise exception.Invalid("The URL is not UTF-8 encoded") from None
        found = self.registry.find(path)
        if found is None or "\0" in path:
            return None
        endpoint, parameters, project = found
        actions = endpoint.methods.get(environ["REQUEST_METHOD"])
        return None if actions is None else _Target(actions, parameters, project)

    @staticmethod
    def _entry(environ: dict[str, Any], version: str, context: RequestContext, target: _Target) -> tuple[Entry, Any]:
        """The entry and, for an action, the body."""
        project, actions = target.project, target.actions
        if project is not None:
            if project != context.project_id:
                raise exception.Invalid(f"Malformed request URL: URL's project_id '{project}' doesn't match Context's "
                                        f"project_id '{context.project_id}'")
            environ[links.PROJECT] = project
        document, action = None, None
        if None not in actions:
            document = read_json(environ)
            if not isinstance(document, dict) or len(document) != 1:
                raise exception.MalformedRequestBody()
            action = next(iter(document))
            if action not in actions:
                raise faults.NoSuchAction(action=action[:255])
        wanted = as_tuple(version)
        for entry in actions[action]:
            if entry.first <= wanted <= entry.last:
                return entry, document
        raise faults.ResourceNotFound()

    @staticmethod
    def _check_query(environ: dict[str, Any], bound: Bound) -> None:
        text = environ.get("QUERY_STRING", "")
        query = validation.parse_query(text)
        if bound.query is not None and query:
            given = len(query)
            query = bound.query.check(query)
            if len(query) < given:
                # parameters that the schema dropped must not be in Request.GET either
                environ["QUERY_STRING"] = validation.encode_query(query)
        environ[QUERY] = query

    def _write(self, entry: Entry, bound: Bound, result: Any) -> faults.Answer:
        if isinstance(result, webob.Response):
            if self.validate_responses:
                self._validate(entry, bound, result.json_body if result.body else None)
                if "Location" in result.headers and "Location" not in bound.headers:
                    raise faults.ResponseMismatch(f"{entry}: its table tells of no Location")
            headers = list(result.headerlist)
            if result.status.startswith(_NO_BODY):
                headers = [(name, value) for name, value in headers if name.lower() not in ("content-type", "content-length")]
            return result.status, headers, result.body
        if self.validate_responses:
            self._validate(entry, bound, result)
        if bound.status.startswith(_NO_BODY):
            return bound.status, [], b""
        body = b"" if result is None else _encode(result).encode()
        return bound.status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))], body

    @staticmethod
    def _validate(entry: Entry, bound: Bound, result: Any) -> None:
        if bound.response is None:
            return
        # as the client sees it: a tuple is a list by then
        error = bound.response.error(json.loads(_encode(result)))
        if error is not None:
            where = "/".join(str(part) for part in error.absolute_path)
            raise faults.ResponseMismatch(f"{entry}: {where}: {error.message}")


def factory(global_conf: dict[str, str], **_local: str) -> Router:
    """Paste application factory."""
    from nova_lite.api.openstack import loading

    return loading.current(global_conf).router
