"""Policies: quotas."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, anyone, reader

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-quota-sets:update",
          "Change the quotas of a project or user.",
          "PUT /os-quota-sets/{tenant_id}"),
    anyone("os_compute_api:os-quota-sets:defaults",
           "List the default quotas.",
           "GET /os-quota-sets/{tenant_id}/defaults"),
    reader("os_compute_api:os-quota-sets:show", "Show the quotas of a project.", "GET /os-quota-sets/{tenant_id}"),
    admin("os_compute_api:os-quota-sets:delete",
          "Give a project the default quotas again.",
          "DELETE /os-quota-sets/{tenant_id}"),
    reader("os_compute_api:os-quota-sets:detail",
           "Show the quotas of a project with their use.",
           "GET /os-quota-sets/{tenant_id}/detail"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
