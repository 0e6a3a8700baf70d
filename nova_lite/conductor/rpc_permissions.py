"""Who may call which method of the conductor, in one table: compute hosts, control services (API, metadata service, console
proxies, the conductor itself), or both.

A method that is not in the table is refused for all callers (``rpc_callers.py``). Each method checks by ``context.caller``
whether a server belongs to its caller (``host_access.py``, ``host_writes.py``, ``between_hosts.py``).
"""
from __future__ import annotations

from collections.abc import Iterator

from nova_lite.runtime.rpc_callers import ANYBODY, CONTROL, WAKE_UP, Arguments, Rule


def _host(arguments: Arguments) -> Iterator[str]:
    yield arguments["host"]


def _started(arguments: Arguments) -> Iterator[str]:
    yield arguments["host"]
    yield host_of(arguments["owner"])


def _report(arguments: Arguments) -> Iterator[str]:
    return _started(arguments["report"])


_BOTH = Rule(by_control=True)
RULES: dict[str, Rule] = {
    # the answers are not secret
    "ping": ANYBODY, "cloud": ANYBODY,
    # the work of control services
    "schedule_and_build_instances": WAKE_UP, "run_action": WAKE_UP, "get_console_auth_token": CONTROL,
    "key_generations": CONTROL,
    # the metadata service may run on a compute host: there it reads the servers of that host only
    "instance_by_address": _BOTH, "instance_metadata": _BOTH, "set_server_password": _BOTH,
    # compute hosts, about themselves
    "heartbeat": Rule(speaks_for=_report, once=False), "host_started": Rule(speaks_for=_started),
    "power_state_changed": Rule(speaks_for=_host), "sync_power_states": Rule(speaks_for=_host),
    "not_wanted": Rule(speaks_for=_host), "settled_here": Rule(speaks_for=_host), "must_be_off": Rule(speaks_for=_host),
    "network_info_changed": Rule(speaks_for=_host), "share_is_used": Rule(speaks_for=_host),
    "list_host_ports": Rule(speaks_for=_host), "allocate_ports": Rule(speaks_for=_host),
    # compute hosts, about their servers and actions
    "steps": Rule(), "get_instance": Rule(), "list_networks": Rule(), "release_ports": Rule(), "release_port": Rule(),
    "move_ports": Rule(), "list_server_ports": Rule(), "rules_for": Rule(),
    # one host of a move, to the other
    "ask_other_host": Rule(),
}


def host_of(owner: str) -> str:
    """The host of the process that holds a lease: see ``compute/leases.py``."""
    return owner.rsplit(":", 2)[0]
