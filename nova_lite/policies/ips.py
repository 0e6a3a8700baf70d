"""Policies: addresses of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:ips:show",
           "Show the addresses of a server in one network.",
           "GET /servers/{server_id}/ips/{network_label}"),
    reader("os_compute_api:ips:index", "List the addresses of a server.", "GET /servers/{server_id}/ips"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
