"""/os-quota-sets: the limits of projects and of users in them."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import quota_sets as schema
from nova_lite.api.openstack.routes import Route, at_version
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import quotas
from nova_lite.policies.base import admin, anyone, reader

_RULE = "os_compute_api:os-quota-sets"
_ONE = "/os-quota-sets/{project_id}"
MAX_ID = 255


def _project(_req: Request, project_id: str) -> dict[str, Any]:
    return {"project_id": project_id}


def show(req: Request, project_id: str) -> dict[str, Any]:
    """The limits of a project, or of ``user_id`` in it."""
    req.services.projects.check(req.context, project_id)
    with req.services.db.read() as conn:
        limits = quotas.limits_for(conn, req.services.conf, project_id, params.last(req, "user_id") or "")
    return {"quota_set": {"id": project_id, **_limits(req, limits)}}


def detail(req: Request, project_id: str) -> dict[str, Any]:
    """The same with what is in use."""
    req.services.projects.check(req.context, project_id)
    user = params.last(req, "user_id") or ""
    with req.services.db.read() as conn:
        limits = quotas.limits_for(conn, req.services.conf, project_id, user)
        used = quotas.usage(conn, project_id, user)
    return {"quota_set": {"id": project_id} | {
        name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in _limits(req, limits).items()}}


def defaults(req: Request, project_id: str) -> dict[str, Any]:
    """The limits of a project without limits of its own."""
    req.services.projects.check(req.context, project_id)
    with req.services.db.read() as conn:
        return {"quota_set": {"id": project_id, **_limits(req, quotas.defaults(conn, req.services.conf))}}


def update(req: Request, project_id: str) -> dict[str, Any]:
    """Set limits of a project, or of ``user_id`` in it. A limit below the usage needs ``force``."""
    req.services.projects.check(req.context, project_id)
    if len(project_id) > MAX_ID:
        raise exception.InvalidInput(reason=f"the id of a project has at most {MAX_ID} characters")
    body = req.json_in["quota_set"]
    # as Nova does: a request to change limits that are kept in Keystone is ignored
    there = req.services.conf.quota.driver == quotas.KEYSTONE
    known = at_version(schema.RESOURCES, req.version) or ()
    wanted = {name: int(value) for name, value in body.items() if name in known and not there}
    force = strutils.bool_from_string(body.get("force", False), strict=True)
    user = params.last(req, "user_id") or ""
    limits = req.services.db.write(_update, req, project_id, user, wanted, force)
    return {"quota_set": _limits(req, limits)}


def delete(req: Request, project_id: str) -> None:
    """Back to the defaults."""
    req.services.db.write(quotas.delete_limits, project_id, params.last(req, "user_id") or "")


def _update(conn: sa.Connection, req: Request, project_id: str, user_id: str, wanted: Mapping[str, int],
            force: bool) -> dict[str, int]:
    quotas.lock(conn, project_id)
    conf = req.services.conf
    used = {} if force else quotas.usage(conn, project_id, user_id)
    most = quotas.limits_for(conn, conf, project_id) if user_id and not force else {}
    for name, limit in wanted.items():
        if 0 <= limit < used.get(name, 0):
            raise exception.Invalid(f"Quota limit {limit} for {name} must be greater than or equal to already used and "
                                    f"reserved {used[name]}.")
        if most.get(name, -1) >= 0 and not 0 <= limit <= most[name]:
            raise exception.Invalid(f"Quota limit {limit} for {name} must be less than or equal to {most[name]}.")
    quotas.set_limits(conn, project_id, wanted, user_id)
    return quotas.limits_for(conn, conf, project_id, user_id)


def _limits(req: Request, limits: Mapping[str, int]) -> dict[str, int]:
    """The limits that have a name at the request's microversion. Those of networks limit nothing, and are kept as in Nova."""
    return {name: limits.get(name, -1) for name in at_version(schema.RESOURCES, req.version) or ()}


ROUTES = [
    Route("GET", _ONE, show, reader(f"{_RULE}:show", "Show the quotas of a project."), target=_project, query=schema.QUERY,
          response=schema.QUOTA_SET),
    Route("GET", f"{_ONE}/detail", detail, reader(f"{_RULE}:detail", "Show the quotas of a project with their use."),
          target=_project, query=schema.QUERY, response=schema.DETAIL),
    Route("GET", f"{_ONE}/defaults", defaults, anyone(f"{_RULE}:defaults", "List the default quotas."), target=_project,
          response=schema.QUOTA_SET),
    Route("PUT", _ONE, update, admin(f"{_RULE}:update", "Change the quotas of a project or user."), target=_project,
          body=schema.UPDATE, query=schema.QUERY, response=schema.UPDATED),
    Route("DELETE", _ONE, delete, admin(f"{_RULE}:delete", "Give a project the default quotas again."), target=_project,
          query=schema.QUERY, status=202),
]
