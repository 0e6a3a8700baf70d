"""Policies: administrator's actions on servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-admin-actions:reset_state",
          "Set the state of a server to active or error.",
          "POST /servers/{server_id}/action (os-resetState)"),
    admin("os_compute_api:os-admin-actions:inject_network_info",
          "Inject network information into a server.",
          "POST /servers/{server_id}/action (injectNetworkInfo)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
