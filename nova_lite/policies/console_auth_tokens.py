"""Policies: tokens of consoles."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-console-auth-tokens",
          "Show the connection that a console token stands for.",
          "GET /os-console-auth-tokens/{console_token}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
