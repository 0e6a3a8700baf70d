"""A small router for the embedded Identity, Image, Network and Block Storage APIs: what the stock clients need, no more."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import webob
import webob.dec
from oslo_log import log

from nova_lite import exception, json_in
from nova_lite.embedded.identity.base import Token
from nova_lite.embedded.identity.local import LocalIdentity

LOG = log.getLogger(__name__)
Handler = Callable[..., Any]


class Request(webob.Request):
    """``token`` is set where the route asks for one."""

    token: Token

    @property
    def is_admin(self) -> bool:
        """True for the role admin."""
        return "admin" in self.token.roles

    def json_value(self) -> Any:
        """The body as JSON; raises MalformedRequestBody."""
        try:
            return json_in.loads(self.body or b"{}")
        except ValueError:
            raise exception.MalformedRequestBody() from None

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; raises MalformedRequestBody."""
        value = self.json_value()
        if not isinstance(value, dict):
            raise exception.MalformedRequestBody()
        return value


class Route:
    """``path`` holds ``{name}`` for one segment each; ``public`` routes need no token."""

    def __init__(self, method: str, path: str, handler: Handler, status: int = 200, public: bool = False) -> None:
        self.method, self.handler, self.status, self.public = method, handler, status, public
        self.pattern = re.compile("^" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path.rstrip("/")) + "/?$")


class Application:
    """One embedded API. A handler answers a dictionary, None, or a response of its own; errors become JSON by their code.

    ``over_quota`` is the code of OverQuota, which each OpenStack service has its own for.
    """

    def __init__(self, identity: LocalIdentity, routes: list[Route], over_quota: int = exception.OverQuota.code) -> None:
        self.identity, self.routes, self._over_quota = identity, routes, over_quota

    @webob.dec.wsgify(RequestClass=Request)
    def __call__(self, req: Request) -> webob.Response:
        """Answer one request."""
        try:
            _check_url(req)
            return self._answer(req)
        except exception.OverQuota as error:
            return _fault(self._over_quota, error.public)
        except exception.NovaLiteError as error:
            if error.public != error.message:
                LOG.warning("fault %s: %s", error.code, error)
            return _fault(error.code, error.public, int(error.kwargs.get("retry_after", 0)) or None)
        except Exception:
            LOG.exception("%s %s failed", req.method, req.path)
            return _fault(500, "Internal error")

    def _answer(self, req: Request) -> webob.Response:
        allowed = []
        for route in self.routes:
            match = route.pattern.match(req.path_info.rstrip("/"))
            if not match:
                continue
            if route.method != req.method:
                allowed.append(route.method)
                continue
            if not route.public:
                req.token = self.identity.validate(req.headers.get("X-Auth-Token", ""))
            result = route.handler(req, **match.groupdict())
            if isinstance(result, webob.Response):
                return result
            if result is None:
                return webob.Response(status=204 if route.status == 200 else route.status, content_type=None)
            return json_response(result, route.status)
        if allowed:
            return _fault(405, f"{req.method} is not allowed here")
        return _fault(404, f"There is no {req.path_info} here")


def _check_url(req: Request) -> None:
    """Raise Invalid for a path or a query that is no text."""
    try:
        texts = (req.path_info, *req.GET.keys(), *req.GET.values())
    except UnicodeDecodeError:
        raise exception.Invalid("The URL is not UTF-8 encoded") from None
    if any("\0" in text for text in texts):
        raise exception.Invalid("The URL holds NUL")


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> webob.Response:
    """A JSON answer."""
    return webob.Response(json_body=body, status=status, headerlist=[("Content-Type", "application/json"),
                                                                     *(headers or {}).items()])


def _fault(code: int, message: str, retry_after: int | None = None) -> webob.Response:
    # one body that all clients read: keystone and glance use "error", neutron "NeutronError"
    headers = {"WWW-Authenticate": 'Keystone uri="/identity"'} if code == 401 else {}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    title = webob.Response(status=code).status.partition(" ")[2]
    return json_response({"error": {"code": code, "title": title, "message": message},
                          "NeutronError": {"type": title.replace(" ", ""), "message": message, "detail": ""}}, code, headers)


def scope(req: Request) -> str | None:
    """The project whose rows a caller may see; None: an admin, who sees all."""
    return None if req.is_admin else req.token.project_id


def body_of(req: Request, key: str) -> dict[str, Any]:
    """The object ``key`` of a body; raises InvalidInput."""
    given = req.json_object()
    body = given.get(key)
    if body is None and f"{key}s" in given:
        raise exception.InvalidInput(reason=f"{key}s: one at a time, there are no bulk requests for them here")
    if not isinstance(body, dict):
        raise exception.InvalidInput(reason=f"the body must hold an object {key!r}")
    return body


def page_size(req: Request) -> int | None:
    """The query's ``limit``; None (all items) without one, and for a value that is not a number or is larger than any list."""
    limit = req.GET.get("limit", "")
    return int(limit) if limit.isdecimal() and len(limit) < 10 else None


def select(req: Request, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Apply the filters of the query on plain fields; repeated filters are alternatives; unknown ones are ignored, as in
    Neutron."""
    for key in set(req.GET):
        wanted = {text.lower() for text in req.GET.getall(key)}
        if views and key in views[0] and not isinstance(views[0][key], (list, dict)):
            views = [v for v in views if str(v[key]).lower() in wanted]
    return views
