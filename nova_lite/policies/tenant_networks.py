"""Policies: networks of a project (up to 2.35)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-tenant-networks:list", "List the networks of a project.", "GET /os-tenant-networks"),
    reader("os_compute_api:os-tenant-networks:show",
           "Show a network of a project.",
           "GET /os-tenant-networks/{network_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
