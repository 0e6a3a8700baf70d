"""Who may call which method of a compute host, in one table: the control plane only. Another compute host asks the conductor
(``conductor/between_hosts.py``). A method that is not in the table is refused for all callers (``runtime/rpc_callers.py``).
"""
from __future__ import annotations

from nova_lite.runtime.rpc_callers import CONTROL, Rule

RULES: dict[str, Rule] = {
    # the action says what has to be done
    "wake": CONTROL,
    # notifications about servers, ports, images
    "look_for_left_behind": CONTROL, "external_instance_event": CONTROL, "refresh_security_rules": CONTROL,
    "cache_images": CONTROL,
    # queries of users
    "get_console_output": CONTROL, "get_diagnostics": CONTROL, "check_admin_password": CONTROL, "get_console": CONTROL,
    "validate_console": CONTROL,
    # freezing a guest for a snapshot
    "quiesce": CONTROL, "unquiesce": CONTROL,
    # moves
    "live_migration_facts": CONTROL, "live_migration_refused": CONTROL, "check_live_migration": CONTROL,
    "waits_for_rest": CONTROL, "offer_for_live_migration": CONTROL, "leave": CONTROL, "holds": CONTROL, "arrived": CONTROL,
}
