"""Schemas of /servers/{server_id}/os-interface."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers import DEVICE_TAG
from nova_lite.api.compute.schemas.shapes import MAYBE_STRING, STRING, closed, listing, wrapped
from nova_lite.api.openstack import parameters as p

Json = dict[str, Any]

_ADDRESS: Json = {"type": "object", "required": ["ip_address"], "additionalProperties": False,
                  "properties": {"ip_address": p.IP_ADDRESS}}
_CREATE: Json = {"net_id": p.UUID, "port_id": p.UUID,
                 "fixed_ips": {"type": "array", "minItems": 1, "maxItems": 1, "items": _ADDRESS}}


def _body(properties: Json) -> Json:
    attachment = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "object", "properties": {"interfaceAttachment": attachment}, "additionalProperties": False}


CREATE: dict[str, Json] = {"2.1": _body(_CREATE), "2.49": _body({**_CREATE, "tag": DEVICE_TAG})}

_SHOWN: Json = {"fixed_ips": {"type": "array", "items": closed({"ip_address": STRING, "subnet_id": STRING})},
                "mac_addr": STRING, "net_id": STRING, "port_id": STRING, "port_state": STRING}
_VIEWS: dict[str, Json] = {"2.1": _SHOWN, "2.70": {**_SHOWN, "tag": MAYBE_STRING}}
SHOWN: dict[str, Json] = {v: wrapped("interfaceAttachment", closed(view)) for v, view in _VIEWS.items()}
LISTED: dict[str, Json] = {v: listing("interfaceAttachments", closed(view)) for v, view in _VIEWS.items()}
