"""Policies: what was done with a server."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, reader

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-instance-actions:events:details",
          "See the details of failed events (2.84).",
          "GET /servers/{server_id}/os-instance-actions/{request_id}"),
    admin("os_compute_api:os-instance-actions:events",
          "See the events of an action with their tracebacks.",
          "GET /servers/{server_id}/os-instance-actions/{request_id}"),
    reader("os_compute_api:os-instance-actions:list",
           "List the actions of a server.",
           "GET /servers/{server_id}/os-instance-actions"),
    reader("os_compute_api:os-instance-actions:show",
           "Show an action of a server.",
           "GET /servers/{server_id}/os-instance-actions/{request_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
