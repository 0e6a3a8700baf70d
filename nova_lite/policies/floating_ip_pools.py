"""Policies: pools of floating addresses (up to 2.35)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import anyone

RULES: list[policy.DocumentedRuleDefault] = [
    anyone("os_compute_api:os-floating-ip-pools", "List pools of floating addresses.", "GET /os-floating-ip-pools"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
