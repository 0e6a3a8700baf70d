"""Policies: console log."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-console-output",
           "Show the end of a server's console log.",
           "POST /servers/{server_id}/action (os-getConsoleOutput)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
