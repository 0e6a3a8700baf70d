"""Policies: usage audits."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-instance-usage-audit-log:list",
          "List the usage audits of the last period.",
          "GET /os-instance_usage_audit_log"),
    admin("os_compute_api:os-instance-usage-audit-log:show",
          "List the usage audits before a time.",
          "GET /os-instance_usage_audit_log/{before_timestamp}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
