"""Schemas of the actions addFixedIp and removeFixedIp."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_NETWORK: shapes.Json = {"type": ["string", "number"], "minLength": 1, "maxLength": 255}
ADD = shapes.wrapped("addFixedIp", shapes.closed({"networkId": _NETWORK}))
REMOVE = shapes.wrapped("removeFixedIp", shapes.closed({"address": parameters.IP_ADDRESS}))
NOTHING = shapes.NO_BODY
