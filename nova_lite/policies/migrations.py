"""Policies: migrations."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, manager

RULES: list[policy.DocumentedRuleDefault] = [
    manager("os_compute_api:os-migrations:index",
            "List the migrations of a project, without hosts.",
            "GET /os-migrations"),
    admin("os_compute_api:os-migrations:index:all_projects",
          "List the migrations of all projects.",
          "GET /os-migrations"),
    admin("os_compute_api:os-migrations:index:host", "See the hosts of migrations.", "GET /os-migrations"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
