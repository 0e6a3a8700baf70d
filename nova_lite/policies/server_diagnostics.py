"""Policies: diagnostics of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-server-diagnostics",
          "Show the diagnostics of a server.",
          "GET /servers/{server_id}/diagnostics"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
