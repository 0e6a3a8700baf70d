"""Floating IPs for clients that know only this API: /os-floating-ips and -pools (until 2.35), actions of servers (2.43)."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters
from nova_lite.api.openstack.formats import is_uuid
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import FloatingIP
from nova_lite.policies.base import anyone, member, reader

POOLS = shapes.listing("floating_ip_pools", shapes.closed({"name": shapes.STRING}))
_FLOATING = shapes.closed({"id": shapes.STRING, "ip": shapes.STRING, "fixed_ip": shapes.MAYBE_STRING,
                           "instance_id": shapes.MAYBE_STRING, "pool": shapes.STRING})
LIST, SHOW = shapes.listing("floating_ips", _FLOATING), shapes.wrapped("floating_ip", _FLOATING)
NOTHING = shapes.NO_BODY
CREATE: shapes.Json = {"type": ["object", "null"], "properties": {"pool": shapes.MAYBE_STRING}}
_ADDRESS = parameters.IP_ADDRESS
ADD = shapes.wrapped("addFloatingIp", shapes.closed({"address": _ADDRESS}, {"fixed_address": _ADDRESS}))
REMOVE = shapes.wrapped("removeFloatingIp", shapes.closed({"address": _ADDRESS}))

LAST, LAST_ACTION = "2.35", "2.43"
_RULE = "os_compute_api:os-floating-ips"
_ACTION = "/servers/{server_id}/action"


def pools(req: Request) -> dict[str, Any]:
    """The networks that have floating IPs."""
    return {"floating_ip_pools": [{"name": name} for name in req.services.network.floating_ips.pools(req.context)]}


def index(req: Request) -> dict[str, Any]:
    """Those of the project."""
    return {"floating_ips": [_view(one) for one in req.services.network.floating_ips.list_all(req.context)]}


def show(req: Request, floating_id: str) -> dict[str, Any]:
    """One of them."""
    return {"floating_ip": _view(req.services.network.floating_ips.get(req.context, _id(floating_id)))}


def create(req: Request) -> dict[str, Any]:
    """A new one; a body may name its pool."""
    return {"floating_ip": _view(req.services.network.floating_ips.create(req.context, (req.json_in or {}).get("pool")))}


def delete(req: Request, floating_id: str) -> None:
    """Give one back."""
    found = req.services.network.floating_ips.get(req.context, _id(floating_id))
    if found.instance_id:
        instance = req.services.compute.get(req.context, found.instance_id)
        req.services.compute.disassociate_floating_ip(req.context, instance, found)
    req.services.network.floating_ips.delete(req.context, found.id)


def add(req: Request, instance: Instance) -> None:
    """Let one lead to a server."""
    req.services.compute.associate_floating_ip(req.context, instance, req.argument["address"],
                                               req.argument.get("fixed_address"))


def remove(req: Request, instance: Instance) -> None:
    """Let one lead to a server no more."""
    found = req.services.network.floating_ips.find(req.context, req.argument["address"])
    if found.instance_id != instance.uuid:
        raise exception.Conflict(f"Floating IP {found.address} is not associated with instance {instance.uuid}.")
    req.services.compute.disassociate_floating_ip(req.context, instance, found)


def _id(text: str) -> str:
    if not is_uuid(text):
        raise exception.Invalid(f"Invalid ID received {text[:100]}.")
    return text


def _view(found: FloatingIP) -> dict[str, Any]:
    return {"id": found.id, "ip": found.address, "fixed_ip": found.fixed_address, "instance_id": found.instance_id,
            "pool": found.pool}


_ALL, _ONE = "/os-floating-ips", "/os-floating-ips/{floating_id}"
ROUTES = [
    Route("GET", "/os-floating-ip-pools", pools,
          anyone("os_compute_api:os-floating-ip-pools", "List pools of floating addresses."), last=LAST, response=POOLS),
    Route("GET", _ALL, index, reader(f"{_RULE}:list", "List floating addresses."), last=LAST, response=LIST),
    Route("POST", _ALL, create, member(f"{_RULE}:create", "Create a floating address."), last=LAST, body=CREATE,
          response=SHOW),
    Route("GET", _ONE, show, reader(f"{_RULE}:show", "Show a floating address."), last=LAST, response=SHOW),
    Route("DELETE", _ONE, delete, member(f"{_RULE}:delete", "Delete a floating address."), last=LAST, response=NOTHING,
          status=202),
    Route("POST", _ACTION, add, member(f"{_RULE}:add", "Give a floating address to a server."), action="addFloatingIp",
          last=LAST_ACTION, body=ADD, response=NOTHING, status=202),
    Route("POST", _ACTION, remove, member(f"{_RULE}:remove", "Take a floating address from a server."),
          action="removeFloatingIp", last=LAST_ACTION, body=REMOVE, response=NOTHING, status=202),
]
