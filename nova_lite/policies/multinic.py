"""Policies: fixed addresses of servers (up to 2.43)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-multinic:add",
           "Add a fixed address to a server.",
           "POST /servers/{server_id}/action (addFixedIp)"),
    member("os_compute_api:os-multinic:remove",
           "Take a fixed address from a server.",
           "POST /servers/{server_id}/action (removeFixedIp)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
