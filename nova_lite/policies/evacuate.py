"""Policies: evacuation."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-evacuate",
          "Rebuild a server of a failed host elsewhere.",
          "POST /servers/{server_id}/action (evacuate)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
