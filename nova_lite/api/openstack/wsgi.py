"""The request that handlers see."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import webob

from nova_lite.api.openstack import links, validation
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.routes import Owned
from nova_lite.context import RequestContext
from nova_lite.policies.base import Rule

if TYPE_CHECKING:
    from nova_lite.api.app import Services

QUERY = "nova_lite.query"
"""Key of the environ: the validated query."""


class Request(webob.Request):
    """A webob request, with the results of the framework. ``context``: the caller. ``version``: the microversion in use, as
    text ("2.90"). ``json_in``: the validated body; ``argument``: the argument of an action; ``params_in``: the validated query,
    lists of strings by name (``GET`` holds the same parameters). ``services``: the objects that a handler may use (see
    ``nova_lite.api.app.Services``)."""

    # webob keeps attributes in the environ, so all wrappers of one request share them
    context: RequestContext
    version: str
    services: Services
    json_in: Any
    argument: Any

    @property
    def params_in(self) -> dict[str, list[str]]:
        """The query as lists of values, without parameters that the route's schema does not name."""
        query = self.environ.get(QUERY)
        if query is None:
            query = self.environ[QUERY] = validation.parse_query(self.environ.get("QUERY_STRING", ""))
        return query

    def since(self, version: str) -> bool:
        """True when the microversion in use is ``version`` or newer."""
        return as_tuple(self.version) >= as_tuple(version)

    def can(self, rule: Rule | str, target: Owned | dict[str, Any] | None = None, fatal: bool = True) -> bool:
        """Check a policy rule on a server, or on the project_id and user_id of another resource (None: the caller's own).

        Raises PolicyNotAuthorized (403) when ``fatal``.
        """
        if target is not None and not isinstance(target, dict):
            target = {"project_id": target.project_id, "user_id": target.user_id}
        name = rule.name if isinstance(rule, Rule) else rule
        return self.services.policy.can(self.context, name, target, fatal)

    def link(self, kind: str, *parts: object) -> str:
        """A link of kind ``self`` or ``bookmark``: ``req.link("self", "servers", uuid)``; see also ``links.links``."""
        return links.bookmark(self, *parts) if kind == "bookmark" else links.self_link(self, *parts)
