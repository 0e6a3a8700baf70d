"""Policies: extra specs of flavors."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-flavor-extra-specs:show",
           "Show an extra spec of a flavor.",
           "GET /flavors/{flavor_id}/os-extra_specs/{key}"),
    admin("os_compute_api:os-flavor-extra-specs:create",
          "Create extra specs of a flavor.",
          "POST /flavors/{flavor_id}/os-extra_specs"),
    admin("os_compute_api:os-flavor-extra-specs:update",
          "Change an extra spec of a flavor.",
          "PUT /flavors/{flavor_id}/os-extra_specs/{key}"),
    admin("os_compute_api:os-flavor-extra-specs:delete",
          "Delete an extra spec of a flavor.",
          "DELETE /flavors/{flavor_id}/os-extra_specs/{key}"),
    reader("os_compute_api:os-flavor-extra-specs:index",
           "List the extra specs of a flavor; from 2.61 they are in the view of flavors, from 2.47 in that of servers.",
           "GET /flavors/{flavor_id}/os-extra_specs", "GET /flavors/detail", "GET /flavors/{flavor_id}",
           "POST /flavors", "PUT /flavors/{flavor_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
