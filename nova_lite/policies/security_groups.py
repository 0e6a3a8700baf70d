"""Policies: security groups."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-security-groups:get", "List security groups (up to 2.35).", "GET /os-security-groups"),
    reader("os_compute_api:os-security-groups:show",
           "Show a security group (up to 2.35).",
           "GET /os-security-groups/{security_group_id}"),
    member("os_compute_api:os-security-groups:create",
           "Create a security group (up to 2.35).",
           "POST /os-security-groups"),
    member("os_compute_api:os-security-groups:update",
           "Change a security group (up to 2.35).",
           "PUT /os-security-groups/{security_group_id}"),
    member("os_compute_api:os-security-groups:delete",
           "Delete a security group (up to 2.35).",
           "DELETE /os-security-groups/{security_group_id}"),
    member("os_compute_api:os-security-groups:rule:create",
           "Create a rule of a security group (up to 2.35).",
           "POST /os-security-group-rules"),
    member("os_compute_api:os-security-groups:rule:delete",
           "Delete a rule of a security group (up to 2.35).",
           "DELETE /os-security-group-rules/{security_group_rule_id}"),
    reader("os_compute_api:os-security-groups:list",
           "List the security groups of a server.",
           "GET /servers/{server_id}/os-security-groups"),
    member("os_compute_api:os-security-groups:add",
           "Give a security group to a server.",
           "POST /servers/{server_id}/action (addSecurityGroup)"),
    member("os_compute_api:os-security-groups:remove",
           "Take a security group from a server.",
           "POST /servers/{server_id}/action (removeSecurityGroup)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
