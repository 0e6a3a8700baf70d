"""The view of security groups."""
from __future__ import annotations

from typing import Any

from nova_lite.objects.network import SecurityGroup, SecurityGroupRule


def full(group: SecurityGroup) -> dict[str, Any]:
    """A group with its rules for incoming traffic."""
    return {"id": group.id, "name": group.name, "description": group.description, "tenant_id": group.project_id,
            "rules": [rule(one) for one in group.rules]}


def rule(one: SecurityGroupRule) -> dict[str, Any]:
    """A rule lets in a range of addresses or the members of a group."""
    return {"id": one.id, "parent_group_id": one.group_id, "ip_protocol": one.protocol, "from_port": one.from_port,
            "to_port": one.to_port, "group": one.remote_group or {}, "ip_range": {} if one.remote_group else {"cidr": one.cidr}}
