"""Policies: remote consoles."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-remote-consoles",
           "Open a console of a server.",
           "POST /servers/{server_id}/remote-consoles", "POST /servers/{server_id}/action (os-getVNCConsole)",
           "POST /servers/{server_id}/action (os-getSPICEConsole)",
           "POST /servers/{server_id}/action (os-getSerialConsole)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
