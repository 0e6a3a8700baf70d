"""Policies: bare metal nodes (up to 2.35)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-baremetal-nodes:list", "List bare metal nodes.", "GET /os-baremetal-nodes"),
    admin("os_compute_api:os-baremetal-nodes:show", "Show a bare metal node.", "GET /os-baremetal-nodes/{node_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
