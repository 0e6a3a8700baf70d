"""Policies: shares of servers (2.97)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-server-shares:index", "List the shares of a server.", "GET /servers/{server_id}/shares"),
    reader("os_compute_api:os-server-shares:show",
           "Show a share of a server.",
           "GET /servers/{server_id}/shares/{share_id}"),
    member("os_compute_api:os-server-shares:create", "Attach a share to a server.", "POST /servers/{server_id}/shares"),
    member("os_compute_api:os-server-shares:delete",
           "Detach a share from a server.",
           "DELETE /servers/{server_id}/shares/{share_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
