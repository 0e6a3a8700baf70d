"""Identity v3, as much as the stock clients need: versions, tokens with a catalog, and the caller's own project and user."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import webob
from oslo_config import cfg

from nova_lite import exception
from nova_lite.embedded.api.wsgi import Application, Request, Route, json_response
from nova_lite.embedded.identity.base import Token
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.units import isotime

REGION = "RegionOne"
DOMAIN = {"id": "default", "name": "Default"}
SERVICES = (("compute", "nova", "/v2.1"), ("identity", "keystone", "/identity/v3"), ("image", "glance", "/image"),
            ("network", "neutron", "/network"), ("block-storage", "cinder", "/volume/v3"),
            ("volumev3", "cinderv3", "/volume/v3"))


def network_is_offered(conf: cfg.ConfigOpts) -> bool:
    """Whether the Compute API can use the networks and ports of the embedded Network API."""
    return conf.network.driver not in ("null", "neutron")


def factory(conf: cfg.ConfigOpts) -> Application:
    """The WSGI application, mounted at /identity."""
    identity = LocalIdentity(f"{conf.state_path}/identity")
    left_out = () if network_is_offered(conf) else ("network",)
    api = IdentityAPI(identity, [service for service in SERVICES if service[0] not in left_out])
    return Application(identity, [
        Route("GET", "/", api.versions, public=True),
        Route("GET", "/v3", api.version, public=True),
        Route("POST", "/v3/auth/tokens", api.create_token, public=True),
        Route("GET", "/v3/auth/tokens", api.show_token),
        Route("GET", "/v3/auth/projects", api.projects),
        Route("GET", "/v3/projects", api.projects),
        Route("GET", "/v3/projects/{project_id}", api.project),
        Route("GET", "/v3/users", api.users),
        Route("GET", "/v3/users/{user_id}", api.user),
    ])


class IdentityAPI:
    """Handlers over a :class:`LocalIdentity`."""

    def __init__(self, identity: LocalIdentity, services: Sequence[tuple[str, str, str]]) -> None:
        self.identity, self._services = identity, services

    def versions(self, req: Request) -> webob.Response:
        """GET /identity"""
        return json_response({"versions": {"values": [self._version(req)]}}, 300)

    def version(self, req: Request) -> dict[str, Any]:
        """GET /identity/v3"""
        return {"version": self._version(req)}

    def _version(self, req: Request) -> dict[str, Any]:
        return {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "media-types": [],
                "links": [{"rel": "self", "href": _root(req) + "/identity/v3/"}]}

    def create_token(self, req: Request) -> webob.Response:
        """POST /identity/v3/auth/tokens by password or token, scoped to a project (the user's only one when none is named)."""
        auth = req.json_object().get("auth")
        try:
            methods = auth["identity"]["methods"]  # type: ignore[index]
            scope = (auth.get("scope") or {}).get("project") or {}  # type: ignore[union-attr]
            project = scope.get("id") or scope.get("name")
            if "password" in methods:
                user = auth["identity"]["password"]["user"]  # type: ignore[index]
                text, token = self.identity.authenticate(user.get("id") or user["name"], user["password"], project,
                                                         req.remote_addr or "")
            elif "token" in methods:
                text, token = self.identity.rescope(auth["identity"]["token"]["id"], project)  # type: ignore[index]
            else:
                raise exception.Unauthorized()
        except (KeyError, TypeError, AttributeError, UnicodeError):
            raise exception.MalformedRequestBody() from None
        return json_response({"token": self._token(req, token)}, 201, {"X-Subject-Token": text})

    def show_token(self, req: Request) -> webob.Response:
        """GET /identity/v3/auth/tokens"""
        subject = req.headers.get("X-Subject-Token", "")
        return json_response({"token": self._token(req, self.identity.validate(subject))}, 200, {"X-Subject-Token": subject})

    def _token(self, req: Request, token: Token) -> dict[str, Any]:
        catalog = [{"id": name, "type": kind, "name": name,
                    "endpoints": [{"id": f"{name}-{interface}", "interface": interface, "region": REGION, "region_id": REGION,
                                   "url": _root(req) + path} for interface in ("public", "internal", "admin")]}
                   for kind, name, path in self._services]
        return {"methods": ["password"], "audit_ids": [], "is_domain": False, "catalog": catalog,
                "user": {"id": token.user_id, "name": token.user_name, "domain": DOMAIN, "password_expires_at": None},
                "project": {"id": token.project_id, "name": token.project_name, "domain": DOMAIN},
                "roles": [{"id": role, "name": role} for role in token.roles],
                "issued_at": isotime(token.issued_at), "expires_at": isotime(token.expires_at)}

    def projects(self, req: Request) -> dict[str, Any]:
        """GET /identity/v3/projects: those of the caller, all for an admin."""
        records = self.identity.records()
        names = records["projects"] if req.is_admin else records["users"][req.token.user_name]["projects"]
        wanted = req.GET.get("name")
        return {"projects": [_named(records["projects"][n], n) for n in names if wanted in (None, n)], "links": {}}

    def project(self, req: Request, project_id: str) -> dict[str, Any]:
        """GET /identity/v3/projects/{id}"""
        for project in self.projects(req)["projects"]:
            if project["id"] == project_id:
                return {"project": project}
        raise exception.NotFound(f"Could not find project: {project_id}.")

    def users(self, req: Request) -> dict[str, Any]:
        """GET /identity/v3/users: the caller, all for an admin."""
        known = self.identity.records()["users"]
        names = known if req.is_admin else [req.token.user_name]
        wanted = req.GET.get("name")
        return {"users": [_named(known[n]["id"], n) for n in names if wanted in (None, n)], "links": {}}

    def user(self, req: Request, user_id: str) -> dict[str, Any]:
        """GET /identity/v3/users/{id}"""
        for user in self.users(req)["users"]:
            if user["id"] == user_id:
                return {"user": user}
        raise exception.NotFound(f"Could not find user: {user_id}.")


def _named(identifier: str, name: str) -> dict[str, Any]:
    return {"id": identifier, "name": name, "domain_id": DOMAIN["id"], "enabled": True, "links": {}}


def _root(req: Request) -> str:
    parts = urlsplit(req.host_url)
    return f"{parts.scheme}://{parts.netloc}"
