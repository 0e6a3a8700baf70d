"""Policies: events from other services."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import service

RULES: list[policy.DocumentedRuleDefault] = [
    service("os_compute_api:os-server-external-events:create",
            "Report events about servers.",
            "POST /os-server-external-events"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
