"""Schemas of security groups."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_RULE = shapes.closed({
    "id": shapes.STRING, "parent_group_id": shapes.STRING, "ip_protocol": shapes.MAYBE_STRING,
    "from_port": shapes.MAYBE_INTEGER, "to_port": shapes.MAYBE_INTEGER,
    "group": {"anyOf": [shapes.closed({"name": shapes.STRING, "tenant_id": shapes.STRING}), shapes.closed({})]},
    "ip_range": {"anyOf": [shapes.closed({"cidr": shapes.STRING}), shapes.closed({})]}})
GROUP = shapes.closed({
    "id": shapes.STRING, "name": shapes.STRING, "description": shapes.STRING, "tenant_id": shapes.STRING,
    "rules": {"type": "array", "items": _RULE}})
LIST = shapes.listing("security_groups", GROUP)
LIST_QUERY = shapes.query({"limit": shapes.PAGE["limit"], "offset": shapes.PAGE["limit"], "all_tenants": shapes.ANY_PARAM})
SHOW, RULE = shapes.wrapped("security_group", GROUP), shapes.wrapped("security_group_rule", _RULE)
_TEXT = {"type": "string", "maxLength": 255}
# more may stand in these bodies, and is ignored
CREATE: shapes.Json = {"type": "object", "required": ["security_group"], "properties": {"security_group": {
    "type": "object", "required": ["name", "description"], "properties": {"name": _TEXT, "description": _TEXT}}}}
CREATE_RULE: shapes.Json = {"type": "object", "required": ["security_group_rule"], "properties": {"security_group_rule": {
    "type": "object", "required": ["parent_group_id"], "properties": {
        "parent_group_id": parameters.UUID, "group_id": {**parameters.UUID, "type": ["string", "null"]}}}}}
NOTHING = shapes.NO_BODY
_NAMED = shapes.closed({"name": {"type": "string", "minLength": 1, "pattern": r"\S"}})
ADD, REMOVE = shapes.wrapped("addSecurityGroup", _NAMED), shapes.wrapped("removeSecurityGroup", _NAMED)
