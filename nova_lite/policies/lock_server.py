"""Policies: locked servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-lock-server:lock", "Lock a server.", "POST /servers/{server_id}/action (lock)"),
    member("os_compute_api:os-lock-server:unlock", "Unlock a server.", "POST /servers/{server_id}/action (unlock)"),
    admin("os_compute_api:os-lock-server:unlock:unlock_override",
          "Unlock a server that somebody else locked.",
          "POST /servers/{server_id}/action (unlock)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
