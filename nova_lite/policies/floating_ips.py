"""Policies: floating addresses (up to 2.35; actions up to 2.43)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-floating-ips:add",
           "Give a floating address to a server.",
           "POST /servers/{server_id}/action (addFloatingIp)"),
    member("os_compute_api:os-floating-ips:remove",
           "Take a floating address from a server.",
           "POST /servers/{server_id}/action (removeFloatingIp)"),
    reader("os_compute_api:os-floating-ips:list", "List floating addresses.", "GET /os-floating-ips"),
    member("os_compute_api:os-floating-ips:create", "Create a floating address.", "POST /os-floating-ips"),
    reader("os_compute_api:os-floating-ips:show", "Show a floating address.", "GET /os-floating-ips/{floating_ip_id}"),
    member("os_compute_api:os-floating-ips:delete",
           "Delete a floating address.",
           "DELETE /os-floating-ips/{floating_ip_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
