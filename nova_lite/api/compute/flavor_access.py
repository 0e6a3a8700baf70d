"""Who may use a private flavor: /flavors/{flavor_id}/os-flavor-access and two actions."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import flavors
from nova_lite.objects.flavor import Flavor
from nova_lite.policies.base import admin

_PROJECT = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^\S(.*\S)?$"}
ADD = shapes.wrapped("addTenantAccess", shapes.closed({"tenant": _PROJECT}))
REMOVE = shapes.wrapped("removeTenantAccess", shapes.closed({"tenant": _PROJECT}))
ACCESS = shapes.listing("flavor_access", shapes.closed({"flavor_id": shapes.STRING, "tenant_id": shapes.STRING}))


def index(req: Request, flavor_id: str) -> dict[str, Any]:
    """The projects that may use the flavor; a public one has no such list."""
    with req.services.db.read() as conn:
        flavor = flavors.get(conn, flavor_id)
        if flavor.is_public:
            raise exception.NotFound("Access list not available for public flavors.")
        return _view(conn, flavor)


def add(req: Request, flavor_id: str) -> dict[str, Any]:
    """Give a project access."""
    req.services.projects.check(req.context, req.argument["tenant"])
    return req.services.db.write(_add, flavor_id, req.argument["tenant"], req.since("2.7"))


def remove(req: Request, flavor_id: str) -> dict[str, Any]:
    """Take a project's access, also when there is no such project any more."""
    return req.services.db.write(_remove, flavor_id, req.argument["tenant"])


def _add(conn: sa.Connection, flavor_id: str, project_id: str, private_only: bool) -> dict[str, Any]:
    flavor = flavors.get(conn, flavor_id)
    if private_only and flavor.is_public:
        raise exception.Conflict("Can not add access to a public flavor.")
    flavors.add_project(conn, flavor, project_id)
    return _view(conn, flavor)


def _remove(conn: sa.Connection, flavor_id: str, project_id: str) -> dict[str, Any]:
    flavor = flavors.get(conn, flavor_id)
    flavors.remove_project(conn, flavor, project_id)
    return _view(conn, flavor)


def _view(conn: sa.Connection, flavor: Flavor) -> dict[str, Any]:
    return {"flavor_access": [{"flavor_id": flavor.flavorid, "tenant_id": project}
                              for project in flavors.projects(conn, flavor)]}


_RULE = "os_compute_api:os-flavor-access"
ROUTES = [
    Route("GET", "/flavors/{flavor_id}/os-flavor-access", index, admin(_RULE, "List the projects with access to a flavor."),
          response=ACCESS),
    Route("POST", "/flavors/{flavor_id}/action", add, admin(f"{_RULE}:add_tenant_access", "Give a project access to a flavor."),
          action="addTenantAccess", body=ADD, response=ACCESS),
    Route("POST", "/flavors/{flavor_id}/action", remove,
          admin(f"{_RULE}:remove_tenant_access", "Take a project's access to a flavor away."), action="removeTenantAccess",
          body=REMOVE, response=ACCESS),
]
