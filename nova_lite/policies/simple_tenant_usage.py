"""Policies: usage of projects."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-simple-tenant-usage:show",
           "Show the usage of a project.",
           "GET /os-simple-tenant-usage/{tenant_id}"),
    admin("os_compute_api:os-simple-tenant-usage:list",
          "List the usage of all projects.",
          "GET /os-simple-tenant-usage"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
