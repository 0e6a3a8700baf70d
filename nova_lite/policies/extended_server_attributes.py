"""Policies: host and hypervisor attributes in the view of a server."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-extended-server-attributes",
          "See the OS-EXT-SRV-ATTR attributes of servers.",
          "GET /servers/{server_id}", "GET /servers/detail", "PUT /servers/{server_id}",
          "POST /servers/{server_id}/action (rebuild)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
