"""Policies: limits."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, anyone

RULES: list[policy.DocumentedRuleDefault] = [
    anyone("os_compute_api:limits", "Show the limits of the caller's project.", "GET /limits"),
    admin("os_compute_api:limits:other_project", "Show the limits of another project.", "GET /limits"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
