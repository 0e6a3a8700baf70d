"""Policies: paused servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-pause-server:pause", "Pause a server.", "POST /servers/{server_id}/action (pause)"),
    member("os_compute_api:os-pause-server:unpause", "Unpause a server.", "POST /servers/{server_id}/action (unpause)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
