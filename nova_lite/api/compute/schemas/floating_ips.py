"""Schemas of floating IPs."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

POOLS = shapes.listing("floating_ip_pools", shapes.closed({"name": shapes.STRING}))
_ONE = shapes.closed({"id": shapes.STRING, "ip": shapes.STRING, "fixed_ip": shapes.MAYBE_STRING,
                      "instance_id": shapes.MAYBE_STRING, "pool": shapes.STRING})
LIST, SHOW = shapes.listing("floating_ips", _ONE), shapes.wrapped("floating_ip", _ONE)
NOTHING = shapes.NO_BODY
CREATE: shapes.Json = {"type": ["object", "null"], "properties": {"pool": shapes.MAYBE_STRING}}
_ADDRESS = parameters.IP_ADDRESS
ADD = shapes.wrapped("addFloatingIp", shapes.closed({"address": _ADDRESS}, {"fixed_address": _ADDRESS}))
REMOVE = shapes.wrapped("removeFloatingIp", shapes.closed({"address": _ADDRESS}))
