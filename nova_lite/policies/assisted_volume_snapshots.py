"""Policies: snapshots of volumes that the volume service asks the hypervisor for."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import service

RULES: list[policy.DocumentedRuleDefault] = [
    service("os_compute_api:os-assisted-volume-snapshots:create",
            "Create an assisted volume snapshot.",
            "POST /os-assisted-volume-snapshots"),
    service("os_compute_api:os-assisted-volume-snapshots:delete",
            "Delete an assisted volume snapshot.",
            "DELETE /os-assisted-volume-snapshots/{snapshot_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
