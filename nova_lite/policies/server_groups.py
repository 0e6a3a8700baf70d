"""Policies: server groups."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-server-groups:create", "Create a server group.", "POST /os-server-groups"),
    member("os_compute_api:os-server-groups:delete",
           "Delete a server group.",
           "DELETE /os-server-groups/{server_group_id}"),
    reader("os_compute_api:os-server-groups:index", "List server groups.", "GET /os-server-groups"),
    admin("os_compute_api:os-server-groups:index:all_projects",
          "List the server groups of all projects.",
          "GET /os-server-groups"),
    reader("os_compute_api:os-server-groups:show", "Show a server group.", "GET /os-server-groups/{server_group_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
