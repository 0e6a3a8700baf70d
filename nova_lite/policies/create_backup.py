"""Policies: backups of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-create-backup",
           "Create a backup of a server.",
           "POST /servers/{server_id}/action (createBackup)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
