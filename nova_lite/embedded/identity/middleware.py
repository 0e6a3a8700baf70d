"""WSGI filter of ``auth_strategy = embedded``: checks the token (``local.py``) and sets who asks."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg

from nova_lite import exception
from nova_lite.embedded.identity.local import LocalIdentity


class EmbeddedAuth:
    """Sets the headers that keystonemiddleware sets, so that everything behind it is the same for both."""

    def __init__(self, app: Callable[..., Iterable[bytes]], identity: LocalIdentity) -> None:
        self.app, self.identity = app, identity

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Pass the request on with the caller's identity, or answer 401."""
        for name in [n for n in environ if n.startswith(("HTTP_X_USER", "HTTP_X_PROJECT", "HTTP_X_ROLES", "HTTP_X_SERVICE",
                                                         "HTTP_X_DOMAIN", "HTTP_X_IDENTITY", "HTTP_X_IS_ADMIN"))]:
            del environ[name]       # a client must not set these headers itself
        try:
            token = self.identity.validate(environ.get("HTTP_X_AUTH_TOKEN", ""))
        except exception.Unauthorized as error:
            body = json.dumps({"error": {"code": 401, "title": "Unauthorized", "message": error.message}}).encode()
            start_response("401 Unauthorized", [("Content-Type", "application/json"), ("Content-Length", str(len(body))),
                                                ("WWW-Authenticate", "Keystone uri='/identity'")])
            return [body]
        environ.update({
            "HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_ID": token.user_id, "HTTP_X_USER_NAME": token.user_name,
            "HTTP_X_PROJECT_ID": token.project_id, "HTTP_X_PROJECT_NAME": token.project_name,
            "HTTP_X_ROLES": ",".join(token.roles), "HTTP_X_USER_DOMAIN_ID": "default", "HTTP_X_PROJECT_DOMAIN_ID": "default"})
        return self.app(environ, start_response)


def factory(conf: cfg.ConfigOpts) -> Callable[[Callable[..., Iterable[bytes]]], EmbeddedAuth]:
    """The filter of this cloud's users."""
    identity = LocalIdentity(f"{conf.state_path}/identity")
    return lambda app: EmbeddedAuth(app, identity)
