"""/os-quota-class-sets: the limits of all projects that have none of their own (class "default")."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import quota_class_sets as schema
from nova_lite.api.openstack.routes import Route, at_version
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import quotas
from nova_lite.policies.base import admin

_RULE = "os_compute_api:os-quota-class-sets"
MAX_NAME = 200


def show(req: Request, class_name: str) -> dict[str, Any]:
    """The limits of a class."""
    return {"quota_class_set": {"id": class_name, **_limits(req, class_name)}}


def update(req: Request, class_name: str) -> dict[str, Any]:
    """Set limits of a class; those of networks are kept and shown, and limit nothing, as in Nova."""
    if len(class_name) > MAX_NAME:
        raise exception.InvalidInput(reason=f"the name of a quota class has at most {MAX_NAME} characters")
    wanted = {name: int(value) for name, value in req.json_in["quota_class_set"].items()}
    req.services.db.write(quotas.set_class_limits, class_name, wanted)
    return {"quota_class_set": _limits(req, class_name)}


def _limits(req: Request, class_name: str) -> Mapping[str, int]:
    with req.services.db.read() as conn:
        limits = quotas.defaults(conn, req.services.conf, class_name)
    return {name: limits.get(name, -1) for name in at_version(schema.RESOURCES, req.version) or ()}


ROUTES = [
    Route("GET", "/os-quota-class-sets/{class_name}", show, admin(f"{_RULE}:show", "Show the quotas of a class."),
          response=schema.CLASS_SET),
    Route("PUT", "/os-quota-class-sets/{class_name}", update, admin(f"{_RULE}:update", "Change the quotas of a class."),
          body=schema.UPDATE, response=schema.UPDATED),
]
