"""The security groups of a server: which its nics are in, and the actions that change it."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import security_groups as schema
from nova_lite.api.compute.views import security_groups as view
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member, reader

_RULE = "os_compute_api:os-security-groups"
_ACTION = "/servers/{server_id}/action"


def index_of_server(req: Request, instance: Instance) -> dict[str, Any]:
    """The groups of all nics of a server."""
    groups = req.services.network.groups.of_server(req.context, instance)
    return {"security_groups": [view.full(group) for group in sorted(groups, key=lambda one: (one.project_id, one.name))]}


def add(req: Request, instance: Instance) -> None:
    """Put all nics of a server into a group."""
    req.services.compute.add_security_group(req.context, instance, req.argument["name"])


def remove(req: Request, instance: Instance) -> None:
    """Take all nics of a server out of a group."""
    req.services.compute.remove_security_group(req.context, instance, req.argument["name"])


ROUTES = [
    Route("GET", "/servers/{server_id}/os-security-groups", index_of_server,
          reader(f"{_RULE}:list", "List the security groups of a server."), response=schema.LIST),
    Route("POST", _ACTION, add, member(f"{_RULE}:add", "Give a security group to a server."), action="addSecurityGroup",
          body=schema.ADD, response=schema.NOTHING, status=202),
    Route("POST", _ACTION, remove, member(f"{_RULE}:remove", "Take a security group from a server."),
          action="removeSecurityGroup", body=schema.REMOVE, response=schema.NOTHING, status=202),
]
