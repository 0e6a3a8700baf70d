"""The request that handlers see."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import webob

from nova_lite.api.openstack.routes import as_tuple
from nova_lite.context import RequestContext

if TYPE_CHECKING:
    from nova_lite.api.app import Services


class Request(webob.Request):
    """A webob request with what the framework found out.

    ``context``: who asks. ``version``: the microversion in use, as text ("2.90"). ``body``-like attributes: ``json_in`` is the
    validated body, ``argument`` an action's argument, ``params`` the validated query. ``services``: everything a handler may
    call (see ``nova_lite.api.app.Services``).
    """

    # webob keeps attributes in the environ, so that every wrapper of one request sees the same ones
    context: RequestContext
    version: str
    services: Services
    json_in: Any
    argument: Any

    def since(self, version: str) -> bool:
        """True when the microversion in use is ``version`` or newer."""
        return as_tuple(self.version) >= as_tuple(version)

    def can(self, rule: str, target: dict[str, Any] | None = None, fatal: bool = True) -> bool:
        """Check a policy rule; ``target`` has project_id and user_id of the resource (None: the caller's own).

        Raises PolicyNotAuthorized (403) when ``fatal``.
        """
        return self.services.policy.can(self.context, rule, target, fatal)
