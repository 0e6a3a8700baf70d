"""Policies: the encrypted password that a server published."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-server-password:show",
           "Show the encrypted password of a server.",
           "GET /servers/{server_id}/os-server-password"),
    member("os_compute_api:os-server-password:clear",
           "Forget the encrypted password of a server.",
           "DELETE /servers/{server_id}/os-server-password"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
