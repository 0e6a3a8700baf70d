"""What a resource module of the API is: a table of :class:`Route`.

Each module named by the entry points ``nova_lite.api.v21.extensions`` has ``ROUTES: list[Route]``. The table serves routing,
microversions, validation, policy, the tests (response schemas) and the documentation. Actions of
``POST /servers/{server_id}/action`` are rows with ``action`` set to the body's single key. Policy rules that no row names, but
handlers ask, stand in the module's ``RULES: list[Rule]``.

A handler is a plain function ``handler(req, **path_parameters)``: it gets an :class:`~nova_lite.api.openstack.wsgi.Request`
and, where the path has ``{server_id}``, the server itself as ``instance`` in place of that parameter. It answers a dictionary
(JSON), None (no body) or a ``webob.Response``. ``req.json_in`` is the validated body. For an action ``req.argument`` is the
value of the action's key.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.parameters import NULL
from nova_lite.policies.base import Rule

if TYPE_CHECKING:
    from nova_lite.api.openstack.wsgi import Request

Schema = Mapping[str, Any]
Versioned = Mapping[str, Schema | None]
"""Schemas by the microversion that they begin with: {"2.1": {...}, "2.19": {...}}; None ends one."""


class Owned(Protocol):
    """A resource that belongs to a project and a user."""

    @property
    def project_id(self) -> str: ...

    @property
    def user_id(self) -> str: ...


def living_server(req: Request, server_id: str) -> Owned:
    """A server that is not deleted and that the caller may see. Raises InstanceNotFound."""
    return req.services.compute.get(req.context, server_id)


@dataclass(frozen=True)
class Route:
    """One method of one path, from ``first`` to ``last`` microversion (last None: to the newest).

    Two routes with one method and path must not overlap in versions. ``path`` is written as ``/flavors/{flavor_id}``.
    ``policy`` is the rule that is checked before the handler: a :class:`Rule`, which the row thereby declares, or the name of
    one that is declared elsewhere. Its target is the server of the path, or what ``target`` answers, which is called like the
    handler, or else the caller's own project and user. A handler that finds somebody's resource itself checks it by
    ``req.can(rule, target)``; policy None: the handler does all checks itself, by rules of its module's ``RULES``.

    ``server`` fetches the server of ``{server_id}``, once, for the framework and the handler. It raises InstanceNotFound for
    one that the caller may not know of, so that a stranger gets 404 before any policy says 403. A route that needs other
    columns, or deleted servers, has a function of its own. None: the route tells nothing of any server, and its handler gets
    ``server_id``.

    The order is: body schema, query schema, server, policy, handler. ``body`` None: a body is ignored.
    ``status`` is the code of success, by microversion if a mapping: {"2.1": 200, "2.2": 201}; ``also`` is another one, which
    the handler answers by a ``webob.Response`` of its own.

    ``query`` is the schema of an object whose properties are arrays of strings, as a parameter may come more than once:
    ``{"type": "object", "properties": {"limit": single(QUERY_LIMIT), "sort_key": multi(STRING)}}``, with ``single`` and
    ``multi`` of ``validation`` and the values of ``parameters``. Keys that it does not name are dropped before the handler
    sees them; with ``"additionalProperties": False`` they are refused (400). From 2.102 the framework refuses them on every
    route, also on those without a query schema.

    ``response`` is the schema of the JSON of an answer. Without one, an answer of 202 or 204 has no body. ``headers`` are those
    of its own that an answer may have, as OpenAPI describes them: {"Location": {"description", "schema"}}.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    policy: Rule | str | None
    first: str = "2.1"
    last: str | None = None
    body: Versioned | Schema | None = None
    query: Versioned | Schema | None = None
    response: Versioned | Schema | None = None
    status: int | Mapping[str, int] = 200
    action: str | None = None
    also: int | None = None
    headers: Versioned | Schema | None = None
    server: Callable[[Request, str], Owned] | None = living_server
    target: Callable[..., dict[str, Any]] | None = None

    @property
    def rule(self) -> str | None:
        """The name of ``policy``."""
        return self.policy.name if isinstance(self.policy, Rule) else self.policy

    @property
    def operation(self) -> str:
        """As the documentation of policies writes it: ``GET /path`` or ``POST /path (action)``."""
        return f"{self.method} {self.path}" + (f" ({self.action})" if self.action else "")


def status_at(route: Route, version: str) -> int:
    """The code of success at microversion ``version``."""
    if not isinstance(route.status, Mapping):
        return route.status
    return route.status[max((v for v in route.status if as_tuple(v) <= as_tuple(version)), key=as_tuple)]


def response_at(route: Route, version: str) -> Schema | None:
    """The schema of the answer at microversion ``version``; None: there is none."""
    schema = at_version(route.response, version)
    if schema is None and status_at(route, version) in (HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT):
        return NULL
    return schema


def at_version(table: Versioned | Schema | None, version: str) -> Schema | None:
    """The schema of ``table`` that holds at microversion ``version``; a bare schema holds at each."""
    if not table:
        return table
    if not all(key.partition(".")[0].isdigit() for key in table):
        return table
    wanted = as_tuple(version)
    found: Schema | None = None
    for first, schema in sorted(table.items(), key=lambda item: as_tuple(item[0])):
        if as_tuple(first) <= wanted:
            found = schema
    return found
