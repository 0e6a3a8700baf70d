"""Policies: live migrations of one server."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, manager

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:servers:migrations:show",
          "Show a live migration of a server.",
          "GET /servers/{server_id}/migrations/{migration_id}"),
    manager("os_compute_api:servers:migrations:force_complete",
            "Force a live migration to complete.",
            "POST /servers/{server_id}/migrations/{migration_id}/action (force_complete)"),
    manager("os_compute_api:servers:migrations:delete",
            "Abort a live migration.",
            "DELETE /servers/{server_id}/migrations/{migration_id}"),
    manager("os_compute_api:servers:migrations:index",
            "List the live migrations of a server, without hosts.",
            "GET /servers/{server_id}/migrations"),
    admin("os_compute_api:servers:migrations:index:host",
          "See the hosts of a server's live migrations.",
          "GET /servers/{server_id}/migrations"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
