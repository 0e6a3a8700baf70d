"""POST /servers/{server_id}/action: addFixedIp and removeFixedIp, until 2.43. Newer clients ask the network itself."""
from __future__ import annotations

from nova_lite.api.compute.schemas import multinic as schema
from nova_lite.api.compute.servers import find
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

LAST, PATH = "2.43", "/servers/{server_id}/action"
_RULE = "os_compute_api:os-multinic"


def add(req: Request, server_id: str) -> None:
    """One more address for the server's nic on a network."""
    instance = find(req, server_id, f"{_RULE}:add")
    req.services.compute.add_fixed_ip(req.context, instance, str(req.argument["networkId"]))


def remove(req: Request, server_id: str) -> None:
    """One address less."""
    instance = find(req, server_id, f"{_RULE}:remove")
    req.services.compute.remove_fixed_ip(req.context, instance, req.argument["address"])


ROUTES = [
    Route("POST", PATH, add, f"{_RULE}:add", action="addFixedIp", last=LAST, body=schema.ADD, response=schema.NOTHING,
          status=202),
    Route("POST", PATH, remove, f"{_RULE}:remove", action="removeFixedIp", last=LAST, body=schema.REMOVE,
          response=schema.NOTHING, status=202),
]
