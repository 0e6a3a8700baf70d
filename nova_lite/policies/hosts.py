"""Policies: hosts (up to 2.42)."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import admin

RULES: list[policy.DocumentedRuleDefault] = [
    admin("os_compute_api:os-hosts:list", "List hosts.", "GET /os-hosts"),
    admin("os_compute_api:os-hosts:show", "Show a host.", "GET /os-hosts/{host_name}"),
    admin("os_compute_api:os-hosts:update", "Change the status of a host.", "PUT /os-hosts/{host_name}"),
    admin("os_compute_api:os-hosts:reboot", "Reboot a host.", "GET /os-hosts/{host_name}/reboot"),
    admin("os_compute_api:os-hosts:shutdown", "Shut a host down.", "GET /os-hosts/{host_name}/shutdown"),
    admin("os_compute_api:os-hosts:start", "Start a host.", "GET /os-hosts/{host_name}/startup"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
