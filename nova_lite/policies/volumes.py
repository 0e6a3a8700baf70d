"""Policies: volumes and their snapshots (up to 2.35)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-volumes:list", "List volumes.", "GET /os-volumes"),
    member("os_compute_api:os-volumes:create", "Create a volume.", "POST /os-volumes"),
    reader("os_compute_api:os-volumes:detail", "List volumes with details.", "GET /os-volumes/detail"),
    reader("os_compute_api:os-volumes:show", "Show a volume.", "GET /os-volumes/{volume_id}"),
    member("os_compute_api:os-volumes:delete", "Delete a volume.", "DELETE /os-volumes/{volume_id}"),
    reader("os_compute_api:os-volumes:snapshots:list", "List snapshots.", "GET /os-snapshots"),
    member("os_compute_api:os-volumes:snapshots:create", "Create a snapshot.", "POST /os-snapshots"),
    reader("os_compute_api:os-volumes:snapshots:detail", "List snapshots with details.", "GET /os-snapshots/detail"),
    reader("os_compute_api:os-volumes:snapshots:show", "Show a snapshot.", "GET /os-snapshots/{snapshot_id}"),
    member("os_compute_api:os-volumes:snapshots:delete", "Delete a snapshot.", "DELETE /os-snapshots/{snapshot_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
