"""Policies: networks (up to 2.35)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-networks:list", "List networks.", "GET /os-networks"),
    reader("os_compute_api:os-networks:show", "Show a network.", "GET /os-networks/{network_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
