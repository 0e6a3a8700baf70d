"""Schemas of security groups."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_RULE = shapes.closed({
    "id": shapes.STRING, "parent_group_id": shapes.STRING, "ip_protocol": shapes.MAYBE_STRING,
    "from_port": shapes.MAYBE_INTEGER, "to_port": shapes.MAYBE_INTEGER,
    "group": {"anyOf": [shapes.closed({"name": shapes.STRING, "tenant_id": shapes.STRING}), shapes.closed({})]},
    "ip_range": {"anyOf": [shapes.closed({"cidr": shapes.STRING}), shapes.closed({})]}})
GROUP = shapes.closed({
    "id": shapes.STRING, "name": shapes.STRING, "description": shapes.STRING, "tenant_id": shapes.STRING,
    "rules": {"type": "array", "items": _RULE}})
LIST = shapes.listing("security_groups", GROUP)
NOTHING = shapes.NO_BODY
_NAMED = shapes.closed({"name": {"type": "string", "minLength": 1, "pattern": r"\S"}})
ADD, REMOVE = shapes.wrapped("addSecurityGroup", _NAMED), shapes.wrapped("removeSecurityGroup", _NAMED)
