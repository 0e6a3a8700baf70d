"""Policies: availability zones."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, anyone

RULES: list[policy.DocumentedRuleDefault] = [
    anyone("os_compute_api:os-availability-zone:list", "List availability zones.", "GET /os-availability-zone"),
    admin("os_compute_api:os-availability-zone:detail",
          "List availability zones with their hosts.",
          "GET /os-availability-zone/detail"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
