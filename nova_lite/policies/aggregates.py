"""Policies: host aggregates."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-aggregates:set_metadata",
          "Set or remove the metadata of an aggregate.",
          "POST /os-aggregates/{aggregate_id}/action (set_metadata)"),
    admin("os_compute_api:os-aggregates:add_host",
          "Add a host to an aggregate.",
          "POST /os-aggregates/{aggregate_id}/action (add_host)"),
    admin("os_compute_api:os-aggregates:create", "Create an aggregate.", "POST /os-aggregates"),
    admin("os_compute_api:os-aggregates:remove_host",
          "Take a host out of an aggregate.",
          "POST /os-aggregates/{aggregate_id}/action (remove_host)"),
    admin("os_compute_api:os-aggregates:update",
          "Change name or zone of an aggregate.",
          "PUT /os-aggregates/{aggregate_id}"),
    admin("os_compute_api:os-aggregates:index", "List aggregates.", "GET /os-aggregates"),
    admin("os_compute_api:os-aggregates:delete", "Delete an aggregate.", "DELETE /os-aggregates/{aggregate_id}"),
    admin("os_compute_api:os-aggregates:show", "Show an aggregate.", "GET /os-aggregates/{aggregate_id}"),
    admin("compute:aggregates:images",
          "Cache images on the hosts of an aggregate.",
          "POST /os-aggregates/{aggregate_id}/images"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
