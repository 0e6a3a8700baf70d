"""Policies: rescued servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-rescue", "Rescue a server.", "POST /servers/{server_id}/action (rescue)"),
    member("os_compute_api:os-unrescue", "End the rescue of a server.", "POST /servers/{server_id}/action (unrescue)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
