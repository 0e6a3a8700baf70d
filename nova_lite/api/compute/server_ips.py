"""/servers/{server_id}/ips: the addresses of a server by network."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas import servers_response
from nova_lite.api.compute.views.servers import addresses
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import reader

Json = dict[str, Any]

LIST: Json = {"type": "object", "properties": {"addresses": servers_response.addresses(False)}, "required": ["addresses"],
              "additionalProperties": False}
SHOW: Json = {**servers_response.addresses(False), "minProperties": 1, "maxProperties": 1}

PATH = "/servers/{server_id}/ips"


def _addresses(instance: Instance) -> dict[str, list[dict[str, Any]]]:
    return addresses([vif.to_primitive() for vif in instance.network_info], extended=False)


def index(_req: Request, instance: Instance) -> dict[str, Any]:
    """All addresses."""
    return {"addresses": _addresses(instance)}


def show(_req: Request, instance: Instance, network: str) -> dict[str, Any]:
    """The addresses on one network."""
    found = _addresses(instance)
    if network not in found:
        raise exception.NotFound("Instance is not a member of specified network")
    return {network: found[network]}


ROUTES = [
    Route("GET", PATH, index, reader("os_compute_api:ips:index", "List the addresses of a server."), response=LIST),
    Route("GET", PATH + "/{network}", show, reader("os_compute_api:ips:show", "Show the addresses of a server in one network."),
          response=SHOW),
]
