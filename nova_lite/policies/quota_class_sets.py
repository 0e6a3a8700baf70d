"""Policies: quota classes."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-quota-class-sets:show",
          "Show the quotas of a class.",
          "GET /os-quota-class-sets/{quota_class}"),
    admin("os_compute_api:os-quota-class-sets:update",
          "Change the quotas of a class.",
          "PUT /os-quota-class-sets/{quota_class}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
