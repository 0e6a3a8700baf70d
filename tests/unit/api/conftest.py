"""The API's framework around a resource of the tests' own, asked by WSGI as a third party's would be."""
from __future__ import annotations

import json
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
import webob

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.api import wsgi
from nova_lite.api.openstack import pagination, parameters, rules
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.validation import multi, single
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policy import Policy

THING = {"type": "object", "required": ["thing"], "additionalProperties": False, "properties": {
    "thing": {"type": "object", "required": ["name"], "additionalProperties": False, "properties": {
        "name": parameters.NAME, "size": parameters.POSITIVE_INTEGER, "id": parameters.UUID,
        "data": {"type": "string", "format": "base64"}, "address": {"type": "string", "format": "ipv4"},
        "count": {"type": "integer"}, "notes": {"type": "object"}}}}}
THING_219 = {**THING, "properties": {"thing": {**THING["properties"]["thing"], "properties": {
    **THING["properties"]["thing"]["properties"], "description": parameters.DESCRIPTION}}}}
QUERY = {"type": "object", "properties": {"limit": single(parameters.QUERY_LIMIT), "marker": single(parameters.STRING),
                                          "sort_key": multi({"enum": ["name", "size"]})}}
NAMES = [f"t{number:02d}" for number in range(7)]


class Oops(Exception):
    """An error that nobody expected."""


def index(req: Request) -> dict[str, Any]:
    marker = pagination.marker(req)
    if marker is not None and marker not in NAMES:
        raise exception.MarkerNotFound(marker=marker)
    start = NAMES.index(marker) + 1 if marker is not None else 0
    names = NAMES[start:start + pagination.limit(req)]
    return {"things": names, "query": req.params_in, "seen": dict(req.GET.dict_of_lists()),
            **pagination.next_links(req, "things", names, "things")}


def show(req: Request, thing_id: str) -> dict[str, Any]:
    errors: dict[str, Exception] = {
        "bug": Oops("password=swordfish"), "conflict": exception.FlavorExists(name="x"),
        "hidden": exception.NovaLiteError("internals"), "safe": exception.NoValidHost(reason="12 hosts, RamFilter left 0"),
        "unsupported": exception.NotImplementedByDriver(what="pause"), "slow": webob.exc.HTTPTooManyRequests("slower"),
        "gone": webob.exc.HTTPGone("long gone"),
        "no database": sa.exc.OperationalError("SELECT password", {}, Exception("lost"), connection_invalidated=True),
        "large": exception.RequestTooLarge(limit=7)}
    if thing_id in errors:
        raise errors[thing_id]
    return {"id": thing_id, "self": req.link("self", "things", thing_id), "bookmark": req.link("bookmark", "things", thing_id),
            "version": req.version, "since": req.since("2.9"), "user": req.context.user_id, "project": req.context.project_id,
            "request_id": req.context.request_id, "global_request_id": req.context.global_request_id,
            "roles": sorted(req.context.roles), "service_roles": req.context.service_roles, "is_admin": req.context.is_admin}


def create(req: Request) -> dict[str, Any]:
    return req.json_in


def old_only(_req: Request, thing_id: str) -> dict[str, Any]:
    return {"old": thing_id}


def new_only(_req: Request, thing_id: str) -> dict[str, Any]:
    return {"new": thing_id}


def grow(req: Request, thing_id: str) -> None:
    assert req.json_in == {"grow": req.argument}


def shrink(_req: Request, thing_id: str) -> webob.Response:
    return webob.Response(status=202, headers={"Location": f"http://elsewhere/{thing_id}"})


def wrong(_req: Request) -> dict[str, Any]:
    return {"count": "three"}


ROUTES = [
    Route("GET", "/things", index, "os_compute_api:servers:index", query={
        "2.1": QUERY, "2.75": {**QUERY, "additionalProperties": False}}),
    Route("POST", "/things", create, "os_compute_api:servers:create", body={"2.1": THING, "2.19": THING_219},
          status={"2.1": 200, "2.2": 201}),
    Route("GET", "/things/{thing_id}", show, "os_compute_api:servers:show"),
    Route("DELETE", "/things/{thing_id}", lambda req, thing_id: None, "os_compute_api:os-services:delete", status=204),
    Route("GET", "/things/wrong", wrong, None, response={"type": "object", "properties": {"count": {"type": "integer"}}}),
    Route("GET", "/things/{thing_id}/part", old_only, None, last="2.35"),
    Route("GET", "/things/{thing_id}/part", new_only, None, first="2.40"),
    Route("POST", "/things/{thing_id}/action", grow, None, action="grow", status=202,
          body={"type": "object", "properties": {"grow": {"type": "object", "required": ["by"]}}}),
    Route("POST", "/things/{thing_id}/action", shrink, None, action="shrink", first="2.17"),
    Route("GET", "/plain", lambda req: {"query": req.params_in}, None),
]


def module(name: str, routes: Sequence[Route]) -> types.ModuleType:
    """A resource module, as a third party's entry point would name it."""
    made = types.ModuleType(name)
    made.ROUTES = list(routes)  # type: ignore[attr-defined]
    return made


@dataclass
class Services:
    """What the resource of the tests needs of nova_lite.api.app.Services."""

    conf: Any
    policy: Policy


@dataclass
class Client:
    """Asks the loaded paste application."""

    app: Any

    def __call__(self, path: str, method: str = "GET", body: Any = None, token: str | None = "joe:demo",  # noqa: S107
                 version: str | None = None, **headers: str) -> webob.Response:
        request = webob.Request.blank(path, method=method, base_url="http://cloud:8774")
        if token is not None:
            request.headers["X-Auth-Token"] = token
        if version is not None:
            request.headers["OpenStack-API-Version"] = f"compute {version}"
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.content_type = "application/json"
        for name, value in headers.items():
            request.headers[name.replace("_", "-")] = value
        return request.get_response(self.app)


def fault(response: webob.Response, name: str, code: int) -> str:
    """The message of a fault; asserts its form, its name and its code."""
    assert response.status_code == code, response.text
    assert response.content_type == "application/json"
    assert list(response.json) == [name]
    assert response.json[name]["code"] == code
    return response.json[name]["message"]


Make = Callable[..., Client]


@pytest.fixture
def make() -> Make:
    """Load the paste application with other options or routes."""
    def load(routes: Sequence[Route] = ROUTES, validate_responses: bool = False, **options: Any) -> Client:
        conf = nova_conf.load([], config_files=[], **{"api__auth_strategy": "noauth2", **options})
        return Client(wsgi.loadapp(conf, "compute", Services(conf, Policy(conf, rules.installed())),  # type: ignore[arg-type]
                                   [module("third_party", routes)], validate_responses))
    return load


@pytest.fixture
def api(make: Make) -> Client:
    """The application with the resource of the tests."""
    return make()
