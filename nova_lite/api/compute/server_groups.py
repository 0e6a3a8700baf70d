"""/os-server-groups: servers that are to share a host, or not to."""
from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import pagination, parameters
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import server_groups
from nova_lite.policies.base import admin, member, reader

_HARD = ["anti-affinity", "affinity"]
_ALL = [*_HARD, "soft-anti-affinity", "soft-affinity"]


def _policies(names: list[str]) -> shapes.Json:
    one = {"type": "array", "items": {"enum": names}, "minItems": 1, "maxItems": 1}
    return shapes.wrapped("server_group", shapes.closed({"name": parameters.NAME, "policies": one}))


_RULES_IN = shapes.closed({}, {"max_server_per_host": parameters.POSITIVE_INTEGER})
CREATE = {"2.1": _policies(_HARD), "2.15": _policies(_ALL), "2.64": shapes.wrapped("server_group", shapes.closed(
    {"name": parameters.NAME, "policy": {"enum": _ALL}}, {"rules": _RULES_IN}))}
_LIST_QUERY = {"all_projects": shapes.ANY_PARAM, "limit": shapes.PAGE["limit"], "offset": shapes.PAGE["limit"]}
LIST_QUERY = {"2.1": shapes.query(_LIST_QUERY), "2.75": shapes.query(_LIST_QUERY, strict=True)}

_GROUP = shapes.closed({
    "id": parameters.UUID, "name": shapes.STRING, "members": {"type": "array", "items": parameters.UUID},
    "policies": {"type": "array", "items": {"enum": _ALL}}, "metadata": {"type": "object", "maxProperties": 0}})
_GROUP_213 = shapes.plus(_GROUP, {"project_id": shapes.STRING, "user_id": shapes.STRING})
_GROUP_264 = shapes.plus(shapes.without(_GROUP_213, "policies", "metadata"), {
    "policy": {"enum": _ALL}, "rules": shapes.closed({}, {"max_server_per_host": shapes.INTEGER})})
_GROUPS = {"2.1": _GROUP, "2.13": _GROUP_213, "2.64": _GROUP_264}
GROUP = {version: shapes.wrapped("server_group", group) for version, group in _GROUPS.items()}
LIST = {version: shapes.listing("server_groups", group) for version, group in _GROUPS.items()}

_RULE = "os_compute_api:os-server-groups"
_ONE = "/os-server-groups/{group_id}"
_ALL_PROJECTS = admin(f"{_RULE}:index:all_projects", "List the server groups of all projects.", "GET /os-server-groups")
_SHOW = reader(f"{_RULE}:show", "Show a server group.", f"GET {_ONE}")
_DELETE = member(f"{_RULE}:delete", "Delete a server group.", f"DELETE {_ONE}")


def index(req: Request) -> dict[str, Any]:
    """The groups of the project, or with ``all_projects`` those of all."""
    everywhere = "all_projects" in req.params_in and req.can(_ALL_PROJECTS, fatal=False)
    project = None if everywhere else req.context.project_id
    offset = units.number(params.last(req, "offset") or "0")
    if offset is None:
        raise exception.InvalidInput(reason="offset is out of range")
    with req.services.db.read() as conn:
        # a limit of 0 is none here
        found = server_groups.list_page(conn, project, pagination.limit(req) or req.services.conf.api.max_limit, offset)
    return {"server_groups": [_view(req, group) for group in found]}


def show(req: Request, group_id: str) -> dict[str, Any]:
    """One group."""
    with req.services.db.read() as conn:
        group = server_groups.get(conn, group_id)
    req.can(_SHOW, {"project_id": group["project_id"]})
    return {"server_group": _view(req, group)}


def create(req: Request) -> dict[str, Any]:
    """A new group without members: servers join it when they are created."""
    body = req.json_in["server_group"]
    policy = body["policy"] if req.since("2.64") else body["policies"][0]
    rules = {name: int(value) for name, value in body.get("rules", {}).items()}
    if rules and policy != "anti-affinity":
        raise exception.Invalid("Only anti-affinity policy supports rules.")
    values = {"uuid": str(uuid.uuid4()), "name": body["name"], "policy": policy, "rules": rules,
              "project_id": req.context.project_id, "user_id": req.context.user_id}
    group = req.services.db.write(server_groups.create, req.services.conf, values)
    return {"server_group": _view(req, group)}


def delete(req: Request, group_id: str) -> None:
    """Forget a group."""
    req.services.db.write(_delete, req, group_id)


def _delete(conn: sa.Connection, req: Request, group_id: str) -> None:
    req.can(_DELETE, {"project_id": server_groups.get(conn, group_id)["project_id"]})
    server_groups.delete(conn, group_id)


def _view(req: Request, group: Mapping[str, Any]) -> dict[str, Any]:
    view = {"id": group["uuid"], "name": group["name"], "members": group["members"]}
    if req.since("2.64"):
        view |= {"policy": group["policy"], "rules": group["rules"]}
    else:
        view |= {"policies": [group["policy"]], "metadata": {}}
    if req.since("2.13"):
        view |= {"project_id": group["project_id"], "user_id": group["user_id"]}
    return view


ROUTES = [
    Route("GET", "/os-server-groups", index, reader(f"{_RULE}:index", "List server groups."), query=LIST_QUERY,
          response=LIST),
    Route("POST", "/os-server-groups", create, member(f"{_RULE}:create", "Create a server group."), body=CREATE,
          response=GROUP),
    Route("GET", _ONE, show, None, response=GROUP),
    Route("DELETE", _ONE, delete, None, status=204),
]
RULES = [_ALL_PROJECTS, _SHOW, _DELETE]
