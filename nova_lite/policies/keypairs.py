"""Policies: key pairs."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import owner

RULES: list[policy.DocumentedRuleDefault] = [
    owner("os_compute_api:os-keypairs:index", "List key pairs.", "GET /os-keypairs"),
    owner("os_compute_api:os-keypairs:create", "Create a key pair.", "POST /os-keypairs"),
    owner("os_compute_api:os-keypairs:delete", "Delete a key pair.", "DELETE /os-keypairs/{keypair_name}"),
    owner("os_compute_api:os-keypairs:show", "Show a key pair.", "GET /os-keypairs/{keypair_name}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
