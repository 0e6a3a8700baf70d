"""Policies: shelved servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin, member

RULES: list[policy.DocumentedRuleDefault] = [
    member("os_compute_api:os-shelve:shelve", "Shelve a server.", "POST /servers/{server_id}/action (shelve)"),
    member("os_compute_api:os-shelve:unshelve", "Unshelve a server.", "POST /servers/{server_id}/action (unshelve)"),
    admin("os_compute_api:os-shelve:unshelve_to_host",
          "Unshelve a server to a named host (2.91).",
          "POST /servers/{server_id}/action (unshelve)"),
    admin("os_compute_api:os-shelve:shelve_offload",
          "Take a shelved server off its host.",
          "POST /servers/{server_id}/action (shelveOffload)"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
