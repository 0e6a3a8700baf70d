"""Policies: extensions."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import anyone

RULES: list[policy.DocumentedRuleDefault] = [
    anyone("os_compute_api:extensions", "List or show extensions.", "GET /extensions", "GET /extensions/{alias}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
