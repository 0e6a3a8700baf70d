"""Policies: flavors."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-flavor-manage:create", "Create a flavor.", "POST /flavors"),
    admin("os_compute_api:os-flavor-manage:update", "Change the description of a flavor.", "PUT /flavors/{flavor_id}"),
    admin("os_compute_api:os-flavor-manage:delete", "Delete a flavor.", "DELETE /flavors/{flavor_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
