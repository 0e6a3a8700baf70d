"""Policies: NUMA topology of servers (2.78)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("compute:server:topology:index", "Show the NUMA topology of a server.", "GET /servers/{server_id}/topology"),
    admin("compute:server:topology:host:index",
          "See the host's side of a server's NUMA topology.",
          "GET /servers/{server_id}/topology"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
