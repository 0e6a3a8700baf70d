"""Authentication: the filters of the three strategies, and the filter that makes a context of their result.

Each strategy leaves keystonemiddleware's ``X-*`` headers in the environ; only :class:`ContextFilter` reads them.
"""
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.api.openstack import faults, loading
from nova_lite.api.openstack.router import CONTEXT
from nova_lite.context import RequestContext

LOG = log.getLogger(__name__)
Application = Callable[..., Any]
_IMPLIED = {"admin": ("manager", "member", "reader"), "manager": ("member", "reader"), "member": ("reader",)}
"""Keystone's default role implications, which a token of noauth2 has nobody else to apply."""


class NoAuth2:
    """For tests: believes the token ``user:project``, or the headers X-User-Id, X-Project-Id and X-Roles.

    Without X-Roles a caller is reader and member, and the user ``admin`` everything.
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        user, _, project = environ.get("HTTP_X_AUTH_TOKEN", "").partition(":")
        user = environ.get("HTTP_X_USER_ID") or user
        if not user:
            return faults.respond(exception.Unauthorized(), start_response)
        said = environ.get("HTTP_X_ROLES")
        roles = [role.strip() for role in said.split(",") if role.strip()] if said is not None \
            else ["admin" if user == "admin" else "member"]
        implied = {other for role in roles for other in _IMPLIED.get(role.lower(), ())}
        environ["HTTP_X_USER_ID"] = user
        environ["HTTP_X_PROJECT_ID"] = environ.get("HTTP_X_PROJECT_ID") or project or user
        environ["HTTP_X_ROLES"] = ",".join([*roles, *sorted(implied - set(roles))])
        return self.app(environ, start_response)


class ContextFilter:
    """Makes the RequestContext of the headers that the filter before it vouches for; service roles included."""

    def __init__(self, app: Application) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if not environ.get("HTTP_X_USER_ID") or environ.get("HTTP_X_IDENTITY_STATUS", "Confirmed") != "Confirmed":
            return faults.respond(exception.Unauthorized(), start_response)
        context = RequestContext.from_environ(environ)
        context.is_admin = any(role.lower() == "admin" for role in context.roles)
        environ[CONTEXT] = context
        return self.app(environ, start_response)


def noauth2_factory(_global_conf: dict[str, str], **_local: str) -> type[NoAuth2]:
    """Paste filter factory."""
    return NoAuth2


def context_factory(_global_conf: dict[str, str], **_local: str) -> type[ContextFilter]:
    """Paste filter factory."""
    return ContextFilter


def authtoken_factory(global_conf: dict[str, str], **_local: str) -> Callable[[Application], Application]:
    """Paste filter factory of keystonemiddleware, with our options; imported only where it is used (it takes 30 MiB)."""
    conf = loading.current(global_conf).conf

    def make(app: Application) -> Application:
        from keystoneauth1 import exceptions as ks
        from keystonemiddleware import auth_token

        # left alone it would wait for ever for a Keystone that hangs
        bounded = {"http_connect_timeout": conf.service_user.timeout, "http_request_max_retries": 1}
        options = {name: value for name, value in bounded.items() if not written(conf, "keystone_authtoken", name)}
        protocol = auth_token.AuthProtocol(app, {"oslo_config_config": conf, **options})

        def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            try:
                return protocol(environ, start_response)
            except ks.ClientException as error:     # it catches refused connections itself, but not those that time out
                LOG.warning("Keystone: %s", error)
                unavailable = exception.ServiceUnavailable(what="Keystone", reason="no answer about the token of this request")
                return faults.respond(unavailable, start_response)
        guarded.app = protocol  # type: ignore[attr-defined]
        return guarded
    return make


def embedded_factory(global_conf: dict[str, str], **_local: str) -> Callable[[Application], Application]:
    """Paste filter factory of the embedded identity; imported only where it is used."""
    return import_module("nova_lite.embedded.identity.middleware").factory(loading.current(global_conf).conf)


def written(conf: cfg.ConfigOpts, group: str, name: str) -> str:
    """The text of an option of oslo.middleware in our configuration files, without importing it (8 MiB, mostly unused)."""
    probe = cfg.ConfigOpts()
    probe.register_opt(cfg.StrOpt(name, default=""), group=group)
    probe([], default_config_files=conf.config_file or [], default_config_dirs=conf.config_dir or [])
    return probe[group][name]


def cors_factory(global_conf: dict[str, str], **_local: str) -> Callable[[Application], Application]:
    """Paste filter factory of oslo.middleware's CORS; no filter at all while [cors] allowed_origin is empty."""
    conf = loading.current(global_conf).conf

    def make(app: Application) -> Application:
        if not written(conf, "cors", "allowed_origin"):
            return app
        from oslo_middleware import cors

        return cors.CORS(app, conf)
    return make


def proxy_headers_factory(global_conf: dict[str, str], **_local: str) -> Callable[[Application], Application]:
    """Paste filter factory of http_proxy_to_wsgi; none while [oslo_middleware] enable_proxy_headers_parsing is off."""
    conf = loading.current(global_conf).conf

    def make(app: Application) -> Application:
        if written(conf, "oslo_middleware", "enable_proxy_headers_parsing").lower() not in ("1", "true", "yes", "on"):
            return app
        from oslo_middleware import http_proxy_to_wsgi

        return http_proxy_to_wsgi.HTTPProxyToWSGI(app, conf)
    return make


def embedded_pipeline_factory(loader: Any, global_conf: dict[str, str], pipeline: str = "",
                              **_local: str) -> Application | None:
    """Paste composite factory of an embedded neighbour behind its filters; None where the real one is used."""
    *filters, name = pipeline.split()
    app = loader.get_app(name, global_conf=global_conf)
    return _behind(loader, global_conf, filters, app) if app is not None else None


def pipeline_factory(loader: Any, global_conf: dict[str, str], **local_conf: str) -> Application:
    """Paste composite factory: the section has one pipeline for each value of [api] auth_strategy."""
    strategy = loading.current(global_conf).conf.api.auth_strategy
    if strategy not in local_conf:
        raise exception.ConfigError(reason=f"api-paste.ini has no pipeline for [api] auth_strategy = {strategy}")
    *filters, name = local_conf[strategy].split()
    return _behind(loader, global_conf, filters, loader.get_app(name, global_conf=global_conf))


def _behind(loader: Any, global_conf: dict[str, str], filters: list[str], app: Application) -> Application:
    for filter_name in reversed(filters):
        app = loader.get_filter(filter_name, global_conf=global_conf)(app)
    return app
