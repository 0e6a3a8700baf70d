"""Policies: ports of a server."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-attach-interfaces:list",
           "List the interfaces of a server.",
           "GET /servers/{server_id}/os-interface"),
    reader("os_compute_api:os-attach-interfaces:show",
           "Show an interface of a server.",
           "GET /servers/{server_id}/os-interface/{port_id}"),
    member("os_compute_api:os-attach-interfaces:create",
           "Attach an interface to a server.",
           "POST /servers/{server_id}/os-interface"),
    member("os_compute_api:os-attach-interfaces:delete",
           "Detach an interface from a server.",
           "DELETE /servers/{server_id}/os-interface/{port_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
