"""/servers/{server_id}/os-interface: the nics of a server."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas.servers import DEVICE_TAG
from nova_lite.api.compute.schemas.shapes import MAYBE_STRING, STRING, closed, listing, wrapped
from nova_lite.api.compute.servers import ATTACH_EXTERNAL_NETWORK
from nova_lite.api.compute.views.attach_interfaces import attachment
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import NetworkRequest
from nova_lite.policies.base import member, reader

Json = dict[str, Any]

_ADDRESS: Json = {"type": "object", "required": ["ip_address"], "additionalProperties": False,
                  "properties": {"ip_address": p.IP_ADDRESS}}
_CREATE: Json = {"net_id": p.UUID, "port_id": p.UUID,
                 "fixed_ips": {"type": "array", "minItems": 1, "maxItems": 1, "items": _ADDRESS}}


def _body(properties: Json) -> Json:
    wanted = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "object", "properties": {"interfaceAttachment": wanted}, "additionalProperties": False}


CREATE: dict[str, Json] = {"2.1": _body(_CREATE), "2.49": _body({**_CREATE, "tag": DEVICE_TAG})}

_SHOWN: Json = {"fixed_ips": {"type": "array", "items": closed({"ip_address": STRING, "subnet_id": STRING})},
                "mac_addr": STRING, "net_id": STRING, "port_id": STRING, "port_state": STRING}
_VIEWS: dict[str, Json] = {"2.1": _SHOWN, "2.70": {**_SHOWN, "tag": MAYBE_STRING}}
SHOWN: dict[str, Json] = {v: wrapped("interfaceAttachment", closed(view)) for v, view in _VIEWS.items()}
LISTED: dict[str, Json] = {v: listing("interfaceAttachments", closed(view)) for v, view in _VIEWS.items()}

RULE = "os_compute_api:os-attach-interfaces:"
PATH = "/servers/{server_id}/os-interface"


def index(req: Request, instance: Instance) -> dict[str, Any]:
    """All nics."""
    found = req.services.compute.list_interfaces(req.context, instance)
    return {"interfaceAttachments": [attachment(req, vif, state) for vif, state in found]}


def show(req: Request, instance: Instance, port_id: str) -> dict[str, Any]:
    """One nic."""
    return {"interfaceAttachment": attachment(req, *req.services.compute.get_interface(req.context, instance, port_id))}


def create(req: Request, instance: Instance) -> dict[str, Any]:
    """Attach a nic; the answer comes when the guest has it. Without network and port: a nic on the project's only network."""
    wanted = req.json_in.get("interfaceAttachment", {})
    network_id, port_id = wanted.get("net_id"), wanted.get("port_id")
    address = wanted["fixed_ips"][0]["ip_address"] if "fixed_ips" in wanted else None
    if network_id and port_id:
        raise exception.Invalid("Must not input both network_id and port_id")
    if address and not network_id:
        raise exception.Invalid("Must input network_id when request IP address")
    request = NetworkRequest(network_id, port_id, address, wanted.get("tag"))
    external = bool(req.can(ATTACH_EXTERNAL_NETWORK, fatal=False))
    vif, state = req.services.compute.attach_interface(req.context, instance, request, external)
    return {"interfaceAttachment": attachment(req, vif, state)}


def delete(req: Request, instance: Instance, port_id: str) -> None:
    """Detach a nic; it is done after the answer."""
    req.services.compute.detach_interface(req.context, instance, port_id)


ROUTES = [
    Route("GET", PATH, index, reader(f"{RULE}list", "List the interfaces of a server."), response=LISTED),
    Route("POST", PATH, create, member(f"{RULE}create", "Attach an interface to a server."), body=CREATE,
          response=SHOWN),
    Route("GET", PATH + "/{port_id}", show, reader(f"{RULE}show", "Show an interface of a server."), response=SHOWN),
    Route("DELETE", PATH + "/{port_id}", delete, member(f"{RULE}delete", "Detach an interface from a server."), status=202),
]
