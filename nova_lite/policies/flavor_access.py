"""Policies: who may use a private flavor."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-flavor-access:add_tenant_access",
          "Give a project access to a flavor.",
          "POST /flavors/{flavor_id}/action (addTenantAccess)"),
    admin("os_compute_api:os-flavor-access:remove_tenant_access",
          "Take a project's access to a flavor away.",
          "POST /flavors/{flavor_id}/action (removeTenantAccess)"),
    admin("os_compute_api:os-flavor-access",
          "List the projects with access to a flavor.",
          "GET /flavors/{flavor_id}/os-flavor-access"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
