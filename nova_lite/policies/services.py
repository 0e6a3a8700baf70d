"""Policies: services of the cloud."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-services:list", "List services.", "GET /os-services"),
    admin("os_compute_api:os-services:update",
          "Enable, disable or force down a service.",
          "PUT /os-services/{service_id}"),
    admin("os_compute_api:os-services:delete", "Delete a service.", "DELETE /os-services/{service_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
