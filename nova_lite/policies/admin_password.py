"""Policies: the password of a server's administrator."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-admin-password",
           "Change the administrator's password of a server.",
           "POST /servers/{server_id}/action (changePassword)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
