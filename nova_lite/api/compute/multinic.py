"""POST /servers/{server_id}/action: addFixedIp and removeFixedIp, until 2.43. Newer clients ask the network itself."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

_NETWORK: shapes.Json = {"type": ["string", "number"], "minLength": 1, "maxLength": 255}
ADD = shapes.wrapped("addFixedIp", shapes.closed({"networkId": _NETWORK}))
REMOVE = shapes.wrapped("removeFixedIp", shapes.closed({"address": parameters.IP_ADDRESS}))
NOTHING = shapes.NO_BODY

LAST, PATH = "2.43", "/servers/{server_id}/action"
_RULE = "os_compute_api:os-multinic"


def add(req: Request, instance: Instance) -> None:
    """One more address for the server's nic on a network."""
    req.services.compute.add_fixed_ip(req.context, instance, str(req.argument["networkId"]))


def remove(req: Request, instance: Instance) -> None:
    """One address less."""
    req.services.compute.remove_fixed_ip(req.context, instance, req.argument["address"])


ROUTES = [
    Route("POST", PATH, add, member(f"{_RULE}:add", "Add a fixed address to a server."), action="addFixedIp", last=LAST,
          body=ADD, response=NOTHING, status=202),
    Route("POST", PATH, remove, member(f"{_RULE}:remove", "Take a fixed address from a server."), action="removeFixedIp",
          last=LAST, body=REMOVE, response=NOTHING, status=202),
]
