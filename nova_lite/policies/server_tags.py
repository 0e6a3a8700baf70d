"""Policies: tags of servers (2.26)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-server-tags:delete_all",
           "Delete the tags of a server.",
           "DELETE /servers/{server_id}/tags"),
    reader("os_compute_api:os-server-tags:index", "List the tags of a server.", "GET /servers/{server_id}/tags"),
    member("os_compute_api:os-server-tags:update_all",
           "Replace the tags of a server.",
           "PUT /servers/{server_id}/tags"),
    member("os_compute_api:os-server-tags:delete",
           "Delete a tag of a server.",
           "DELETE /servers/{server_id}/tags/{tag}"),
    member("os_compute_api:os-server-tags:update", "Add a tag to a server.", "PUT /servers/{server_id}/tags/{tag}"),
    reader("os_compute_api:os-server-tags:show",
           "Look whether a server has a tag.",
           "GET /servers/{server_id}/tags/{tag}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
