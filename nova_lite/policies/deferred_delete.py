"""Policies: soft-deleted servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-deferred-delete:restore",
           "Restore a soft-deleted server.",
           "POST /servers/{server_id}/action (restore)"),
    member("os_compute_api:os-deferred-delete:force",
           "Delete a server at once.",
           "POST /servers/{server_id}/action (forceDelete)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
