"""Policies: migration of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, manager

RULES: list[policy.DocumentedRuleDefault] = [
    manager("os_compute_api:os-migrate-server:migrate",
            "Migrate a server without naming a host.",
            "POST /servers/{server_id}/action (migrate)"),
    admin("os_compute_api:os-migrate-server:migrate:host",
          "Migrate a server to a named host.",
          "POST /servers/{server_id}/action (migrate)"),
    manager("os_compute_api:os-migrate-server:migrate_live",
            "Migrate a running server without naming a host.",
            "POST /servers/{server_id}/action (os-migrateLive)"),
    admin("os_compute_api:os-migrate-server:migrate_live:host",
          "Migrate a running server to a named host.",
          "POST /servers/{server_id}/action (os-migrateLive)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
