"""Policies: hypervisors."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-hypervisors:list", "List hypervisors.", "GET /os-hypervisors"),
    admin("os_compute_api:os-hypervisors:list-detail", "List hypervisors with details.", "GET /os-hypervisors/detail"),
    admin("os_compute_api:os-hypervisors:statistics",
          "Sum up all hypervisors (up to 2.87).",
          "GET /os-hypervisors/statistics"),
    admin("os_compute_api:os-hypervisors:show", "Show a hypervisor.", "GET /os-hypervisors/{hypervisor_id}"),
    admin("os_compute_api:os-hypervisors:uptime",
          "Show the uptime of a hypervisor (up to 2.87).",
          "GET /os-hypervisors/{hypervisor_id}/uptime"),
    admin("os_compute_api:os-hypervisors:search",
          "Search hypervisors by name (up to 2.52).",
          "GET /os-hypervisors/{hypervisor_hostname_pattern}/search"),
    admin("os_compute_api:os-hypervisors:servers",
          "List the servers of hypervisors (up to 2.52).",
          "GET /os-hypervisors/{hypervisor_hostname_pattern}/servers"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
