"""Policies: suspended servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-suspend-server:resume", "Resume a server.", "POST /servers/{server_id}/action (resume)"),
    member("os_compute_api:os-suspend-server:suspend",
           "Suspend a server.",
           "POST /servers/{server_id}/action (suspend)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
