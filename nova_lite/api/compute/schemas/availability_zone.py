"""Schemas of /os-availability-zone."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_STATE = {"zoneName": shapes.STRING, "zoneState": shapes.closed({"available": shapes.BOOLEAN})}
_SERVICE = shapes.closed({"available": shapes.BOOLEAN, "active": shapes.BOOLEAN, "updated_at": shapes.MAYBE_TIME})
_HOSTS = {"type": ["object", "null"], "additionalProperties": {"type": "object", "additionalProperties": _SERVICE}}
LIST = shapes.listing("availabilityZoneInfo", shapes.closed({**_STATE, "hosts": {"type": "null"}}))
DETAIL = shapes.listing("availabilityZoneInfo", shapes.closed({**_STATE, "hosts": _HOSTS}))
