"""Policies: metadata of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:server-metadata:index",
           "List the metadata of a server.",
           "GET /servers/{server_id}/metadata"),
    reader("os_compute_api:server-metadata:show",
           "Show a metadata item of a server.",
           "GET /servers/{server_id}/metadata/{key}"),
    member("os_compute_api:server-metadata:create",
           "Add metadata items to a server.",
           "POST /servers/{server_id}/metadata"),
    member("os_compute_api:server-metadata:update_all",
           "Replace the metadata of a server.",
           "PUT /servers/{server_id}/metadata"),
    member("os_compute_api:server-metadata:update",
           "Set a metadata item of a server.",
           "PUT /servers/{server_id}/metadata/{key}"),
    member("os_compute_api:server-metadata:delete",
           "Delete a metadata item of a server.",
           "DELETE /servers/{server_id}/metadata/{key}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
